"""Heatmaps of responsibilities, and of what the slots of a memory hold."""

import numpy as np

from gma_ref.plots.palette import EDGE
from gma_ref.plots.style import book_style, colour_map
from gma_ref.reference import Memory

__all__ = ["memory_heatmap", "responsibility_heatmap"]


def responsibility_heatmap(gamma, tokens=None, *, kind="key", ax=None):
    r"""Draw responsibilities: how much of each token goes to each slot.

    With `tokens` each row is a token, labelled, to be read downwards: good for some forty. Without them the tokens
    run to the right; where they are more than 400, each column is the mean of a few that follow each other.

    Parameters
    ----------
    gamma : array_like, (N, K)
        Responsibilities, :math:`\Gamma^K` or :math:`\Gamma^Q`: shares between 0 and 1, whose rows sum to 1. A row of
        zeros is a masked key, which goes to no slot.
    tokens : sequence of str, optional
        One label a token, shown as it stands: a dollar is a dollar.
    kind : {"key", "query"}
        Whose responsibilities they are: the hue.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default, sized by N and K.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If `gamma` is a masked array.
    ValueError
        If `gamma` is not a matrix of shares, or an argument does not fit it.
    """
    gamma = _matrix("gamma", gamma)
    if kind not in ("key", "query"):
        raise ValueError(f"kind must be 'key' or 'query', got {kind!r}")
    sums = gamma.sum(axis=1)[gamma.any(axis=1)]
    if gamma.min() < 0 or not np.allclose(sums, 1, atol=1e-3):
        raise ValueError("gamma must hold shares between 0 and 1, and its rows must sum to 1 (or be 0: a masked key)")
    name = {"key": r"$\gamma^K_{j,k}$", "query": r"$\gamma^Q_{i,k}$"}[kind]
    shown = {"cmap": colour_map(kind), "vmin": 0, "vmax": 1}
    if tokens is None:
        width = -(-len(gamma) // 400)
        starts = np.arange(0, len(gamma), width)
        means = np.add.reduceat(gamma, starts) / np.diff([*starts, len(gamma)])[:, None]
        along = "token" if width == 1 else f"token (means over {width})"
        return _wide(means, len(gamma), ax, along, name, shown)
    return _tall(gamma, _labels("tokens", tokens, len(gamma), "a row of gamma"), ax, name, shown)


def memory_heatmap(memory, labels=None, *, title=None, ax=None):
    r"""Draw what each slot holds: one column a slot with `labels`, one row a slot without.

    Parameters
    ----------
    memory : Memory or array_like, (K, d_v)
        A memory, of which :math:`\tilde V` is drawn, or any matrix of one row a slot, such as the slot means.
    labels : sequence of str, optional
        One label a value coordinate, shown as it stands. Then the coordinates run downwards.
    title : str, optional
        Words beside the colour bar: what the numbers are, with their unit.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default, sized by K and d_v.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If `memory` is a masked array.
    ValueError
        If `memory` is not one finite matrix, or `labels` do not fit it.
    """
    is_memory = isinstance(memory, Memory)
    slots = _matrix("memory", memory.V_tilde if is_memory else memory)
    title = title if title is not None else r"$\tilde V$" if is_memory else ""
    largest = np.abs(slots).max() or 1
    signed = slots.min() < 0
    shown = {"cmap": colour_map("mem", diverging=signed), "vmin": -largest if signed else 0, "vmax": largest}
    if labels is None:
        return _wide(slots.T, slots.shape[1], ax, "value coordinate", title, shown)
    return _tall(slots.T, _labels("labels", labels, slots.shape[1], "a value coordinate"), ax, title, shown)


def _wide(matrix, count, ax, along, name, shown):
    """Draw rows of `matrix`, which stand for `count` things, from left to right; slots downwards."""
    slots = matrix.shape[1]
    with book_style():
        ax = ax or _new_axes(6.0, 1.5 + 0.17 * min(max(slots, 4), 24))
        image = ax.imshow(matrix.T, aspect="auto", extent=(0.5, count + 0.5, slots + 0.5, 0.5), **shown)
        ax.set(xlabel=along, ylabel="slot $k$", yticks=_slot_ticks(slots))
        return _finish(ax, image, name)


def _tall(matrix, labels, ax, name, shown):
    """Draw rows of `matrix` downwards, each with its label; slots from left to right."""
    count, slots = matrix.shape
    with book_style():
        ax = ax or _new_axes(min(5.0, 1.5 + 0.3 * slots), 1.2 + 0.2 * count)
        image = ax.imshow(matrix, aspect="auto", extent=(0.5, slots + 0.5, count + 0.5, 0.5), **shown)
        ax.set(xlabel="slot $k$", xticks=_slot_ticks(slots))
        ax.set_yticks(np.arange(1, count + 1), labels, parse_math=False)
        ax.hlines(np.arange(1, count) + 0.5, 0.5, slots + 0.5, EDGE, linewidth=0.5)  # lead the eye from label to cell
        return _finish(ax, image, name)


def _new_axes(width, height):
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height))[1]


def _finish(ax, image, name):
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    colour_bar(image, ax, name, pad=0.1 / ax.figure.get_size_inches()[1])
    ax.figure.draw_without_rendering()  # makes the ticks now, while the style holds
    return ax


def colour_bar(image, axes, name, pad):
    """Put a colour bar above one or several axes, 0.12 of an inch high whatever the figure's height."""
    figure = image.figure
    fraction = 0.12 / figure.get_size_inches()[1]
    bar = figure.colorbar(image, ax=axes, location="top", fraction=fraction, pad=pad, aspect=30)
    bar.set_label(name, labelpad=7)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _slot_ticks(count):
    return np.arange(1, count + 1, 1 + (count - 1) // 12)


def _matrix(name, array):
    if np.ma.isMaskedArray(array):
        raise TypeError(f"{name} must be a plain array, got a masked one; its mask would be lost")
    try:
        array = np.asarray(array)
    except ValueError as error:
        raise ValueError(f"{name} must be one matrix of real numbers, got rows of different lengths") from error
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be one matrix of real numbers, got shape {array.shape} and dtype {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array.astype(float)


def _labels(name, labels, count, what):
    labels = [str(label) for label in labels]
    if len(labels) != count:
        raise ValueError(f"{name} must have one label for {what}, got {len(labels)} labels for {count}")
    return labels
