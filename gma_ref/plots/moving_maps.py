"""Places in the plane: outputs within the triangle of three values, and the regions of a mixture's components."""

import base64
import io

import numpy as np

from gma_ref.plots.moving import Moving, panel_suffix
from gma_ref.plots.palette import INK, PALETTE
from gma_ref.plots.svg import mix
from gma_ref.reference import responsibilities, scores
from gma_ref.reference.numerics import softmax

__all__ = ["moving_matrices", "moving_regions", "moving_triangle"]

TONES = (PALETTE["mem"].light, "#3d4757", "#d6b6f2")  # far apart also in grey
PIXELS = 300
BLUE, GREEN, PURPLE = (PALETTE[symbol].light for symbol in ("query", "val", "mem"))
GREENS = [mix(GREEN, "#ffffff", share) for share in (0.15, 0.35, 0.6)]


def moving_triangle(similarities, values, factors, *, start=0):
    r"""Show how three weights, and the outputs, change as the query grows: the slider multiplies it.

    Parameters
    ----------
    similarities : array_like, (M, 3)
        Similarities of M queries to the three keys.
    values : array_like, (3, 2)
        The three values, places in the plane.
    factors : sequence of float
        Numbers :math:`\beta` for the slider, in rising order. Weights are the softmax of :math:`\beta` times a row.
    start : int
        The factor to begin with.

    Returns
    -------
    Moving

    Raises
    ------
    ImportError
        If Plotly is not installed.
    """
    similarities, values = np.asarray(similarities, dtype=float), np.asarray(values, dtype=float)
    count = len(similarities)
    names = [f"o<sub>{i + 1}</sub>" for i in range(count)]
    corners = {"type": "scatter", "mode": "lines+markers+text", "fill": "toself"}
    corners |= {"x": values[[0, 1, 2, 0], 0], "y": values[[0, 1, 2, 0], 1], "marker": {"size": 11}}
    corners |= {"line": {"color": GREEN, "width": 1.5}, "fillcolor": mix(GREEN, "#ffffff", 0.08)}
    corners |= {"text": [f"v<sub>{j}</sub>" for j in (1, 2, 3)], "hoverinfo": "skip"}
    below = values[:, 1] < values[:, 1].mean()
    corners["textposition"] = np.where(below, "bottom center", "top center")
    finer = np.linspace(0, max(factors), 200)[:, None]
    traces = [corners]
    for row in similarities:
        path = softmax(finer * row) @ values
        line = {"type": "scatter", "mode": "lines", "line": {"color": mix(BLUE, "#ffffff", 0.4), "width": 1.5}}
        traces.append(line | {"x": path[:, 0], "y": path[:, 1], "hoverinfo": "skip"})
    dots = {"type": "scatter", "mode": "markers+text", "text": names, "textposition": "bottom right"}
    traces.append(dots | {"marker": {"size": 11, "color": BLUE}, "textfont": {"color": BLUE}, "hoverinfo": "skip"})
    for j in range(3):
        bar = {"type": "bar", "orientation": "h", "y": names, "xaxis": "x2", "yaxis": "y2", "hoverinfo": "skip"}
        bar |= {"textposition": "inside", "insidetextanchor": "middle", "insidetextfont": {"color": INK}}
        traces.append(bar | {"marker": {"color": GREENS[j]}})

    frames, notes = [], []
    for factor in factors:
        weights = softmax(factor * similarities)
        changes = [{}] * (1 + count) + [dict(zip("xy", (weights @ values).T, strict=True))]
        for j in range(3):
            words = [f"v<sub>{j + 1}</sub> {share:.2f}" if share > 0.2 else "" for share in weights[:, j]]
            changes.append({"x": weights[:, j], "text": words})
        frames.append(changes)
        notes.append("Weights of " + "; ".join(f"o{i + 1}: {spoken(row)}" for i, row in enumerate(weights)))
    low, high = values.min(axis=0), values.max(axis=0)
    margin = 0.12 * (high - low)
    layout = {
        "height": 470 + 30 * count,
        "barmode": "stack",
        "xaxis": {"range": [low[0] - margin[0], high[0] + margin[0]], "anchor": "y"},
        "yaxis": {"range": [low[1] - margin[1], high[1] + margin[1]], "domain": [0.36, 1]},
        "xaxis2": {"range": [0, 1], "anchor": "y2", "title": {"text": "weights"}},
        "yaxis2": {"domain": [0, 0.26], "anchor": "x2", "autorange": "reversed"},
    }
    return Moving(traces, frames, [f"{f:g}" for f in factors], "β", layout=layout, notes=notes, start=start)


