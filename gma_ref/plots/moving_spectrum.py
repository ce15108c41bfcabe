"""A square matrix that changes, over its singular values."""

import numpy as np

from gma_ref.plots.moving import Moving
from gma_ref.plots.palette import PALETTE

__all__ = ["moving_spectrum"]

BLUE, PURPLE = PALETTE["query"].light, PALETTE["mem"].light
LEVELS = 255  # shades of a heatmap
DARKEST = 0.97  # the quantile of the entries that has the full shade
HIDDEN = {"showticklabels": False, "showgrid": False, "constrain": "domain"}


def moving_spectrum(matrices, count, labels, slider, *, notes=None, lowest=1e-5, start=0):
    """Show matrices as heatmaps, and their singular values below: the slider chooses the matrix.

    Parameters
    ----------
    matrices : sequence of array_like, each (N, N)
        Not negative. Each has shades of its own: white is 0, and the darkest belongs to its large entries.
    count : int
        How many singular values are drawn, at most N.
    labels : list of str
        For each matrix, what the slider stands at.
    slider : str
        What the slider chooses.
    notes : list of str, optional
        For each matrix, what is to be seen.
    lowest : float
        Where the axis of the singular values begins; smaller ones are not seen.
    start : int
        The matrix to begin with.

    Returns
    -------
    Moving

    Raises
    ------
    ImportError
        If Plotly is not installed.
    ValueError
        If a matrix is not square, or `count` more than its size, or labels and notes do not fit the matrices.
    """
    frames, top = [], 0.0
    for matrix in np.asarray(matrices, dtype=float):
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or count > len(matrix):
            raise ValueError(f"matrices must be square, with at least {count} rows, got {matrix.shape}")
        values = np.linalg.svd(matrix, compute_uv=False)[:count]
        top = max(top, values[0])
        shades = np.minimum(matrix / np.quantile(matrix, DARKEST), 1)
        frames.append([{"z": np.round(LEVELS * shades).astype(np.uint8)}, {"y": values}])
    traces = [
        {"type": "heatmap", "showscale": False, "zmin": 0, "zmax": LEVELS, "hoverinfo": "skip",
         "colorscale": [[0, "#ffffff"], [1, PURPLE]]},
        {"type": "scatter", "mode": "markers+lines", "xaxis": "x2", "yaxis": "y2", "x": np.arange(1, count + 1),
         "line": {"color": BLUE, "width": 1}, "marker": {"size": 9}, "hovertemplate": "%{y:.2g}<extra></extra>"},
    ]  # fmt: skip
    layout = {
        "height": 560,
        "xaxis": HIDDEN | {"anchor": "y"},
        "yaxis": HIDDEN | {"domain": [0.42, 1], "autorange": "reversed", "scaleanchor": "x"},
        "xaxis2": {"anchor": "y2", "dtick": 1, "title": {"text": "number of the singular value"}},
        "yaxis2": {"anchor": "x2", "domain": [0, 0.36], "type": "log", "dtick": 1, "exponentformat": "power",
                   "range": [np.log10(lowest), np.log10(2 * top)], "title": {"text": "singular value"}},
    }  # fmt: skip
    return Moving(traces, frames, labels, slider, layout=layout, notes=notes, start=start)
