"""Rows of attention weights, one query at a time."""

import numpy as np

from gma_ref.plots.moving import Moving
from gma_ref.plots.palette import PALETTE

__all__ = ["moving_weights"]


def moving_weights(weights, words, *, start=0):
    """Show with which weights each word reads the others: the slider chooses the word.

    Parameters
    ----------
    weights : dict of str to array_like, (N, N)
        One or more matrices of weights, by the name to write over each: a query's row, a key's column.
    words : sequence of str
        The N words.
    start : int
        The word to begin with.

    Returns
    -------
    Moving

    Raises
    ------
    ImportError
        If Plotly is not installed.
    ValueError
        If a matrix is not of N rows and N columns.
    """
    count = len(words)
    matrices = {name: np.asarray(matrix, dtype=float) for name, matrix in weights.items()}
    for name, matrix in matrices.items():
        if matrix.shape != (count, count):
            raise ValueError(f"{name} must have the shape {(count, count)}, got {matrix.shape}")
    largest = 1.05 * max(matrix.max() for matrix in matrices.values())
    width = 1 / len(matrices)
    traces, layout = [], {"height": 70 + 16 * count}
    layout["yaxis"] = {"tickvals": list(range(count)), "ticktext": list(words), "range": [count - 0.5, -0.5]}
    layout["yaxis"] |= {"showgrid": False, "tickfont": {"size": 12}}
    for number, name in enumerate(matrices):
        axis = f"x{number + 1 if number else ''}"
        bars = {"type": "bar", "orientation": "h", "y": list(range(count)), "xaxis": axis, "text": list(words)}
        bars |= {"marker": {"color": PALETTE["mem"].light}, "textposition": "none"}
        traces.append(bars | {"hovertemplate": "%{text}: %{x:.3f}<extra></extra>"})
        layout[f"xaxis{axis[1:]}"] = {
            "domain": [number * width + 0.03 * bool(number), (number + 1) * width],
            "range": [-0.08 * largest, largest],  # room for the mark
            "side": "top",
            "nticks": 4,
            "title": {"text": name},
        }
    mark = {"symbol": "triangle-right", "size": 10, "color": PALETTE["query"].light}
    traces.append({"type": "scatter", "mode": "markers", "x": [-0.04 * largest], "marker": mark, "hoverinfo": "skip"})
    frames = [[*({"x": matrix[row]} for matrix in matrices.values()), {"y": [row]}] for row in range(count)]
    notes = [
        f"{words[row]} reads with " + "; ".join(f"{name}: {largest_of(m[row], words)}" for name, m in matrices.items())
        for row in range(count)
    ]
    return Moving(traces, frames, words, "query", layout=layout, notes=notes, start=start)


def largest_of(row, words, count=3):
    """Name the words with the largest weights, each once."""
    found = {}
    for index in np.argsort(-row, kind="stable"):
        found.setdefault(words[index], row[index])
    return ", ".join(f"{word} {weight:.2f}" for word, weight in list(found.items())[:count])
