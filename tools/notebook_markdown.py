"""One chapter's MyST as cells: Markdown that any notebook reader shows, and code."""

import hashlib
import re
import textwrap
from collections import Counter
from itertools import count
from typing import NamedTuple

from markdown_it import MarkdownIt

from tools.notebook_blocks import Block, ChapterError, find_blocks
from tools.notebook_book import THEOREMS, Book, anchor, figure, label_of
from tools.notebook_cite import REFERENCES, Citations
from tools.notebook_inline import COMMENT, HTML, Inline
from tools.notebook_math import MACRO, formula

ADMONITIONS = ("note", "tip", "warning", "important", "admonition")
OPTIONS = {"class", "label", "name", "nonumber", "open", "icon", "color", "animate", "margin"}
TOP_LEVEL = {"code-cell": {"tags", "mystnb"}, "solution-start": {"class"}, "solution-end": set()}
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}


class Cell(NamedTuple):
    """A cell of the notebook to be: its kind, text, id, tags, and whether its code is folded."""

    kind: str
    text: str
    name: str
    tags: tuple[str, ...] = ()
    folded: bool = False


class Chapter:
    """Turns the chapter at `path` into cells.

    A Markdown cell begins at each heading, since Colab lists one heading a cell in its table of contents, and at
    each label, since Colab's links lead to cells.
    """

    def __init__(self, book: Book, path: str):
        self.book, self.path = book, path
        self.citations = Citations(book)
        self.inline = Inline(book, path, self.citations)
        self.counts = dict(book.first[path])
        self.done: list[Cell] = []
        self.open: list[str] = []  # what the Markdown cell being written holds so far
        self.label = ""  # the label that leads it
        self.solution = ""  # the title of the solution being written, if one is

    def cells(self) -> list[Cell]:
        """Return the cells, the references last."""
        for block, line, written in self._pieces(self.book.chapters[self.path], 1, quoted=False, top=True):
            name = block.name if block is not None and block.kind == "directive" else ""
            if name == "code-cell":
                self._close()
                self._code(block, line)
            elif name == "solution-start":
                self._close()
                self.solution = self._solution_title(block, line)
            elif name == "solution-end" or (block is not None and block.kind == "break"):
                self._close()
                self.solution = "" if name else self.solution
            else:
                if block is not None:
                    self._lead(block)
                self.open.append(written)
        if self.solution:
            raise ChapterError(self.path, line, "the last solution does not end")
        self._close()
        if references := self.citations.references():
            self._add("markdown", references, REFERENCES)
        return self.done

    # Cells

    def _lead(self, block: Block) -> None:
        """Begin a Markdown cell if `block` is one to begin a cell with."""
        label = block.text if block.kind == "target" else label_of(block)
        heads = block.kind == "heading" and len(block.text) <= 3
        if self.solution or not (label or heads):
            return
        if not all(part.startswith("<a id=") for part in self.open):
            self._close()
        self.label = self.label or label

    def _close(self) -> None:
        """Finish the Markdown cell being written. In a solution it is folded, so that a reader can try first."""
        text = "\n\n".join(part.strip("\n") for part in self.open if part.strip())
        if text and self.solution:
            text = details(self.solution, text)
            self.solution = "Solution, continued"
        if text:
            self._add("markdown", text, self.label)
        self.open, self.label = [], ""

    def _add(self, kind: str, text: str, name: str = "", tags=(), folded: bool = False) -> None:
        """Add a cell. Without a name its id comes from its text, so that an edit changes no other cell's."""
        name = name or hashlib.sha256(text.encode()).hexdigest()[:8]
        taken = {cell.name for cell in self.done}
        unique = next(n for i in count(1) if (n := f"{name}-{i}" if i > 1 else name) not in taken)
        self.done.append(Cell(kind, text, unique, tuple(tags), folded))

    def _code(self, block: Block, line: int) -> None:
        """Add a code cell, and what its figure says."""
        if macro := MACRO.search(block.text):
            here = block.body_line + block.text.count("\n", 0, macro.start())
            raise ChapterError(self.path, here, f"{macro.group().strip()} in code: only the pages know the colours")
        tags = block.options.get("tags") or []
        if self.solution and self.solution != "Solution, continued":
            self._add("markdown", f"**{self.solution}** (folded in the next cell)")
            self.solution = "Solution, continued"
        folded = bool(self.solution) or not FOLDED.isdisjoint(tags)
        self._add("code", block.text.strip("\n"), tags=tags, folded=folded)
        if drawn := figure(block):
            label, alt = drawn.get("name", ""), block.options["mystnb"].get("image", {}).get("alt", "")
            caption = self._render(drawn.get("caption", ""), line, quoted=False)
            parts = [anchor(label) if label else "", f"**Fig. {self._number('figure')}.** {caption}"]
            parts.append(details("The figure in words", self._render(alt, line, quoted=False)) if alt else "")
            self._add("markdown", "\n\n".join(part for part in parts if part), label)

    def _solution_title(self, block: Block, line: int) -> str:
        """Title of the solution to the exercise whose label a ``solution-start`` bears."""
        exercise = self.book.labels.get(block.argument)
        if exercise is None or exercise.chapter != self.path or self.solution:
            raise ChapterError(self.path, line, f"a solution to {block.argument!r}: no such exercise in this chapter")
        number = f" {exercise.number}" if exercise.number else ""
        return f"Solution to Exercise{number}" + (f" ({self._title(exercise.title, line)})" if exercise.title else "")

    # Text

    def _render(self, text: str, line: int, quoted: bool) -> str:
        """Return `text`, which begins on `line`, as plain Markdown."""
        written = [part.strip("\n") for _, _, part in self._pieces(text, line, quoted)]
        return "\n\n".join(part for part in written if part)

    def _title(self, text: str, line: int) -> str:
        return self.inline.write(text, line, Counter())

    def _pieces(self, text: str, line: int, quoted: bool, top: bool = False) -> list:
        """Cut `text` into blocks and what lies between (None), each with its line and as Markdown."""
        blocks, seen = find_blocks(text, line, self.path)
        lines, position, found, pieces = text.split("\n"), 0, Counter(), []

        def between(end):
            chunk = "\n".join(lines[position:end])
            if chunk.strip():
                pieces.append((None, line + position, self.inline.write(chunk, line + position, found)))

        for block in blocks:
            between(block.start)
            position, here = block.end, line + block.start
            source = "\n".join(lines[block.start : block.end])
            if block.kind == "heading":
                written = self.inline.write(source, here, found)
            elif block.kind == "verbatim":
                written = source
            elif block.kind == "html":
                if not COMMENT.fullmatch(source.strip()):
                    raise ChapterError(self.path, here, HTML)
                written = ""
            elif top and block.name in TOP_LEVEL:
                self._check_options(block, TOP_LEVEL[block.name], here)
                written = ""
            else:
                written = textwrap.indent(self._block(block, here, quoted), block.indent)
            pieces.append((block, here, written))
        between(len(lines))
        if +found != +seen:
            different = ", ".join(sorted((found - seen) | (seen - found)))
            raise ChapterError(self.path, line, f"the site reads this text otherwise (look at: {different})")
        return pieces

    def _block(self, block: Block, line: int, quoted: bool) -> str:
        """Write a block that is neither text nor code."""
        if block.kind == "target":
            return anchor(block.text)
        if block.kind == "formula":
            try:
                tex = formula(textwrap.dedent(block.text.strip("\n")).strip(), one_line=quoted)
            except ValueError as error:
                raise ChapterError(self.path, line, str(error)) from error
            return f"$$ {tex} $$" if quoted else f"$$\n{tex}\n$$"
        return self._directive(block, line, quoted) if block.kind == "directive" else ""

    def _directive(self, block: Block, line: int, quoted: bool) -> str:
        """Write a directive."""
        name, argument = block.name, self._title(block.argument, line)
        self._check_options(block, OPTIONS, line)
        label = label_of(block)
        lead = f"{anchor(label)}\n\n" if label else ""
        folds = name == "dropdown" or "dropdown" in str(block.options.get("class", "")).split()
        numbered = name == "exercise" or name in THEOREMS
        number = self._number(name) if numbered and "nonumber" not in block.options else ""
        if name in ("dropdown", "admonition") and not argument:
            raise ChapterError(self.path, line, f"{{{name}}} needs a title")
        quotes = not folds and name in (*ADMONITIONS, *THEOREMS)
        body = self._render(block.text, block.body_line, quoted or quotes)
        if name == "prf:proof":
            return lead + proof(argument, body)
        if numbered:
            title = f"{name.removeprefix('prf:').capitalize()} {number}".strip()
            title += f" ({argument})" if argument else ""
        elif name in ("admonition", "dropdown"):
            title = argument
        elif name in ADMONITIONS:
            title, body = name.capitalize(), f"{argument}\n\n{body}".strip()
        else:
            raise ChapterError(self.path, line, f"a notebook knows no directive {{{name}}}")
        if folds:
            return lead + details(title, body)
        text = f"**{title}**\n\n{body}"
        return lead + ("\n".join(f"> {part}".rstrip() for part in text.split("\n")) if quotes else text)

    def _number(self, kind: str) -> int:
        self.counts[kind] += 1
        return self.counts[kind]

    def _check_options(self, block: Block, known: set[str], line: int) -> None:
        """Refuse an option whose meaning would be lost."""
        if unknown := set(block.options) - known:
            raise ChapterError(self.path, line, f"a notebook knows no option {min(unknown)} of {{{block.name}}}")


def details(title: str, body: str) -> str:
    """Markdown that opens when its title is clicked."""
    formulas = re.findall(r"\$[^$]+\$", title)
    html = MarkdownIt("commonmark").renderInline(re.sub(r"\$[^$]+\$", "\ue000", title))
    for tex in formulas:  # no angle brackets: this is HTML
        html = html.replace("\ue000", tex.replace("<", r"\lt ").replace(">", r"\gt "), 1)
    return f"<details>\n<summary><b>{html}</b></summary>\n\n{body}\n\n</details>"


def proof(of: str, body: str) -> str:
    """Write a proof, with a square where it ends."""
    runs_on = re.compile(r"[A-Za-z(\[]|\$(?!\$)|`(?!``)")
    head = f"**Proof{f' ({of})' if of else ''}.**"
    end = " " if runs_on.match(body.rpartition("\n\n")[2]) else "\n\n"
    return head + (" " if runs_on.match(body) else "\n\n") + body + end + r"$\square$"
