"""One hue per symbol, in every formula and every figure of the book.

Queries are blue, keys orange, values green, the memory purple. No single shade of a hue stands out on white
and on near-black alike, so each has three. ``tests/plots/test_palette.py`` measures their contrast, and how
far apart they stay for readers who do not see all colours.
"""

from typing import NamedTuple


class Shades(NamedTuple):
    """Three shades of one hue, as ``#rrggbb``.

    Attributes
    ----------
    light : str
        For text and lines on a light page.
    dark : str
        For text and lines on a dark page.
    both : str
        Where one shade must serve both, as in a notebook's formulas: less contrast, enough for large text.
    """

    light: str
    dark: str
    both: str


PALETTE = {
    "query": Shades(light="#1a479c", dark="#7cc0f9", both="#4490f7"),  # blue
    "key": Shades(light="#b54a0a", dark="#f58f3d", both="#cd660f"),  # orange
    "val": Shades(light="#177a5b", dark="#52e0b0", both="#03986e"),  # green
    "mem": Shades(light="#8f4acd", dark="#b985fb", both="#b26cc2"),  # purple
}

# Figures stand on a light card of their own, on light and dark pages alike.
CARD = "#fbfcfe"
INK = "#1f2733"  # words and lines that belong to no symbol
FAINT = "#5d6675"  # the same where a drawing is dimmed, still easy to read ...
DIMMED = "#f3f5f9"  # ... on what lies below it
EDGE = "#d5dae3"  # frames and grids
