"""What every chapter has to keep, besides running."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted(path for path in (ROOT / "book").rglob("*.md") if "{code-cell}" in path.read_text(encoding="utf-8"))
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