def moving_regions(mixtures, labels, slider, *, reach=4.0, start=0):
    """Show which component is responsible where in the plane, as something changes.

    Parameters
    ----------
    mixtures : sequence of GaussianMixture
        One for each step, each of two or three components in the plane; or the same at each, to change `reach`.
    labels : sequence of str
        For each step, what the slider stands at.
    slider : str
        What the slider chooses.
    reach : float or sequence of float
        Half the width of the map, or one for each step.
    start : int
        The step to begin with.

    Returns
    -------
    Moving

    Raises
    ------
    ImportError
        If Plotly or Pillow is not installed.
    """
    reaches = np.broadcast_to(reach, len(mixtures))
    edge = 1 - 1 / PIXELS  # the middle of the last pixel, in units of the reach
    picture = {"type": "image", "x0": -edge, "y0": -edge, "dx": 2 / PIXELS, "dy": 2 / PIXELS, "hoverinfo": "skip"}
    line = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}
    rings = [line | {"line": {"color": color, "width": width}} for color, width in ((INK, 3.5), ("#ffffff", 2))]
    numbers = {"type": "scatter", "mode": "markers+text", "hoverinfo": "skip", "textfont": {"color": INK, "size": 14}}
    numbers |= {"marker": {"size": 22, "color": "#ffffff", "opacity": 1}}
    turn = np.append(np.linspace(0, 2 * np.pi, 40), np.nan)  # not a number: the line breaks
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    frames, notes = [], []
    for mixture, far in zip(mixtures, reaches, strict=True):
        ellipses = (mixture.mu[:, None] + np.sqrt(mixture.variance)[:, None] * circle) / far
        around = dict(zip("xy", ellipses.reshape(-1, 2).T, strict=True))
        source, parts = territories(mixture, far)
        frames.append([{"source": source}, around, around, deepest(mixture, far)])
        named = ", ".join(f"component {k + 1} has {100 * part:.0f} %" for k, part in enumerate(parts))
        notes.append(f"Of the map {named}.")
    plain_axis = {"range": [-1, 1], "showgrid": False, "showticklabels": False, "constrain": "domain"}
    layout = {"height": 370, "xaxis": plain_axis, "yaxis": plain_axis | {"scaleanchor": "x"}}
    return Moving([picture, *rings, numbers], frames, labels, slider, layout=layout, notes=notes, start=start)


