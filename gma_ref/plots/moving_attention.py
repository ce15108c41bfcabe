"""Who reads whom, one query at a time: rows of weights, and a memory that fills."""

import numpy as np

from gma_ref.plots.moving import Moving, panel_suffix
from gma_ref.plots.palette import INK, PALETTE
from gma_ref.plots.svg import mix
from gma_ref.reference import prefix_memory, read_memory

__all__ = ["moving_memory", "moving_weights"]

NEW, OLD = PALETTE["mem"].light, mix(PALETTE["mem"].light, "#ffffff", 0.3)


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
        suffix = panel_suffix(number)
        bars = {"type": "bar", "orientation": "h", "y": list(range(count)), "xaxis": f"x{suffix}", "text": list(words)}
        bars |= {"marker": {"color": NEW}, "textposition": "none"}
        traces.append(bars | {"hovertemplate": "%{text}: %{x:.3f}<extra></extra>"})
        layout[f"xaxis{suffix}"] = {
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
        f"“{words[row]}” reads with "
        + "; ".join(f"{name}: {largest_of(m[row], words)}" for name, m in matrices.items())
        for row in range(count)
    ]
    return Moving(traces, frames, words, "query", layout=layout, notes=notes, start=start)


def moving_memory(gamma_q, gamma_k, words, *, start=None):
    r"""Show how the memory of a causal sequence fills: the slider chooses the last token.

    The values are one coordinate a word, so that a slot's row of :math:`\tilde V^{(i)}` says how much it holds of
    each word, and the output of token i is its row of weights.

    Parameters
    ----------
    gamma_q, gamma_k : array_like, (N, K)
        Responsibilities of the queries and the keys.
    words : sequence of str
        The N words.
    start : int, optional
        The token to begin with; the last by default.

    Returns
    -------
    Moving

    Raises
    ------
    ImportError
        If Plotly is not installed.
    """
    count, slots = len(words), np.shape(gamma_k)[1]
    memory = prefix_memory(gamma_k, np.eye(count))
    outputs = read_memory(np.asarray(gamma_q)[:, None, :], memory)[:, 0]
    longest = 1.02 * memory.Z.max()
    bar = {"type": "bar", "orientation": "h", "y": list(range(1, slots + 1)), "textposition": "inside"}
    bar |= {"insidetextanchor": "middle", "textangle": 0, "constraintext": "none"}
    bar |= {"hovertemplate": "%{meta}: %{x:.3f} in slot %{y}<extra></extra>"}
    line = {"color": "#ffffff", "width": 1}
    traces = [bar | {"meta": word, "marker": {"line": line}} for word in words]
    blue = {"color": PALETTE["query"].light, "sizemode": "area", "sizemin": 0, "sizeref": 2 / 18**2}
    reads = {"type": "scatter", "mode": "markers", "x": [-0.06 * longest] * slots, "y": bar["y"], "marker": blue}
    reads |= {"hovertemplate": "reads slot %{y} with %{meta}<extra></extra>"}
    row = {"type": "bar", "x": list(range(count)), "marker": {"color": PALETTE["query"].light}, "text": list(words)}
    row |= {"xaxis": "x2", "yaxis": "y2", "textposition": "none", "hovertemplate": "%{text}: %{y:.3f}<extra></extra>"}
    traces += [reads, row]

    frames, notes = [], []
    for i, word in enumerate(words):
        changes = []
        for j in range(count):
            share = memory.V_tilde[i, :, j]
            named = [words[j] if part > 0.022 * len(words[j]) * longest else "" for part in share] if j <= i else []
            ink = {"color": "#ffffff" if j == i else INK, "size": 11}
            changes.append({"x": share, "text": named, "textfont": ink, "marker": {"color": NEW if j == i else OLD}})
        shares = np.asarray(gamma_q)[i]
        changes += [{"marker": {"size": shares}, "meta": "".join(f"{s:.2f} " for s in shares)}, {"y": outputs[i]}]
        frames.append(changes)
        mass = f"{memory.Z[i].sum():.0f} keys" if i else "1 key"
        notes.append(f"After “{word}” the memory holds {mass}; “{word}” reads {largest_of(outputs[i], words)}")
    layout = {
        "barmode": "stack",
        "height": 30 * slots + 250,
        "xaxis": {"range": [-0.12 * longest, longest], "title": {"text": "key mass (keys)"}, "anchor": "y"},
        "yaxis": {"domain": [0.46, 1], "range": [slots + 0.6, 0.4], "dtick": 1, "title": {"text": "slot"}},
        "xaxis2": {"anchor": "y2", "tickvals": row["x"], "ticktext": list(words), "tickangle": -60},
        "yaxis2": {"domain": [0, 0.28], "range": [0, 1], "title": {"text": "weight"}, "anchor": "x2"},
    }
    return Moving(
        traces, frames, words, "token", layout=layout, notes=notes, start=count - 1 if start is None else start
    )


def largest_of(row, words, count=3):
    """Name the words with the largest weights, each once with all its weights, and none of hardly any weight."""
    found = {}
    for index in np.argsort(-row, kind="stable"):
        if row[index] >= 0.005 or not found:
            found.setdefault(words[index], []).append(f"{row[index]:.2f}")
    return ", ".join(f"{word} {' + '.join(weights)}" for word, weights in list(found.items())[:count])
