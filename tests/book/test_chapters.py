"""What every chapter has to keep, besides running."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "book").rglob("*.md"))
CHAPTERS = [path for path in PAGES if "{code-cell}" in path.read_text(encoding="utf-8")]
CODE_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGE_WIDTH = 76  # characters of code that fit the page without scrolling


def code_of(cell):
    """Return a cell's code, without its options."""
    cell = re.sub(r"\A---\n.*?^---\n", "", cell, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\A(?::\w.*\n)+", "", cell)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_code_fits_the_page(chapter):
    cells = CODE_CELL.findall(chapter.read_text(encoding="utf-8"))
    lines = [line for cell in cells for line in code_of(cell).splitlines()]
    assert lines
    assert [line for line in lines if len(line) > PAGE_WIDTH] == []


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_what_moves_has_a_caption_that_says_so_and_words(chapter):
    """Who cannot see it, or has it on paper, gets the words; the site fails without them, the notebook would not."""
    for cell in CODE_CELL.findall(chapter.read_text(encoding="utf-8")):
        if re.search(r"\bplots\.(?:moving_\w+|Moving)\(", code_of(cell)):
            options = yaml.safe_load(re.match(r"---\n(.*?)^---\n", cell, re.DOTALL | re.MULTILINE)[1])["mystnb"]
            assert "slider" in options["image"]["alt"]
            assert "slider" in options["figure"]["caption"]
            assert options["figure"]["name"]


def named(part):
    """Return every file that a part of the table of contents names."""
    if isinstance(part, list):
        return [name for entry in part for name in named(entry)]
    if not isinstance(part, dict):
        return []
    own = [value for key, value in part.items() if key in ("root", "file")]
    return own + [name for value in part.values() for name in named(value)]


def test_the_table_of_contents_names_every_chapter():
    """One that it does not name would be exported, and yet neither run nor checked."""
    contents = named(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    chapters = [path.relative_to(ROOT).with_suffix("").as_posix() for path in PAGES]
    assert sorted(name.removesuffix(".md") for name in contents) == sorted(chapters)


def comments(text):
    """Return the lines that begin with a percent sign: MyST takes them for comments, and they vanish from the page."""
    prose = CODE_CELL.sub(lambda cell: cell[1].removesuffix(code_of(cell[1])), text)  # captions are prose too
    return [line for line in prose.splitlines() if re.match(r"\s*%", line)]


def test_a_percent_sign_that_begins_a_line_is_found():
    cell = "```{code-cell} ipython3\n---\ncaption: |\n  Less than 3\n  % each.\n---\n%matplotlib inline\n```\n"
    assert comments(f"Less than 3\n% each. Not\n5 % of it.\n\n{cell}") == ["% each. Not", "  % each."]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_no_line_of_a_page_vanishes(page):
    assert comments(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_title_holds_no_formula(page):
    """It stands in every page's navigation too, and a page without formulas does not set them."""
    title = next(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    assert "$" not in title


def test_titles_of_works_hold_no_formula():
    works = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert not re.findall(r"^\s*title\s*=.*\$.*", works, re.MULTILINE)
