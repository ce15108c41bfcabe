"""The parts of a chapter that are not plain Markdown: directives, formulas, targets, comments.

The site's own parser finds them, so that what a notebook holds is what the site shows.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import yaml
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

PARSER = create_md_parser(
    MdParserConfig(enable_extensions={"amsmath", "colon_fence", "deflist", "dollarmath"}), RendererHTML
)

KINDS = {
    "math_block": "formula",
    "myst_target": "target",
    "myst_line_comment": "comment",
    "myst_block_break": "break",
    "front_matter": "comment",
    "code_block": "verbatim",
    "html_block": "html",
    "heading_open": "heading",
}
REFUSED = {
    "amsmath": "put the environment between $$ and $$",
    "math_block_label": "write the label as a target line, (label)=, before the formula",
    "dl_open": "a definition list is not plain Markdown; write a table or a list",
    "footnote_reference_open": "a footnote is not plain Markdown; write it into the text",
    "footnote_ref": "a footnote is not plain Markdown; write it into the text",
}


class ChapterError(Exception):
    """What a notebook cannot hold, with the file and the line it stands in."""

    def __init__(self, path, line, message):
        super().__init__(f"{path}:{line}: {message}")


class Block(NamedTuple):
    """A stretch of lines that needs more than its text copied.

    Attributes
    ----------
    kind : str
        ``"directive"``, or a value of `KINDS`.
    start, end : int
        Its lines within the text, from 0, the end excluded.
    indent : str
        What stands before it, if it lies in a list.
    text : str
        The body of a directive, the inside of a formula, the name of a target, the level of a heading.
    name, argument, options : str, str, dict
        Of a directive.
    body_line : int
        The line of the file on which a directive's body begins.
    """

    kind: str
    start: int
    end: int
    indent: str
    text: str
    name: str = ""
    argument: str = ""
    options: dict = {}  # noqa: RUF012 (a NamedTuple's default is never changed)
    body_line: int = 0


def find_blocks(text: str, line: int, path: object) -> tuple[list[Block], Counter]:
    """Find the blocks of `text`, which begins on line `line` of the file `path`.

    Returns the blocks in order, none inside another, and how many links, images, roles, formulas, code spans and
    pieces of HTML the parser saw in the text between them.
    """
    environment = {}
    tokens = PARSER.parse(text, environment)
    if environment.get("references"):
        first = min(reference["map"][0] for reference in environment["references"].values())
        raise ChapterError(path, line + first, "write the link's address where the link is: [text](address)")
    lines = text.split("\n")
    blocks, seen = [], Counter()
    for token in tokens:
        for part in [token, *(token.children or [])]:
            if part.type in REFUSED:
                raise ChapterError(path, line + (token.map or [0])[0], REFUSED[part.type])
        if token.type == "inline":
            seen.update(_kinds_inside(token.children))
        elif token.type in ("fence", "colon_fence"):
            blocks.append(_fence(token, lines, line, path))
        elif token.type in KINDS:
            start, end = token.map
            indent = re.match(r"[\s>]*", lines[start]).group()
            content = token.markup if token.type == "heading_open" else token.content
            blocks.append(Block(KINDS[token.type], start, end, indent, content))
    for block in blocks:
        if block.kind in ("directive", "formula", "target"):
            if ">" in block.indent:
                raise ChapterError(path, line + block.start, "not inside a quotation; use an admonition")
            if not re.match(r"[`~:$(]", lines[block.start][len(block.indent) :]):
                raise ChapterError(path, line + block.start, "this must begin on a line of its own")
    return blocks, seen


def walk(text: str, line: int, path: object) -> Iterator[tuple[Block, int]]:
    """Yield every block with its line in the file, directives before what they hold."""
    for block in find_blocks(text, line, path)[0]:
        yield block, line + block.start
        if block.kind == "directive" and block.name != "code-cell":
            yield from walk(block.text, block.body_line, path)


def _kinds_inside(children) -> Iterator[str]:
    """What an inline token holds, links within links and images within links included."""
    kinds = {"image": "image", "myst_role": "role", "math_inline": "math", "code_inline": "code", "html_inline": "html"}
    for child in children or []:
        if child.type == "link_open" and child.markup != "autolink":
            yield "link"
        elif child.type in kinds:
            yield kinds[child.type]


def _fence(token, lines, line, path) -> Block:
    """Read a fence: a directive if its name stands in braces, else code to copy."""
    start, end = token.map
    if not re.fullmatch(rf"[\s>]*{re.escape(token.markup)}+\s*", lines[end - 1]) or end - start < 2:
        raise ChapterError(path, line + start, "this fence is not closed")
    indent = re.match(r"[\s>]*", lines[start]).group()
    match = re.fullmatch(r"\{([^}]+)\}\s*(.*)", token.info.strip())
    if match is None:
        if token.type == "colon_fence":
            raise ChapterError(path, line + start, "a directive's name stands in braces: :::{name}")
        return Block("verbatim", start, end, indent, token.content)
    try:
        options, body = _split_options(token.content)
    except yaml.YAMLError as error:
        raise ChapterError(path, line + start, f"the options of {{{match[1]}}} are not YAML: {error}") from error
    body_line = line + end - 1 - body.count("\n")
    return Block("directive", start, end, indent, body, match[1], match[2], options, body_line)


def _split_options(content: str) -> tuple[dict, str]:
    """Take a directive's options, in either of their two notations, from the top of its content."""
    block = re.match(r"---\n(.*?\n)?---\n", content, re.DOTALL)
    if block:
        options, body = yaml.safe_load(block[1] or ""), content[block.end() :]
    else:
        block = re.match(r"(?:[ ]*:[\w-]+:.*\n)*", content)
        options = yaml.safe_load(re.sub(r"^ *:([\w-]+):", r"\1:", block.group(), flags=re.MULTILINE))
        body = content[block.end() :]
    return options or {}, body
