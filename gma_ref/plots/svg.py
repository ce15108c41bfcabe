"""A few shapes and a little mathematics as SVG text, for the book's drawings."""

import re
from html import escape

from gma_ref.plots.palette import CARD, EDGE, INK

SERIF = "'STIX Two Text', 'Latin Modern Roman', 'Times New Roman', 'Liberation Serif', 'DejaVu Serif', serif"
SANS = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, 'DejaVu Sans', sans-serif"


class Drawing:
    """A finished drawing: notebooks show it, ``str(drawing)`` is its SVG source."""

    def __init__(self, name, width, height, title, description, shapes):
        self._svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" style="max-width:100%;height:auto" role="img" '
            f'aria-labelledby="{name}-title {name}-desc">'
            f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
            + rectangle(0.5, 0.5, width - 1, height - 1, fill=CARD, stroke=EDGE, radius=12)
            + "".join(shapes)
            + "</svg>\n"
        )

    def __str__(self):
        return self._svg

    def _repr_svg_(self):
        return self._svg


def mix(colour, background, share):
    """Return `share` of one colour over another, both ``#rrggbb``."""
    parts = (
        round(share * int(one, 16) + (1 - share) * int(other, 16))
        for one, other in zip(re.findall("..", colour[1:]), re.findall("..", background[1:]), strict=True)
    )
    return "#" + "".join(f"{part:02x}" for part in parts)


def number(value):
    """Write a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def rectangle(x, y, width, height, fill, stroke="none", radius=0, stroke_width=1):
    """Draw a rectangle with rounded corners."""
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
        f'rx="{number(radius)}" fill="{fill}" stroke="{stroke}" stroke-width="{number(stroke_width)}"/>'
    )


def ellipse(x, y, rx, ry, fill, opacity=1):
    """Draw a filled ellipse around (x, y)."""
    return (
        f'<ellipse cx="{number(x)}" cy="{number(y)}" rx="{number(rx)}" ry="{number(ry)}" '
        f'fill="{fill}" fill-opacity="{number(opacity)}"/>'
    )


def grid(x, y, values, colour, cell=12):
    """Draw a matrix as tinted cells: the larger the entry (0 to 1), the deeper the tint."""
    rows, columns = len(values), len(values[0])
    cells = [
        rectangle(x + column * cell, y + row * cell, cell, cell, mix(colour, "#ffffff", 0.06 + 0.8 * float(value)))
        for row, entries in enumerate(values)
        for column, value in enumerate(entries)
    ]
    lines = [f"M{number(x)} {number(y + row * cell)}h{number(columns * cell)}" for row in range(1, rows)]
    lines += [f"M{number(x + column * cell)} {number(y)}v{number(rows * cell)}" for column in range(1, columns)]
    frame = rectangle(x, y, columns * cell, rows * cell, "none", colour, radius=2, stroke_width=1.6)
    return "".join(cells) + path("".join(lines), "#ffffff", 1.2) + frame


def path(d, colour, width=2.2):
    """Draw a line through the given SVG path data."""
    return (
        f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="{number(width)}" '
        'stroke-linecap="round" stroke-linejoin="round"/>'
    )


def arrow(d, tip, colour, towards="down"):
    """Draw a line that ends in an arrow head at `tip`; the path data should stop a little before it."""
    x, y = tip
    back, side = 8, 4.5
    feet = {
        "down": ((x - side, y - back), (x + side, y - back)),
        "right": ((x - back, y - side), (x - back, y + side)),
        "left": ((x + back, y - side), (x + back, y + side)),
    }[towards]
    corners = " ".join(f"{number(px)},{number(py)}" for px, py in (tip, *feet))
    head = f'<polygon points="{corners}" fill="{colour}" stroke="{colour}" stroke-linejoin="round"/>'
    return path(d, colour) + head


def label(x, y, text, colour=INK, size=17, anchor="start", weight="normal"):
    """Write plain words."""
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-family="{SANS}" font-size="{number(size)}" '
        f'font-weight="{weight}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )


def formula(x, y, colours, *parts, size=21, anchor="start"):
    """Write a formula.

    Parameters
    ----------
    x, y : float
        Where its baseline starts (or ends, or is centred, by `anchor`).
    colours : dict
        The colour of each name in `parts`.
    *parts : (str, str)
        Pieces as (name of the colour, text). In the text ``^`` and ``_`` raise and lower the letters that follow.
        Single letters are italic, words and signs upright, as in print.
    """
    spans, shift = [], 0.0
    for name, text in parts:
        for mark, piece in re.findall(r"([_^]?)([^\W\d_]+|[^_^\w]+|\d+)", text):
            level = {"^": -0.36, "_": 0.2}.get(mark, 0.0) * size
            italic = len(piece) == 1 and piece.isalpha() and piece not in "ΓΣT"
            spans.append(
                f'<tspan dy="{number(level - shift)}" font-size="{number(size * (0.76 if mark else 1))}"'
                f' fill="{colours[name]}"'
                + (' font-style="italic"' if italic else "")
                + (' font-weight="bold"' if piece == "1" else "")
                + f">{escape(piece)}</tspan>"
            )
            shift = level
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-family="{SERIF}" font-size="{number(size)}" '
        f'text-anchor="{anchor}" xml:space="preserve">{"".join(spans)}</text>'
    )
