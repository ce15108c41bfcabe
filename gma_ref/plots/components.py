"""What components are used for: how much, for which tokens, and for which categories of tokens."""

from collections.abc import Mapping

import numpy as np

from gma_ref.plots.heatmaps import _matrix, colour_bar
from gma_ref.plots.palette import CARD, EDGE, INK, PALETTE
from gma_ref.plots.style import book_style, colour_map
from gma_ref.plots.svg import mix

__all__ = ["alignment_matrix", "top_token_bars", "usage_histogram"]

LABELLED = 32  # slots, at most, that are labelled one by one
SIGNS = {" ": "\u2423", "\n": "\u21b5", "\t": "\u2192"}  # open box, return, arrow: what has no shape of its own


def usage_histogram(usage, *, threshold=0.01):
    r"""Draw how much each slot is used, the most used one first, in multiples of an equal share.

    In the corner stand the effective number of slots, :math:`1 / \sum_k u_k^2`, and how many are dead.

    Parameters
    ----------
    usage : array_like, (K,), or dict of str to array_like
        From `gma_ref.diagnostics.usage`; several by what stands above them, for instance a layer or a head, one below
        the other.
    threshold : float
        Below this part of an equal share a slot is dead, as in `gma_ref.diagnostics.dead_components`.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If `usage` does not hold shares that sum to 1.
    """
    panels = usage if isinstance(usage, Mapping) else {"": usage}
    panels = {title: _shares("usage", shares) for title, shares in panels.items()}
    if not panels:
        raise ValueError("usage must hold at least one array")
    with book_style():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(len(panels), 1, figsize=(5, 0.9 + 1.7 * len(panels)), squeeze=False)
        for ax, (title, shares) in zip(axes[:, 0], panels.items(), strict=True):
            _usage(ax, shares, title, threshold)
        axes[-1, 0].set_xlabel("slots, the most used one first")
        figure.supylabel("usage / equal share", fontsize=11)
        return _ready(figure)


