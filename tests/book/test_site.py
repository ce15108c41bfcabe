"""The check of the site reports what it should: faults are planted in a tiny site, and each must be named."""

import ast
import re
import shutil
import sys
from itertools import pairwise
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from bs4 import BeautifulSoup

import gma_ref
from tests.book.tiny_book import REPOSITORY, build, make_book
from tools import browser, check_site, site_files, site_memory

COLAB = "https://colab.research.google.com/github/YOUR_ACCOUNT/gma-book/blob/gh-pages/book/page.ipynb"
LOGO = '<img src="../_static/logo.svg"'
# Far below the screen, and not in the file: only a browser that gets there would ask for it.
LAZY = (
    '<p style="height: 20000px"></p><p id="last"></p><script>document.getElementById("last").innerHTML ='
    ' `<img alt="A" loading="lazy" src="https://${"lazy"}.example/a.png">`</script>'
)
STUCK = (
    '<figure class="moving"><div class="moving-picture" role="img" aria-label="A dot that stays"><svg></svg></div>'
    '<input type="range" max="2" aria-label="place"></figure>'
)
NARROW, LONG = "width: 5em; white-space: nowrap;", "a line that is longer than its box"
REPOSITORY_URL = "https://github.com/YOUR_ACCOUNT/gma-book"

# (a page, what is written into its article, what must be reported)
PLANTED = [
    ("requests", '<img src="https://example.com/a.png" alt="A">', "asks another host for https://example.com/a.png"),
    ("requests", '<script>fetch("https://example.org/").catch(() => 0)</script>', "another host for https://example.org/"),
    ("requests", "<style>@import url(https://example.net/a.css)</style>", "asks another host for https://example.net/"),
    ("requests", '<link rel="preconnect" href="https://a.example">', "asks another host for https://a.example"),
    ("requests", '<img src="../_images/none.png" alt="A line">', "_images/none.png, which gives 404"),
    ("requests", '<img src="../../outside.png" alt="A line">', "../../outside.png, which does not exist"),
    ("loads", '<img src="../_static/logo.svg" srcset="a.png 1x,https://a.example/b.png 2x" alt="A">', "https://a.example/b"),
    ("loads", '<picture><source srcset="https://b.example/b.png"></picture>', "another host for https://b.example/b.png"),
    ("loads", '<video src="https://c.example/c.mp4"></video>', "another host for https://c.example/c.mp4"),
    ("loads", '<video poster="https://d.example/d.png"></video>', "another host for https://d.example/d.png"),
    ("loads", '<audio src="https://e.example/e.mp3" preload="none"></audio>', "another host for https://e.example/e.mp3"),
    ("loads", '<object data="https://f.example/f.svg"></object>', "another host for https://f.example/f.svg"),
    ("loads", '<embed src="https://g.example/g.svg">', "another host for https://g.example/g.svg"),
    ("loads", '<svg><image href="https://h.example/h.png"/></svg>', "another host for https://h.example/h.png"),
    ("loads", '<img src="../_static/logo.svg" srcset="../gone.png 2x" alt="A">', "gone.png, which does not exist"),
    ("lazy", LAZY, "1280 px: asks another host for https://lazy.example/a.png"),
    ("console", '<script>console.error("oh no")</script>', "logs an error: oh no"),
    ("console", "<script>nowhere()</script>", "throws an error: nowhere is not defined"),
    ("raw", r"<p>the slot \tilde V</p>", r"shows raw markup: \tilde"),
    ("raw", r"<p>the query \query{q}</p>", r"shows raw markup: \query"),
    ("raw", "<p>$$ x $$</p>", "shows raw markup: $$"),
    ("raw", "<p>as $y$ grows</p>", "shows raw markup: $y$"),
    ("raw", "<p>the mass x_{k} of a slot</p>", "shows raw markup: x_{k}"),
    ("raw", "<p>the key ^{K} of</p>", "shows raw markup: ^{K}"),
    ("raw", "<p>see ???</p>", "shows raw markup: ???"),
    ("raw", "<p>see {cite:p}`someone2020`</p>", "shows raw markup: {cite:p}`"),
    ("raw", "<p>(eq-9)=</p>", "shows raw markup: (eq-9)="),
    ("raw", "<p>```{note}</p>", "shows raw markup: ```"),
    ("raw", r"<details><summary>Hidden</summary><p>\gamma_k</p></details>", r"shows raw markup: \gamma"),
    ("raw", rf'{LOGO} alt="The slot $\bar V$">', r"shows raw markup: $\bar V$"),
    ("formulas", r'<div class="math">\[ \begin{split} a \\ b \tag{5} \end{split} \]</div>', "that MathJax refuses"),
    ("macros", r'<div class="math">\[ \nosuchmacro \]</div>', "has a formula that MathJax refuses"),
    ("wide", '<div class="broad" style="width: 600px">wide</div>', '390 px: is wider than the screen: <div class="b'),
    ("wide", '<div style="overflow: hidden"><p class="cut" style="width: 500px">w</p></div>', '<p class="cut'),
    ("left", '<div class="early" style="margin-left: -80px">l</div>', '390 px: is wider than the screen: <div class='),
    ("left", '<p class="away" style="position: relative; left: -900px">w</p>', 'wider than the screen: <p class="away'),
    ("cut", f'<div style="{NARROW} overflow: hidden">{LONG}</div>', '390 px: cuts off what is in <div class'),
    ("cut", f'<p class="clip" style="{NARROW} overflow: clip">{LONG}</p>', '1280 px: cuts off what is in <p class'),
    ("cut", rf'<span class="math">\({"+ a" * 60}\)</span>', '390 px: cuts off what is in <span class="math'),
    ("figures", f"{LOGO}>", "has a figure with the alternative text ''"),
    ("figures", f'{LOGO} alt="output_12_0.png">', "has a figure with the alternative text 'output_12_0.png'"),
    ("squeezed", f'{LOGO} alt="The logo" style="width: 9em; height: 1em !important">', "squeezes the picture The logo"),
    ("drawings", '<figure><svg width="9" height="9"></svg></figure>', "has a figure with the alternative text ''"),
    ("contrast", '<p style="color: #aaa; background: #fff">words</p>', 'minimum color contrast ratio thresholds: <p'),
    ("contrast", "<button></button>", "axe, critical: Buttons must have discernible text"),
    ("dim", '<p style="color: #444">words</p>', "(dark)"),
    ("bright", '<p style="color: #ccc">words</p>', "(light)"),
    ("folded", '<details><summary>S</summary><p style="color: #777; background: #888">words</p></details>', "contrast"),
    ("drawings", '<p><span class="cell_output"><span role="img">p</span></span></p>', "with the alternative text ''"),
    ("stuck", STUCK, "1280 px: has a picture that does not move: A dot that stays"),
    ("searches", '<input type="search" aria-label="again">', "shows 2 search fields"),
    ("links", '<a href="nowhere.html">x</a>', "links to nowhere.html, which does not exist"),
    ("links", '<a href="page.html#gone">x</a>', "links to page.html#gone, where there is no such anchor"),
    ("links", '<a href="#lost">x</a>', "links to #lost, where there is no such anchor"),
    ("links", f'<a href="{REPOSITORY_URL}/blob/HEAD/gone.py#L1">x</a>', "links to gone.py in the repository"),
    ("links", f'<a href="{REPOSITORY_URL}/tree/HEAD/book/gone">x</a>', "links to book/gone in the repository"),
    ("links", f'<a href="{REPOSITORY_URL}/blob/gh-pages/lost.py?raw=1">x</a>', "links to lost.py in the repository"),
    ("links", f'<a href="{REPOSITORY_URL}/blob/main/book/lost.md">x</a>', "links to book/lost.md in the repository"),
    ("stderr", '<div class="output stderr"><pre>a.py:1: A Warning</pre></div>', "wrote to stderr: a.py:1: A Warning"),
    ("heavy", f"<!-- {'x' * site_files.LIMIT} -->", "weighs 1.0"),
]  # fmt: skip