def territories(mixture, reach):
    """Tint the square of half-width `reach` by responsibilities, borders white: a PNG's address, and parts of the map.

    It is drawn twice as fine, and then reduced, so that borders are smooth.
    """
    try:
        from PIL import Image
    except ImportError as missing:
        raise ImportError('This picture needs Pillow: pip install "gma-ref[plots]"') from missing
    fine = 2 * PIXELS
    middles = reach * (2 * np.arange(fine) + 1 - fine) / fine
    shares = responsibilities(np.stack(np.meshgrid(middles, middles), axis=-1), mixture)
    bands = np.round(8 * shares)  # steps make a smaller picture
    bands /= bands.sum(axis=-1, keepdims=True)
    tones = np.array([[int(tone[i : i + 2], 16) for i in (1, 3, 5)] for tone in TONES[: mixture.num_components]])
    colours = 255 - 0.75 * (255 - bands @ tones)
    winner = shares.argmax(axis=-1)
    across, up = np.diff(winner, axis=1) != 0, np.diff(winner, axis=0) != 0
    for border in (np.s_[:, :-1], across), (np.s_[:, 1:], across), (np.s_[:-1], up), (np.s_[1:], up):
        colours[border[0]][border[1]] = 255
    colours = colours.reshape(PIXELS, 2, PIXELS, 2, 3).mean(axis=(1, 3))
    file = io.BytesIO()
    image = Image.fromarray(colours.round().astype(np.uint8))
    image.quantize(32, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return source, [(winner == k).mean() for k in range(mixture.num_components)]


def deepest(mixture, reach):
    """Find where on the map each component leads by most, not too near the edge: there its number stands."""
    side = np.linspace(-0.85, 0.85, 60)
    places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    given = scores(reach * places, mixture)
    found = {"x": [], "y": [], "text": []}
    for k in range(mixture.num_components):
        lead = given[:, k] - np.delete(given, k, axis=1).max(axis=1)
        if lead.max() > 0:
            x, y = places[lead.argmax()]
            found = {"x": [*found["x"], x], "y": [*found["y"], y], "text": [*found["text"], f"{k + 1}"]}
    return found


def spoken(row):
    """Write weights for the ear."""
    return ", ".join(f"{share:.2f}" for share in row)


def moving_matrices(panels, labels, slider, *, notes=None, start=0):
    """Show matrices side by side, each on its own scale from white to the hue of the memory.

    Parameters
    ----------
    panels : dict of str to array_like, (M, N) or (steps, M, N)
        The matrices, not negative, by the name to write over each: one for each step, or one that stays.
    labels : sequence of str
        For each step, what the slider stands at.
    slider : str
        What the slider chooses.
    notes : sequence of str, optional
        For each step, a sentence that says what the matrices show.
    start : int
        The step to begin with.

    Returns
    -------
    Moving

    Raises
    ------
    ImportError
        If Plotly is not installed.
    """
    width, traces, layout = 1 / len(panels), [], {"height": 320}
    dark = mix(PURPLE, "#000000", 0.62)
    scale = [[0, "#ffffff"], [1 / 3, mix(PURPLE, "#ffffff", 0.5)], [2 / 3, PURPLE], [1, dark]]
    frames = [[] for _ in labels]
    for number, (name, given) in enumerate(panels.items()):
        suffix = panel_suffix(number)
        map_ = {"type": "heatmap", "xaxis": f"x{suffix}", "yaxis": f"y{suffix}", "zmin": 0, "zmax": 255}
        matrices = np.asarray(given, dtype=float)
        stays = {"z": as_bytes(matrices)} if matrices.ndim == 2 else {}
        traces.append(map_ | stays | {"colorscale": scale, "showscale": False, "hoverinfo": "skip"})
        for step, frame in enumerate(frames):
            frame.append({} if stays else {"z": as_bytes(matrices[step])})
        bare = {"showgrid": False, "showticklabels": False, "constrain": "domain"}
        domain = [number * width + 0.01, (number + 1) * width - 0.01]
        title = {"text": name, "standoff": 4}
        layout[f"xaxis{suffix}"] = bare | {"domain": domain, "side": "top", "title": title, "anchor": f"y{suffix}"}
        layout[f"yaxis{suffix}"] = bare | {"autorange": "reversed", "scaleanchor": f"x{suffix}", "anchor": f"x{suffix}"}
        layout[f"yaxis{suffix}"]["constraintoward"] = "top"
    return Moving(traces, frames, labels, slider, layout=layout, notes=notes, start=start)


def as_bytes(matrix):
    """Scale a matrix to whole numbers from 0 to 255."""
    return np.round(255 * matrix / (matrix.max() or 1)).astype(np.uint8)