def top_token_bars(top, *, slots=None, by="share"):
    r"""Draw the tokens of which slots have most: bars of their share, and beside each its lift.

    Parameters
    ----------
    top : TopTokens
        From `gma_ref.diagnostics.top_tokens`, without leading axes: ``tokens``, ``share`` and ``lift``, each (K, T).
    slots : sequence of int, optional
        Which, counted from 0; the first eight by default. In the picture they are counted from 1.
    by : {"share", "lift"}
        What the bars show, and what stands beside them.

    Returns
    -------
    matplotlib.figure.Figure
        A space is shown as an open box, the end of a line as a bent arrow.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If `top` has leading axes, or no such slots, or `by` is something else.
    """
    tokens, share, lift = (np.asarray(array) for array in top)
    if share.ndim != 2 or share.size == 0 or not tokens.shape == share.shape == lift.shape:
        shapes = ", ".join(str(array.shape) for array in (tokens, share, lift))
        raise ValueError(f"top must hold tokens, share and lift of shape (K, T), got {shapes}")
    if by not in ("share", "lift"):
        raise ValueError(f"by must be 'share' or 'lift', got {by!r}")
    slots = _slots(slots, len(share), 8)
    share, lift = share[slots], lift[slots]
    if by == "share":
        lengths, notes = 100 * share, [[f"\u00d7{x:.2g}" for x in row] for row in lift]
    else:
        lengths, notes = lift, [[f"{x:.0%}" if x >= 0.005 else "<1%" for x in row] for row in share]
    with book_style():
        import matplotlib.pyplot as plt

        rows, columns = -(-len(slots) // 2), min(2, len(slots))
        height = 0.7 + rows * (0.45 + 0.21 * share.shape[1])
        figure, axes = plt.subplots(rows, columns, figsize=(5, height), sharex=True, squeeze=False)
        for ax, slot, bars, words in zip(axes.flat, slots, lengths, notes, strict=False):
            _bars(ax, [SIGNS.get(str(token), str(token)) for token in tokens[slot]], bars, words)
            ax.set_title(f"slot {slot + 1}")
            ax.set_xlim(0, 1.35 * (lengths.max() or 1))  # room for the words beside the longest bar
        for ax in axes.flat[len(slots) :]:
            ax.axis("off")
        for ax in axes[-1] if len(slots) % 2 == 0 or columns == 1 else axes[[-1, -2], [0, 1]]:
            ax.xaxis.set_tick_params(labelbottom=True)
        figure.supxlabel("% of the slot's mass" if by == "share" else "lift", fontsize=11)
        return _ready(figure)


def alignment_matrix(table, categories, *, ordered=True):
    r"""Draw of which categories each slot is made, and all tokens above them for comparison.

    Parameters
    ----------
    table : array_like, (K, C)
        From `gma_ref.diagnostics.contingency`: tokens of each category in each slot.
    categories : sequence of str, (C,)
        What the columns are called.
    ordered : bool
        Whether slots stand by their main category, so that blocks show; else by their number.

    Returns
    -------
    dict of str to matplotlib.axes.Axes
        By "all tokens", one row, and "slots". Each row sums to 1; a slot without mass is blank.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If `table` is not a matrix of numbers of at least 0, or `categories` do not fit it.
    """
    table, categories = _matrix("table", table), [str(category) for category in categories]
    if (table < 0).any() or not table.any():
        raise ValueError("table must hold numbers of at least 0, not all 0")
    if len(categories) != table.shape[1]:
        raise ValueError(f"categories must name the {table.shape[1]} columns of table, got {len(categories)}")
    mass = table.sum(axis=1, keepdims=True)
    made_of = np.divide(table, mass, out=np.full_like(table, np.nan), where=mass > 0)
    order = np.arange(len(table))
    if ordered:
        main, most = table.argmax(axis=1), np.nan_to_num(made_of).max(axis=1)
        order = np.lexsort((-most, main, mass[:, 0] == 0))
    with book_style():
        import matplotlib.pyplot as plt

        tall = 0.2 if len(table) <= LABELLED else 0.09
        slots = max(1.0, tall * len(table))
        figure, axes = plt.subplots(
            2, 1, figsize=(5, 2.2 + slots), height_ratios=[0.2, slots], sharex=True, squeeze=True
        )
        shown = {"cmap": colour_map("mem"), "vmin": 0, "vmax": 1, "aspect": "auto"}
        axes[0].imshow(table.sum(axis=0)[None] / table.sum(), **shown)
        axes[0].set_yticks([0], ["all tokens"])
        image = axes[1].imshow(made_of[order], **shown)
        if len(table) <= LABELLED:
            axes[1].set_yticks(range(len(table)), order + 1)
        else:
            axes[1].set_yticks([])
        axes[1].set_ylabel("slot" if len(table) <= LABELLED or not ordered else "slots, by their main category")
        axes[1].set_xticks(range(len(categories)), categories, rotation=45, ha="right", rotation_mode="anchor")
        for ax in axes:
            ax.grid(False)
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
            ax.vlines(np.arange(1, len(categories)) - 0.5, *ax.get_ylim(), EDGE, linewidth=0.5)
        colour_bar(image, axes, "share of the tokens in a slot", pad=0.02)
        _ready(figure)
    return {"all tokens": axes[0], "slots": axes[1]}


def _usage(ax, shares, title, threshold):
    count = len(shares)
    heights = np.sort(shares)[::-1] * count
    ax.bar(np.arange(1, count + 1), heights, width=0.85, color=PALETTE["mem"].light)
    ax.axhline(1, color=INK, linewidth=1)  # an equal share
    ax.set_xlim(0.4, count + 0.6)
    ax.xaxis.get_major_locator().set_params(integer=True)
    effective, dead = 1 / np.square(shares).sum(), (heights < threshold).sum()
    said = f"{effective:.1f} of {count} effective" + f"\n{dead} under {100 * threshold:g}% of an equal share" * bool(
        dead
    )
    ax.text(0.98, 0.93, said, transform=ax.transAxes, ha="right", va="top", fontsize=10)
    ax.set_title(title, loc="left")
    ax.grid(axis="x", visible=False)


def _bars(ax, names, lengths, notes):
    places = np.arange(len(names))
    ax.barh(places, lengths, color=mix(PALETTE["mem"].light, CARD, 0.7))
    for place, length, note in zip(places, lengths, notes, strict=True):
        ax.annotate(note, (length, place), (3, 0), textcoords="offset points", va="center", fontsize=9)
    ax.set_yticks(places, names, parse_math=False)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)


def _slots(slots, count, default):
    """Return which slots to draw, as a list of their positions."""
    slots = list(range(min(count, default)) if slots is None else slots)
    if not slots or not all(isinstance(slot, int | np.integer) and 0 <= slot < count for slot in slots):
        raise ValueError(f"slots must be some of 0 to {count - 1}, got {slots}")
    return slots


def _shares(name, shares):
    shares = _matrix(name, np.asarray(shares)[None])[0]
    if (shares < 0).any() or abs(shares.sum() - 1) > 1e-3:
        raise ValueError(f"{name} must hold shares that sum to 1, got {shares.sum()}")
    return shares


def _ready(figure):
    figure.draw_without_rendering()  # makes the ticks now, while the style holds
    return figure
