"""A book of two pages with the real settings, to plant faults in."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

REPOSITORY = Path(__file__).parents[2]
PAGE = (Path(__file__).parent / "fixtures" / "page.md").read_text(encoding="utf-8")

TOC = """format: jb-book
root: book/index
chapters:
  - file: book/page
"""
INDEX = """# A tiny book

It has [one page](page.md), and the rarest word of this one, which has $K$ of them, is quincunx.
"""
WORKS = "@book{someone2020, author = {Someone, A.}, title = {A book}, publisher = {A house}, year = {2020}}\n"
BIBLIOGRAPHY = "\n## Works\n\n```{bibliography}\n```\n"


def make_book(root: Path, page: str = PAGE) -> Path:
    """Write the book, with the package beside it, so that both can be changed."""
    book = root / "book"
    for folder in ("book/_ext", "book/_static", "gma_ref"):
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(REPOSITORY / "_config.yml", root / "_config.yml")
    (root / "_toc.yml").write_text(TOC, encoding="utf-8")
    (book / "index.md").write_text(INDEX + BIBLIOGRAPHY, encoding="utf-8")
    (book / "references.bib").write_text(WORKS, encoding="utf-8")
    (book / "page.md").write_text(page, encoding="utf-8")
    nbformat.write(nbformat.v4.new_notebook(), book / "page.ipynb")
    return root


def build(root: Path) -> tuple[bool, str]:
    """Build the book as ``make book`` does; return whether it went well, and what was said."""
    path = os.pathsep.join([str(root), str(REPOSITORY)])
    done = subprocess.run(
        [sys.executable, "-m", "tools.book", str(root), "--no-check"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
    )
    return done.returncode == 0, re.sub(r"\x1b\[[\d;]*m", "", done.stdout)
