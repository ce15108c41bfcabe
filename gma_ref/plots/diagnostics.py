"""Four ways to watch a mixture at work: usage, alignment with classes, responsibilities, and top tokens."""

import numpy as np

from gma_ref.plots.palette import INK, PALETTE
from gma_ref.plots.style import book_style, colour_map

__all__ = ["four_diagnostics"]

IN_A_ROW = 8  # slots
TOP = 4  # tokens of each slot
INSIDE, GAP, HEAD = 1, 4, 5  # pixels between the images of a slot, between slots, and above them for the number


def four_diagnostics(gamma, classes, images):
    r"""Draw what each slot is used for. Slots are numbered by their mass, the most used one first.

    Parameters
    ----------
    gamma : array_like, (N, K)
        Responsibilities of the keys, :math:`\Gamma^K`.
    classes : array_like, (N,)
        The class of each key, counted from 0.
    images : array_like, (N, H, W)
        What each key looks like.

    Returns
    -------
    dict of str to matplotlib.axes.Axes
        By "usage", "alignment", "responsibilities" and "top tokens".

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If `classes` or `images` have not one entry for each row of `gamma`.
    """
    gamma, classes, images = np.asarray(gamma), np.asarray(classes), np.asarray(images)
    if gamma.ndim != 2 or classes.shape != gamma.shape[:1] or len(images) != len(gamma) or images.ndim != 3:
        shapes = ", ".join(str(array.shape) for array in (gamma, classes, images))
        raise ValueError(f"gamma, classes and images must have the shapes (N, K), (N,) and (N, H, W), got {shapes}")
    gamma = gamma[:, np.argsort(-gamma.sum(axis=0), kind="stable")]
    with book_style():
        import matplotlib.pyplot as plt

        panels = [["usage", "alignment"], ["responsibilities"] * 2, ["top tokens"] * 2]
        _, axes = plt.subplot_mosaic(panels, figsize=(6.4, 8.6), height_ratios=[3, 3, 2.4])
        for name, ax in axes.items():
            ax.set_title(name)
            ax.grid(name == "usage")
        _usage(axes["usage"], gamma)
        _alignment(axes["alignment"], gamma, classes)
        _responsibilities(axes["responsibilities"], gamma, classes)
        _top_tokens(axes["top tokens"], gamma, images)
    return axes


def _usage(ax, gamma):
    count = gamma.shape[1]
    ax.barh(range(1, count + 1), gamma.sum(axis=0), color=PALETTE["mem"].light)
    ax.axvline(gamma.sum() / count, color=INK, linewidth=1)  # an equal share
    ax.set(xlabel="keys", ylabel="slot", ylim=(count + 0.5, 0.5))
    _slot_ticks(ax.yaxis, count, 4)


def _alignment(ax, gamma, classes):
    count, kinds = gamma.shape[1], classes.max() + 1
    made_of = (gamma.T @ np.eye(kinds)[classes]) / np.maximum(gamma.sum(axis=0), 1e-12)[:, None]
    extent = (-0.5, kinds - 0.5, count + 0.5, 0.5)
    ax.imshow(made_of, extent=extent, cmap=colour_map("mem"), aspect="auto", vmin=0, vmax=1)
    ax.set(xlabel="class", xticks=range(kinds))
    _slot_ticks(ax.yaxis, count, 4)


def _responsibilities(ax, gamma, classes):
    count, by_class = gamma.shape[1], np.argsort(classes, kind="stable")
    extent = (0.5, count + 0.5, len(gamma), 0)
    ax.imshow(gamma[by_class], extent=extent, cmap=colour_map("key"), aspect="auto", vmin=0, vmax=1)
    ends = np.cumsum(np.bincount(classes))
    ax.set_yticks((ends + np.r_[0, ends[:-1]]) / 2, range(len(ends)))
    ax.set(xlabel="slot", ylabel="keys, by class")
    _slot_ticks(ax.xaxis, count, 1)


def _top_tokens(ax, gamma, images):
    """Draw a block of 2 x 2 images for each slot, and white between the blocks."""
    (height, width), count = images.shape[1:], gamma.shape[1]
    tall, wide = 2 * height + INSIDE + HEAD, 2 * width + INSIDE + GAP
    sheet = np.full((-(-count // IN_A_ROW) * tall, min(count, IN_A_ROW) * wide), np.nan)
    for slot in range(count):
        top, left = (slot // IN_A_ROW) * tall + HEAD, (slot % IN_A_ROW) * wide
        for rank, key in enumerate(np.argsort(-gamma[:, slot], kind="stable")[:TOP]):
            row, column = top + rank // 2 * (height + INSIDE), left + rank % 2 * (width + INSIDE)
            sheet[row : row + height, column : column + width] = images[key]
        ax.text(left + width, top - 1, slot + 1, ha="center", va="bottom", fontsize="small")
    ax.imshow(sheet, cmap="gray_r")
    ax.axis("off")


def _slot_ticks(axis, count, step):
    axis.set_ticks(sorted({1, *range(step, count + 1, step)}))
