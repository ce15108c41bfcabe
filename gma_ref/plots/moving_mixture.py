"""A mixture that is being learned, step by step: where its components stand, and which of them rules where."""

import numpy as np

from gma_ref.plots.moving import Moving, panel_suffix
from gma_ref.plots.palette import INK, PALETTE
from gma_ref.plots.svg import mix
from gma_ref.reference import scores

__all__ = ["moving_components"]

PURPLE = PALETTE["mem"].light
SYMBOLS = ("circle", "x-thin", "diamond", "cross-thin")
PANEL, GAP, NAME = 320, 60, 24  # pixels
ARROWS = {
    (-1, 1): "↖", (0, 1): "↑", (1, 1): "↗",
    (-1, 0): "←", (0, 0): "", (1, 0): "→",
    (-1, -1): "↙", (0, -1): "↓", (1, -1): "↘",
}  # fmt: skip


def moving_components(paths, points, groups, labels, *, notes=None, side=3.2, resolution=65, start=None):
    """Show how the components of mixtures in two dimensions move: the slider chooses the step.

    Each panel shows the points, the means as numbers, and by its shade the component that is the most responsible at
    each place. The number of a mean outside the panel stands at its edge, with an arrow.

    Parameters
    ----------
    paths : dict of str to list of GaussianMixture
        By the name of its panel, from top to bottom, one mixture for each step, all with as many components.
    points : array_like, (N, 2)
    groups : array_like, (N,)
        For each point 0, 1, 2 or 3: how it is drawn.
    labels : list of str
        For each step, what the slider stands at.
    notes : list of str, optional
        For each step, what is to be seen.
    side : float
        The panels show both coordinates from -`side` to `side`.
    resolution : int
        How many places along each side are coloured.
    start : int, optional
        The step to begin with; the last by default.

    Returns
    -------
    Moving

    Raises
    ------
    ImportError
        If Plotly is not installed.
    ValueError
        If a panel has not one mixture for each label, or `points` are not two-dimensional.
    """
    points, groups = np.asarray(points, dtype=float), np.asarray(groups)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must have the shape (N, 2), got {points.shape}")
    for name, mixtures in paths.items():
        if len(mixtures) != len(labels):
            raise ValueError(f"{name} must have one mixture for each label, got {len(mixtures)} for {len(labels)}")
    ticks = np.linspace(-side, side, resolution)
    places = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    height = len(paths) * (PANEL + GAP)
    traces, frames, layout = [], [[] for _ in labels], {"height": height, "annotations": []}
    for number, (name, mixtures) in enumerate(paths.items()):
        suffix = panel_suffix(number)
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}", "hoverinfo": "skip"}
        top = 1 - (number * (PANEL + GAP) + NAME) / height
        square = {"range": [-side, side], "nticks": 6}
        layout[f"xaxis{suffix}"] = square | {"anchor": f"y{suffix}"}
        layout[f"yaxis{suffix}"] = square | {"anchor": f"x{suffix}", "domain": [top - PANEL / height, top]}
        above = {"x": 0.5, "y": top, "xref": "paper", "yref": "paper", "yanchor": "bottom", "showarrow": False}
        layout["annotations"].append(above | {"text": f"<b>{name}</b>"})
        count = mixtures[0].num_components
        shades = {"colorscale": [[0, mix(PURPLE, "#ffffff", 0.06)], [1, mix(PURPLE, "#ffffff", 0.7)]], "zmin": 0}
        shades |= {"type": "heatmap", "x": ticks, "y": ticks, "zmax": max(count - 1, 1), "showscale": False}
        halo = {"size": 24, "color": "rgba(255, 255, 255, 0.7)"}  # so that no point hides a number
        numbers = {"type": "scatter", "mode": "markers+text", "marker": halo, "cliponaxis": False}
        traces.append(shades | axes)
        for group in np.unique(groups):
            x, y = points[groups == group].T
            marker = {"symbol": SYMBOLS[group], "size": 4, "color": INK, "line": {"width": 1, "color": INK}}
            traces.append({"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker} | axes)
        traces.append(numbers | {"textfont": {"size": 22, "color": INK}} | axes)
        still = [{}] * len(np.unique(groups))
        for frame, mixture in zip(frames, mixtures, strict=True):
            rules = scores(places, mixture).argmax(axis=-1).reshape(resolution, resolution)
            frame += [{"z": rules}, *still, _numbers(mixture.mu, side)]
    start = len(labels) - 1 if start is None else start
    return Moving(traces, frames, labels, "step", layout=layout, notes=notes, start=start)


def _numbers(means, side):
    """Place the number of each mean; for one that lies outside, at the edge, with an arrow in its direction."""
    edge = 0.93 * side
    texts = []
    for k, mean in enumerate(means):
        horizontal, vertical = (int(np.sign(part)) if abs(part) > side else 0 for part in mean)
        texts.append(f"<b>{k + 1}{ARROWS[horizontal, vertical]}</b>")
    outside = np.abs(means) > side
    x, y = np.where(outside, np.clip(means, -edge, edge), means).T
    return {"x": x, "y": y, "text": texts}
