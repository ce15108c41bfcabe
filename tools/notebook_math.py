r"""Formulas as every notebook reader shows them.

Colab, nbconvert and others still run MathJax 2, which knows no ``\textcolor`` unless an extension is loaded. The form
``{\color{#rrggbb}{...}}`` means the same to MathJax 2, MathJax 3 and KaTeX.
"""

import re
from functools import cache
from importlib.resources import files

from gma_ref.plots.palette import PALETTE

# They work on the site at most: by an extension of MathJax, or because Sphinx reads them first.
SITE_ONLY = {"class", "cssId", "style", "href", "require", "newcommand", "def", "let", "label", "ref", "eqref"}

MACRO = re.compile(rf"\\({'|'.join(PALETTE)})(?![A-Za-z])\s*")  # the book's own commands, such as \mem


def formula(tex: str, one_line: bool = False) -> str:
    r"""Write the colours into `tex` and check that nothing in it needs the site.

    Parameters
    ----------
    tex : str
        What stands between the dollars.
    one_line : bool
        Whether to join its lines. In a quotation each would begin with ``>``, which Jupyter takes for mathematics.

    Raises
    ------
    ValueError
        For a command that MathJax does not know, or that notebooks do not have, and for unbalanced braces.
    """
    if one_line:
        tex = re.sub(r"(?<!\\)%.*", "", tex)
        tex = " ".join(tex.split())
    # A line that begins like a heading, a list or a quotation is one to some readers.
    tex = re.sub(r"\n\s*(?=[=+\-*>#])", " ", tex)
    # What looks like the start of an HTML tag is one to some, and their browser hides it.
    tex = colour(re.sub(r"<(?=[A-Za-z/!])", r"\\lt ", tex))
    for command in re.findall(r"\\([A-Za-z]+)", tex):
        if command in SITE_ONLY or command not in known_commands():
            raise ValueError(rf"a notebook knows no \{command}")
    return tex


def colour(tex: str) -> str:
    r"""Replace the book's macros, such as ``\mem{...}``, by the colours they stand for, inside out."""
    done = ""
    while match := MACRO.search(tex):
        start, end = braces(tex, match.end(), rf"\{match[1]}")
        done += tex[: match.start()] + rf"{{\color{{{PALETTE[match[1]].both}}}{{{colour(tex[start:end])}}}}}"
        tex = tex[end + 1 :]
    return done + tex


def braces(tex: str, position: int, command: str) -> tuple[int, int]:
    r"""Where the argument in braces at `position` begins and ends; ``\{`` and ``\}`` are no braces."""
    depth = 0
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(tex, position):
        if depth == 0 and (match.group() != "{" or match.start() != position):
            break
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            return position + 1, match.start()
    raise ValueError(f"the argument of {command} must stand in braces that close")


@cache
def known_commands() -> frozenset[str]:
    r"""Every name in MathJax's own TeX tables, which hold each command that it knows (and a few words more)."""
    source = files("sphinx-mathjax-offline") / "static" / "mathjax" / "input"
    text = (source / "tex.js").read_text(encoding="utf-8")
    names = re.findall(r'[{,]"?([A-Za-z]+)"?:', text) + re.findall(r'"\\\\([A-Za-z]+)"', text)
    return frozenset(names) | {"color"}
