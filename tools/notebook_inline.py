"""The text between the blocks: links, images, roles, formulas within a line."""

import base64
import mimetypes
import re
from collections import Counter
from pathlib import PurePosixPath

from tools.notebook_blocks import ChapterError
from tools.notebook_book import Book
from tools.notebook_cite import Citations
from tools.notebook_math import MACRO, formula

PARTS = re.compile(
    r"""
      (?P<escape> \\[^\w\s])
    | (?P<role> \{(?P<name>[\w:+.-]+)\} (?P<fence>`+) (?!`) (?P<content>.+?) (?P=fence) (?!`))
    | (?P<code> (?<!`) (?P<ticks>`+) (?!`) .+? (?<!`) (?P=ticks) (?!`))
    | (?P<display> \$\$ (?P<display_tex>.+?) \$\$)
    | (?P<math> \$ (?P<tex> (?:\\.|[^$\\])+? ) \$)
    | (?P<autolink> <(?P<address>[A-Za-z][\w+.-]*:[^\s<>]*)>)
    | (?P<html> <!--.*?--> | </?[A-Za-z][^<>]*>)
    | (?P<image> ! (?=\[))?
      \[ (?P<text> (?: \\. | `[^`]*` | \$[^$]*\$ | [^][\\`$] | \[[^][]*\](?:\([^()]*\))? )* ) \]
      \( (?P<target> (?: [^()\s] | \([^()\s]*\) )* ) (?P<title> \s+"[^"]*" )? \)
    """,
    re.DOTALL | re.VERBOSE,
)
MYST = re.compile(r"\{\{|\{[#.%]|\{[\w:+-]+\}`|^[ >]*(?:```|:::)", re.MULTILINE)
LEFT_OVER = (
    (MACRO, "a colour outside a formula"),
    (re.compile(r"\$"), r"a dollar that opens no formula: write \$"),
    (MYST, "MyST syntax that a notebook would show as it stands"),
    (re.compile(r"\]\("), "a link that is too intricate to export"),
)

COMMENT = re.compile(r"<!--(?:(?!-->).)*-->", re.DOTALL)
# Notebooks would show it as it stands: its links and images lead elsewhere there, and what is no element vanishes.
HTML = r"no HTML: write an image as ![what it says](file), a link as [text](address), a bracket as \<"


class Inline:
    """Writes the text of one chapter as plain Markdown."""

    def __init__(self, book: Book, chapter: str, citations: Citations):
        self.book, self.chapter, self.citations = book, chapter, citations

    def write(self, text: str, line: int, found: Counter) -> str:
        """Return `text`, which begins on `line`, without MyST in it; add what it holds to `found`."""
        pieces, position = [], 0
        for match in PARTS.finditer(text):
            here = line + text.count("\n", 0, match.start())
            pieces.append(self._plain(text[position : match.start()], line + text.count("\n", 0, position)))
            try:
                pieces.append(self._part(match, here, found))
            except ValueError as error:
                raise ChapterError(self.chapter, here, str(error)) from error
            position = match.end()
        pieces.append(self._plain(text[position:], line + text.count("\n", 0, position)))
        return "".join(pieces)

    def _plain(self, text: str, line: int) -> str:
        """Check that nothing between the parts needs the site."""
        for pattern, message in LEFT_OVER:
            if match := pattern.search(text):
                raise ChapterError(self.chapter, line + text.count("\n", 0, match.start()), message)
        return text

    def _part(self, match: re.Match, line: int, found: Counter) -> str:
        """Write one part; a `ValueError` says what is wrong with it."""
        if match["escape"]:
            # Readers of notebooks forget the backslash and take the dollar for the start of a formula.
            return "<span>&#36;</span>" if match.group() == r"\$" else match.group()
        if match["html"]:
            if not COMMENT.fullmatch(match.group()):
                raise ValueError(HTML)
            found["html"] += 1
            return match.group()
        if match["autolink"]:
            return f"<{self.book.link(match['address'], self.chapter)}>"
        if match["code"]:
            found["code"] += 1
            return match.group()
        if match["role"]:
            found["role"] += 1
            if match["name"] == "term":
                return self._term(match["content"])
            return self.citations.cite(match["name"], match["content"])
        if match["display"] or match["math"]:
            found["math"] += 1
            # Within a paragraph a formula goes on one line: its lines may bear the marks of a quotation.
            tex = re.sub(r"\n[\s>]*", " ", match["display_tex"] or match["tex"])
            dollars = "$$" if match["display"] else "$"
            return dollars + formula(tex.strip()) + dollars
        if not match["text"].strip():
            raise ValueError("a link or an image without text")
        if match["image"]:
            found["image"] += 1
            return f"![{match['text']}]({self._image(match['target'])}{match['title'] or ''})"
        found["link"] += 1
        if not match["target"]:
            raise ValueError("a link that leads nowhere")
        text = self.write(match["text"], line, found)
        return f"[{text}]({self.book.link(match['target'], self.chapter)}{match['title'] or ''})"

    def _term(self, content: str) -> str:
        """Write a term of the glossary, ``slot``, or other words for it, ``the slots <slot>``, as a link."""
        words, term = re.fullmatch(r"(.+?)(?:\s*<(.+)>)?", content).groups()
        return f"[{words}]({self.book.define(term or words, self.chapter)})"

    def _image(self, target: str) -> str:
        """Return the address of an image, or the image itself: Colab shows no attachments, and no files."""
        if re.match(r"https?://", target):
            return target
        path = self.book.root / PurePosixPath(self.chapter).parent / target
        kind, _ = mimetypes.guess_type(path.name)
        if kind is None or not kind.startswith("image/"):
            raise ValueError(f"{target} is no image")
        if not path.exists():
            raise ValueError(f"no file {target}")
        return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
