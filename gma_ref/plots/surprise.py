"""A text as several models read it: each character stands on the shade of its surprise."""

from collections.abc import Mapping

import numpy as np

from gma_ref.plots.components import _ready
from gma_ref.plots.heatmaps import colour_bar
from gma_ref.plots.style import book_style, colour_map
from gma_ref.plots.text import _places, _write

__all__ = ["surprise_text"]


def surprise_text(bits: Mapping, text: str, *, width: int = 34, most: float = 8.0):
    r"""Draw a text once for each model, line below line, each character on :math:`-\log_2` of its probability.

    Parameters
    ----------
    bits : mapping of str to array_like, (N,)
        Name of a model → its surprise at each character, in bits.
    text : str
        N characters; good for some two hundred. Lines end where they end in the text, or after `width` characters.
    width : int
        Characters in a line, at most 36, so that a phone can show them.
    most : float
        Where the shades end; what is more looks alike.

    Returns
    -------
    matplotlib.figure.Figure
        The end of a line is shown as a bent arrow.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If `text` is not a string.
    ValueError
        If an argument does not fit.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    if not text or not bits:
        raise ValueError("bits and text must hold something")
    if not 1 <= width <= 36:
        raise ValueError(f"width must be between 1 and 36, got {width}")
    values = {name: np.asarray(of_model, dtype=float) for name, of_model in bits.items()}
    for name, of_model in values.items():
        if of_model.shape != (len(text),):
            raise ValueError(f"bits of {name!r} must have shape ({len(text)},) as text has, got {of_model.shape}")
        if not (np.isfinite(of_model) & (of_model >= 0)).all():
            raise ValueError(f"bits of {name!r} must be finite and not negative")
    rows, columns = _places(text, width)
    with book_style():
        import matplotlib.pyplot as plt

        lines, count = rows.max() + 1, len(values)
        height = 0.7 + lines * (0.15 + 0.21 * count)
        figure, axes = plt.subplots(lines, 1, figsize=(5, height), squeeze=False)
        for line, ax in enumerate(axes[:, 0]):
            here = rows == line
            cells = np.full((count, width), np.nan)
            for row, of_model in enumerate(values.values()):
                cells[row, columns[here]] = of_model[here]
            image = ax.imshow(cells, cmap=colour_map("key"), vmin=0, vmax=most, aspect="auto")
            letters = [character for character, there in zip(text, here, strict=True) if there]
            for row, of_model in enumerate(values.values()):
                _write(ax, letters, np.full(len(letters), row), columns[here], image.to_rgba(of_model[here]))
            ax.set_yticks(range(count), values)
            ax.tick_params(length=0)
            ax.set_xticks([])
            ax.grid(visible=False)
            ax.spines[:].set_visible(False)
        colour_bar(image, axes, "surprise in bits", pad=0.1 / height)
        return _ready(figure)
