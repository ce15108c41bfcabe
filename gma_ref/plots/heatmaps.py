"""Heatmaps of responsibilities, and of what the slots of a memory hold."""

import numpy as np

from gma_ref.plots.style import book_style, colour_map
from gma_ref.reference import Memory

__all__ = ["memory_heatmap", "responsibility_heatmap"]


def responsibility_heatmap(gamma, tokens=None, *, kind="key", ax=None):
    r"""Draw responsibilities: how much of each token goes to each slot.

    With `tokens` each row is a token, labelled, to be read downwards like the text: good for some forty. Without
    them time runs to the right, which has room for a thousand tokens.

    Parameters
    ----------
    gamma : array_like, (N, K)
        Responsibilities, :math:`\Gamma^K` or :math:`\Gamma^Q`: shares between 0 and 1, whose rows sum to 1.
    tokens : sequence of str, optional
        One label a token.
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
    ValueError
        If `gamma` is not a matrix of shares, or an argument does not fit it.
    """
    gamma = _matrix("gamma", gamma)
    if kind not in ("key", "query"):
        raise ValueError(f"kind must be 'key' or 'query', got {kind!r}")
    if gamma.min() < 0 or not np.allclose(gamma.sum(axis=1), 1, atol=1e-3):
        raise ValueError("gamma must hold shares between 0 and 1, and its rows must sum to 1")
    name = {"key": r"$\gamma^K_{j,k}$", "query": r"$\gamma^Q_{i,k}$"}[kind]
    shown = {"cmap": colour_map(kind), "vmin": 0, "vmax": 1}
    if tokens is None:
        return _wide(gamma, ax, "token", name, shown)
    return _tall(gamma, _labels("tokens", tokens, len(gamma), "a row of gamma"), ax, name, shown)


def memory_heatmap(memory, labels=None, *, title=None, ax=None):
    r"""Draw what each slot holds: one column a slot with `labels`, one row a slot without.

    Parameters
    ----------
    memory : Memory or array_like, (K, d_v)
        A memory, of which :math:`\tilde V` is drawn, or any matrix of one row a slot, such as the slot means.
    labels : sequence of str, optional
        One label a value coordinate. Then the coordinates run downwards.
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
        return _wide(slots.T, ax, "value coordinate", title, shown)
    return _tall(slots.T, _labels("labels", labels, slots.shape[1], "a value coordinate"), ax, title, shown)


def _wide(matrix, ax, along, name, shown):
    """Draw rows of `matrix` from left to right, slots downwards."""
    with book_style():
        ax = ax or _new_axes(6.0, 1.1 + 0.17 * min(max(matrix.shape[1], 4), 24))
        image = ax.imshow(matrix.T, aspect="auto", extent=(0.5, len(matrix) + 0.5, matrix.shape[1] + 0.5, 0.5), **shown)
        ax.set(xlabel=along, ylabel="slot $k$", yticks=_slot_ticks(matrix.shape[1]))
        return _finish(ax, image, name)


def _tall(matrix, labels, ax, name, shown):
    """Draw rows of `matrix` downwards, each with its label, slots from left to right."""
    count, slots = matrix.shape
    with book_style():
        ax = ax or _new_axes(min(5.0, 2.2 + 0.27 * slots), 0.8 + 0.2 * count)
        image = ax.imshow(matrix, aspect="auto", extent=(0.5, slots + 0.5, count + 0.5, 0.5), **shown)
        ax.set(xlabel="slot $k$", xticks=_slot_ticks(slots))
        ax.set_yticks(np.arange(1, count + 1), labels)
        return _finish(ax, image, name)


def _new_axes(width, height):
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height))[1]


def _finish(ax, image, name):
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, label=name, fraction=0.06, pad=0.03, aspect=18)
    bar.outline.set_visible(False)
    return ax


def _slot_ticks(count):
    return np.arange(1, count + 1, 1 + (count - 1) // 12)


def _matrix(name, array):
    array = np.asarray(array)
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
