"""The book as a whole: its chapters in order, its labels and numbers, where it lives, and so where a link leads."""

import os.path
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

import yaml
from pybtex.database.input.bibtex import Parser

from tools.notebook_blocks import Block, ChapterError, walk

THEOREMS = tuple(f"prf:{kind}" for kind in "theorem lemma proposition corollary definition example".split())
NUMBERED = ("exercise", "figure", *THEOREMS)
LABEL = re.compile(r"[A-Za-z][\w-]{0,63}")


class Label(NamedTuple):
    """Something that can be linked to, and the number and title it bears, if any."""

    chapter: str
    line: int
    number: int | None = None
    title: str = ""


def figure(block: Block) -> dict:
    """What a code cell says about the figure it draws (``mystnb.figure``); empty if it draws none."""
    return (block.options.get("mystnb") or {}).get("figure") or {}


def fragment(label: str) -> str:
    """What follows ``#`` in a link to `label`.

    Colab jumps to cells alone, by ``#scrollTo=`` and the cell's id; other readers jump to whatever bears
    the fragment as its id. A label leads its cell, gives it its id, and writes this anchor.
    """
    return f"scrollTo={label}"


def anchor(label: str) -> str:
    """Return the HTML that `fragment` leads to."""
    return f'<a id="{fragment(label)}" name="{label}"></a>'


def label_of(block: Block) -> str:
    """Return the label that a directive gives itself; empty if none."""
    return str(block.options.get("label") or block.options.get("name") or "")


class Book:
    """The chapters under `root`/book, in the order of the table of contents, and every label in them.

    Attributes
    ----------
    root : Path
    url, branch : str
        Address of the repository, and the branch that Colab opens notebooks from.
    chapters : dict of str to str
        Text of each chapter, by its path from `root`.
    notebooks : set of str
        The chapters that have code cells, and so a notebook.
    labels : dict of str to Label
    terms : dict of str to str
        The path of the glossary that defines a term, by the term in lower case.
    first : dict of str to dict
        For each chapter, how many exercises, figures, theorems, ... come before it. The site counts through the book.
    references : dict of str to pybtex.database.Entry
        Every entry of the BibTeX files.
    """

    def __init__(self, root: Path):
        self.root = root
        config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
        self.url = config["repository"]["url"]
        self.branch = config["repository"]["branch"]
        self.references = {}
        for name in config.get("bibtex_bibfiles", []):
            self.references.update(Parser().parse_file(root / name).entries)
        self.chapters = {path: (root / path).read_text(encoding="utf-8") for path in self._paths()}
        self.notebooks, self.labels, self.terms, self.first = set(), {}, {}, {}
        counts = dict.fromkeys(NUMBERED, 0)
        for path in self.chapters:
            self.first[path] = dict(counts)
            self._scan(path, counts)

    def _paths(self) -> list[str]:
        """Paths of the chapters, those of the table of contents first."""
        contents = (self.root / "_toc.yml").read_text(encoding="utf-8")
        if re.search(r"\bnumbered:", contents):
            raise ChapterError("_toc.yml", 1, "notebooks count exercises through the book, not by section")
        listed = [f"{name}.md" for name in re.findall(r"(?:file|root): *([\w/.-]+?)(?:\.md)?\s*$", contents, re.M)]
        found = [path.relative_to(self.root).as_posix() for path in sorted(self.root.glob("book/**/*.md"))]
        return [path for path in listed if path in found] + [path for path in found if path not in listed]

    def _scan(self, path: str, counts: dict[str, int]) -> None:
        """Collect the labels and terms of one chapter, and count what is numbered in it."""
        for block, line in walk(self.chapters[path], 1, path):
            kind, label, number = block.name, label_of(block), None
            if kind == "glossary":  # a term stands at the margin, what it means is indented below
                self.terms |= {term.lower(): path for term in re.findall(r"^\S.*", block.text, re.MULTILINE)}
            if block.kind == "target":
                label = block.text
            if kind == "code-cell":
                self.notebooks.add(path)
                kind, label = ("figure", figure(block).get("name", "")) if figure(block) else ("", "")
            if kind in NUMBERED and "nonumber" not in block.options:
                counts[kind] += 1
                number = counts[kind]
            if label:
                self._add(label, Label(path, line, number, block.argument))

    def _add(self, name: str, label: Label) -> None:
        """Add a label, unless it is there already or cannot be an anchor."""
        if name in self.labels:
            other = self.labels[name]
            raise ChapterError(label.chapter, label.line, f"label {name} is also in {other.chapter}:{other.line}")
        if not LABEL.fullmatch(name):
            raise ChapterError(label.chapter, label.line, f"label {name!r} needs letters, digits and hyphens alone")
        self.labels[name] = label

    def link(self, target: str, chapter: str) -> str:
        """Where a link to `target`, written in `chapter`, leads from the chapter's notebook.

        Raises
        ------
        ValueError
            If there is no such label, chapter or file.
        """
        if re.match(r"https?://|mailto:", target):
            return target
        path, _, label = target.partition("#")
        if label and label not in self.labels:
            raise ValueError(f"no label {label} in the book")
        if not path:
            path = self.labels[label].chapter
        else:
            base = "." if path.startswith("/") else PurePosixPath(chapter).parent
            path = PurePosixPath(os.path.normpath(base / PurePosixPath(unquote(path).lstrip("/")))).as_posix()
            if not (self.root / path).exists():
                raise ValueError(f"no file {path}")
            if label and self.labels[label].chapter != path:
                raise ValueError(f"label {label} is in {self.labels[label].chapter}")
        if path == chapter:
            return f"#{fragment(label)}" if label else self.colab(path)
        if path in self.notebooks:
            return self.colab(path) + (f"#{fragment(label)}" if label else "")
        # HEAD is whatever branch the repository shows first: the text is there, the notebooks may be elsewhere.
        return f"{self.url}/blob/HEAD/{path}" + (f"#{label}" if label else "")

    def define(self, term: str, chapter: str) -> str:
        """Where a link from `chapter` to the meaning of `term` leads: to the glossary as a whole.

        Raises
        ------
        ValueError
            If no glossary has the term.
        """
        if term.lower() not in self.terms:
            raise ValueError(f"no term {term!r} in the glossary")
        return self.link(f"/{self.terms[term.lower()]}", chapter)

    def colab(self, chapter: str) -> str:
        """Address at which Colab opens the notebook of `chapter`."""
        repository = self.url.removeprefix("https://github.com/")
        notebook = PurePosixPath(chapter).with_suffix(".ipynb")
        return f"https://colab.research.google.com/github/{repository}/blob/{self.branch}/{notebook}"
