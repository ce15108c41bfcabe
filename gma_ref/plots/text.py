"""A text in which each character stands on the shade of its responsibility."""

import numpy as np

from gma_ref.plots.components import SIGNS, _ready, _slots
from gma_ref.plots.heatmaps import _matrix, colour_bar
from gma_ref.plots.style import book_style, colour_map

__all__ = ["text_heatmap"]


def text_heatmap(gamma, text, *, slots=None, kind="key", width=40):
    r"""Draw a text, character by character, on how much of each goes to a slot.

    Parameters
    ----------
    gamma : array_like, (N, K)
        Responsibilities, :math:`\Gamma^K` or :math:`\Gamma^Q`, between 0 and 1.
    text : str
        N characters; good for some five hundred. Lines end where they end in the text, or after `width` characters.
    slots : sequence of int, optional
        Which, counted from 0, each with the whole text; the first by default. In the picture they are counted from 1.
    kind : {"key", "query"}
        Whose responsibilities they are: the hue.
    width : int
        Characters in a line, at most 44, so that a phone can show them.

    Returns
    -------
    matplotlib.figure.Figure
        The end of a line is shown as a bent arrow, which has a responsibility too.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If `text` is not a string.
    ValueError
        If an argument does not fit.
    """
    gamma = _matrix("gamma", gamma)
    if gamma.min() < 0 or gamma.max() > 1 + 1e-3:
        raise ValueError("gamma must hold shares between 0 and 1")
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    if len(text) != len(gamma):
        raise ValueError(f"text must have one character for a row of gamma, got {len(text)} for {len(gamma)}")
    if kind not in ("key", "query"):
        raise ValueError(f"kind must be 'key' or 'query', got {kind!r}")
    if not 1 <= width <= 44:
        raise ValueError(f"width must be between 1 and 44, got {width}")
    slots = _slots(slots, gamma.shape[1], 1)
    rows, columns = _places(text, width)
    with book_style():
        import matplotlib.pyplot as plt

        lines = rows.max() + 1
        height = 0.8 + len(slots) * (0.4 + 0.2 * lines)
        figure, axes = plt.subplots(len(slots), 1, figsize=(5, height), squeeze=False)
        for ax, slot in zip(axes[:, 0], slots, strict=True):
            cells = np.full((lines, width), np.nan)
            cells[rows, columns] = gamma[:, slot]
            image = ax.imshow(cells, cmap=colour_map(kind), vmin=0, vmax=1, aspect="auto")
            _write(ax, text, rows, columns, image.to_rgba(gamma[:, slot]))
            ax.set_title(f"slot {slot + 1}", loc="left")
            ax.axis("off")
        name = {"key": r"$\gamma^K_{j,k}$", "query": r"$\gamma^Q_{i,k}$"}[kind]
        colour_bar(image, axes, name, pad=0.1 / height)
        return _ready(figure)


def _places(text, width):
    """Return the line and the column of each character."""
    row = column = 0
    places = []
    for character in text:
        if column == width:
            row, column = row + 1, 0
        places.append((row, column))
        row, column = (row + 1, 0) if character == "\n" else (row, column + 1)
    return np.array(places).T


def _write(ax, text, rows, columns, shades):
    """Write each character in black or white, whichever stands out more."""
    options = {"ha": "center", "va": "center_baseline", "fontsize": 11, "family": "DejaVu Sans Mono"}
    for character, row, column, dark in zip(text, rows, columns, _are_dark(shades), strict=True):
        if character != " ":
            written = SIGNS.get(character, character)
            ax.text(column, row, written, color="#ffffff" if dark else "#000000", parse_math=False, **options)


def _are_dark(shades):
    """Tell which shades, (N, 4), have more contrast with white than with black, by WCAG's relative luminance."""
    parts = shades[:, :3]
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722] < 0.179  # where (1 + 0.05) / (x + 0.05) = (x + 0.05) / 0.05