# What may be taken for a fault and is none
SOUND = f"""
<a href="{REPOSITORY_URL}/blob/HEAD/book/page.md#L1">a file</a> <a href="{REPOSITORY_URL}/tree/main/book">a folder</a>
<a href="{REPOSITORY_URL}/issues">issues</a> <a href="https://github.com/a/b/blob/HEAD/theirs.py">another's</a>
<div style="{NARROW} overflow-x: auto" tabindex="0">{LONG}</div>
<div style="overflow: hidden"><pre style="overflow-x: auto" tabindex="0">{LONG * 9}</pre></div>
<p style="position: absolute; left: -9999px">for screen readers</p>
<p>a file_name, <code>x_{{k}}</code>, <span class="math">\\(x_{{k}}\\)</span></p>
<div class="math">\\[\\underbrace{{a + b + c + d + e + f + g + h}}_{{\\text{{drawn in pieces}}}}\\]</div>
{LOGO} srcset="../_static/favicon.svg 1x, data:image/gif;base64,R0lGODlhAQABAAAAACw= 2x" alt="The logo">
"""

# what is replaced in a chapter with code, by what, and what must be reported
CHANGED = [
    (COLAB, COLAB.replace(".ipynb", ".md"), "on Colab, not its own notebook"),
    (COLAB, COLAB.replace("book/page", "book/index"), "on Colab, not its own notebook"),
    (COLAB, "https://example.com/", "has no Colab button"),
    ("btn-download-notebook-button", "btn-other", "has no download button"),
    ("_sources/book/page.ipynb", "_sources/book/page.md", "which is no notebook"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A tiny book, built."""
    root = make_book(tmp_path_factory.mktemp("book"))
    green, said = build(root)
    assert green, said
    return root


@pytest.fixture(scope="module")
def faults(root):
    """All faults of its site, after pages with planted ones were added."""
    site = root / "_build" / "html"
    clean = (site / "book" / "index.html").read_text(encoding="utf-8")
    end = clean.index("</section>", clean.index("<article"))
    for name in {page for page, _, _ in PLANTED} | {"sound"}:
        html = "".join(html for page, html, _ in PLANTED if page == name) or SOUND
        (site / "book" / f"{name}.html").write_text(clean[:end] + html + clean[end:], encoding="utf-8")
        shutil.copyfile(site / "_sources" / "book" / "index.md", site / "_sources" / "book" / f"{name}.md")
    return check_site.check(site, root)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["book/page.html", "book/index.html", "search.html"])
def test_sound_page_has_no_fault(faults, page):
    assert [fault for fault in faults if fault.startswith(page)] == []


@pytest.mark.slow
@pytest.mark.parametrize(("page", "html", "report"), PLANTED, ids=[report for *_, report in PLANTED])
def test_planted_fault_is_reported(faults, page, html, report):
    found = [fault for fault in faults if fault.startswith(f"book/{page}.html")]
    assert any(report in fault for fault in found), found


@pytest.mark.slow
def test_only_pages_without_fault_are_not_opened_again(root, faults):
    remembered = site_memory.recall(root / "_build" / "html")
    assert {"book/page.html", "book/index.html", "search.html", "book/sound.html"} <= set(remembered)
    assert not {f"book/{page}.html" for page in ("console", "raw", "wide", "dim", "bright")} & set(remembered)


@pytest.mark.parametrize(
    ("changed", "opened"),
    [
        ("a.html", {"a.html"}),
        ("b.html", {"b.html"}),
        ("_images/p.png", {"b.html"}),
        ("_static/s.css", {"a.html", "b.html"}),
    ],
)
def test_page_is_opened_again_when_it_or_what_it_loads_changes(tmp_path, changed, opened):
    for name in ("a.html", "b.html", "_images/p.png", "_static/s.css"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('<img src="_images/p.png">' if name == "b.html" else "as it was", encoding="utf-8")
    before = site_memory.fingerprints(tmp_path, ["a.html", "b.html"])
    assert site_memory.fingerprints(tmp_path, ["a.html", "b.html"]) == before
    with (tmp_path / changed).open("a", encoding="utf-8") as file:
        file.write(" and more")
    after = site_memory.fingerprints(tmp_path, ["a.html", "b.html"])
    assert {name for name in after if after[name] != before[name]} == opened


@pytest.mark.slow
def test_moving_picture_has_its_words_and_its_script_on_its_page_only(root):
    site = root / "_build" / "html"
    page, other = (
        BeautifulSoup((site / "book" / name).read_text(encoding="utf-8"), "html.parser")
        for name in ("page.html", "index.html")
    )
    (picture,) = page.select("figure#fig-moving .moving .moving-picture")
    words = 'A dot that moves from left to right, "as told", & a <slider>.'
    assert (picture["role"], picture["aria-label"], picture.get_text()) == ("img", words, words)
    assert (site / "_static" / "plotly.min.js").stat().st_size > 1e6
    for soup, count in ((page, 1), (other, 0)):
        assert len(soup.select('script[src*="_static/moving.js"]')) == count
        assert not soup.select('script[src*="plotly"]')  # it is fetched when the picture comes near


def test_page_is_weighed_without_its_neighbours(tmp_path):
    page, heavy = tmp_path / "page.html", "x" * site_files.LIMIT
    (tmp_path / "heavy.html").write_text(heavy, encoding="utf-8")
    (tmp_path / "heavy.png").write_text(heavy, encoding="utf-8")
    page.write_text('<link rel="next" href="heavy.html"><link rel="prev" href="gone.html">', encoding="utf-8")
    assert site_files.weight(tmp_path, page) == []
    assert site_files.dead_links(tmp_path, page) == ["links to gone.html, which does not exist"]
    other = tmp_path / "other.html"
    other.write_text('<img src="heavy.png">', encoding="utf-8")
    assert len(site_files.weight(tmp_path, other)) == 1


@pytest.mark.slow
def test_what_is_sound_is_not_reported(faults):
    found = [fault for fault in faults if fault.startswith("book/sound.html")]
    assert [fault for fault in found if "not found by searching" not in fault] == []  # it came after the index


@pytest.mark.slow
def test_fault_of_one_theme_is_not_one_of_the_other(faults):
    assert not any("book/dim.html" in fault and "(light)" in fault for fault in faults)
    assert not any("book/bright.html" in fault and "(dark)" in fault for fault in faults)


@pytest.mark.slow
def test_page_that_the_search_does_not_know_is_reported(faults):
    assert any(fault.startswith("book/wide.html is not found by searching") for fault in faults)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "report"), CHANGED)
def test_wrong_notebook_behind_a_button_is_reported(root, faults, old, new, report):
    page = root / "_build" / "html" / "book" / "page.html"
    clean = page.read_text(encoding="utf-8")
    assert old in clean
    page.write_text(clean.replace(old, new), encoding="utf-8")
    found = site_files.check(root / "_build" / "html", root)
    page.write_text(clean, encoding="utf-8")
    assert any(fault.startswith("book/page.html") and report in fault for fault in found), found


@pytest.mark.slow
def test_download_that_is_not_the_committed_notebook_is_reported(root, faults):
    offered = root / "_build" / "html" / "_sources" / "book" / "page.ipynb"
    committed = (root / "book" / "page.ipynb").read_bytes()
    offered.write_bytes(committed + b"\n")
    found = site_files.check(root / "_build" / "html", root)
    offered.write_bytes(committed)
    assert any("which is not the committed notebook" in fault for fault in found), found


@pytest.mark.slow
def test_missing_notebook_is_reported(root, faults):
    committed = root / "book" / "page.ipynb"
    hidden = committed.rename(root / "hidden")
    found = site_files.check(root / "_build" / "html", root)
    hidden.rename(committed)
    assert any("opens book/page.ipynb on Colab, which does not exist" in fault for fault in found), found


def test_api_page_documents_every_public_name():
    page = (REPOSITORY / "book" / "appendix" / "api.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\.\. auto(?:function|class):: (\w+)$", page, re.MULTILINE)
    public = {*gma_ref.reference.__all__, *gma_ref.diagnostics.__all__, "character_categories", "character_features"}
    assert public <= set(documented)


@pytest.mark.parametrize("name", gma_ref.models._LAZY)
def test_api_page_documents_the_models_room(name):
    module, page = getattr(gma_ref.models, name), (REPOSITORY / "book" / "appendix" / "api.md").read_text("utf-8")
    public = {one for one in module.__all__ if callable(getattr(module, one)) and one != "main"}
    public -= set(re.findall(r"^\.\. auto(?:function|class|exception):: (\w+)$", page, re.MULTILINE))
    assert not public


def described():
    """Yield what the API page may show of the package, with its path: docstrings, and those of attributes."""
    for path in sorted((REPOSITORY / "gma_ref").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for before, own in pairwise(getattr(node, "body", []) if isinstance(node, ast.ClassDef) else []):
                if isinstance(before, ast.AnnAssign) and isinstance(own, ast.Expr):
                    yield path, "attribute", own.value.value
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield path, "docstring", ast.get_docstring(node) or ""


def test_no_description_is_taken_for_something_else():
    """A line "K." is the eleventh point of a list to docutils, and "Warm-up: ..." an attribute of the type Warm-up."""
    found = {"attribute": 0, "docstring": 0}
    for path, kind, text in described():
        found[kind] += 1
        assert not re.search(r"^ *(?:[A-Za-z]|[ivxIVX]+)\.(?: |$)", text, re.MULTILINE), (path, text)
        assert kind == "docstring" or ": " not in text, (path, text)
    assert min(found.values()) > 30


def test_address_outside_the_sub_path_is_not_served(tmp_path):
    (tmp_path / "index.html").write_text("here", encoding="utf-8")
    with check_site.served(tmp_path) as base:
        assert urlopen(base + "index.html").read() == b"here"
        with pytest.raises(HTTPError, match="404"):
            urlopen(base.removesuffix(check_site.SUB_PATH) + "/index.html")


def test_browser_can_be_named_and_must_exist(monkeypatch):
    monkeypatch.setenv("CHROMIUM", sys.executable)
    assert browser.find() == sys.executable
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    with pytest.raises(SystemExit, match="no program is there"):
        browser.find()


@pytest.mark.parametrize(("user", "installers"), [(0, ["playwright", "apt-get", "apt-get"]), (1000, ["playwright"])])
def test_missing_browser_is_installed_or_asked_for(monkeypatch, user, installers):
    tried = []
    monkeypatch.setattr(browser, "find", lambda: None)
    monkeypatch.setattr(browser.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(browser.os, "geteuid", lambda: user)
    monkeypatch.setattr(browser.subprocess, "run", lambda command, **_: tried.append(" ".join(command)))
    with pytest.raises(SystemExit, match="Install Chromium or Chrome"):
        browser.obtain()
    assert [next(name for name in ("playwright", "apt-get") if name in command) for command in tried] == installers
