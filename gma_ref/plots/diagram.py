"""Fig. 1 of the book: tokens write to a memory through one mixture, and read it through the same."""

import numpy as np

from gma_ref.plots.palette import CARD, DIMMED, FAINT, INK, PALETTE
from gma_ref.plots.svg import Drawing, arrow, ellipse, formula, grid, label, mix, number, path, rectangle
from gma_ref.reference import GaussianMixture, read_memory, responsibilities, write_memory

STAGES = {"project": "Eq. (4)", "route": "Eqs. (2–3)", "write": "Eqs. (5–6)", "read": "Eqs. (7–8)"}

# The layout, in units of which a phone shows three quarters as pixels: 16 units are 12 pixels.
WIDTH, HEIGHT = 460, 732
BANDS = {"project": (10, 196), "route": (212, 248), "write": (466, 132), "read": (604, 118)}  # top and height
VALUE, KEY, QUERY = 134, 242, 358  # the middles of three strands that run down
MEMORY = 148  # the middle of the memory
CELL, SLOT = 12, 15  # sizes of a matrix entry, and of one in the memory
MASS = MEMORY + 2.5 * SLOT + 9  # the middle of Z, to the right of Ṽ
PROJECTED, ROUTED = 196, 448  # where the strands leave the matrices of the first two stages

# The cells show a true calculation with N = 5, d_r = 2, K = 3, d_v = 4. Any X of full row rank has projections that
# give these queries, keys and values.
TOKENS = 0.5 + 0.5 * np.sin(1.3 * np.outer(np.arange(1, 6), np.arange(2, 8)))
QUERIES = np.array([[0.74, 0.30], [0.12, 0.36], [0.50, 0.80], [0.90, 0.62], [0.36, 0.60]])
KEYS = np.array([[0.17, 0.70], [0.44, 0.24], [0.80, 0.80], [0.27, 0.30], [0.66, 0.56]])
VALUES = np.array([[9, 1, 3, 6], [2, 8, 5, 1], [1, 4, 10, 8], [6, 9, 1, 2], [3, 2, 7, 9]]) / 10
MIXTURE = GaussianMixture(
    mu=[[0.20, 0.48], [0.48, 0.40], [0.79, 0.60]],
    variance=np.square([[0.09, 0.22], [0.10, 0.20], [0.09, 0.21]]),
    log_prior=np.log([0.3, 0.3, 0.4]),
)

DESCRIPTION = (
    "From top to bottom. Project: the tokens X give values V, keys K and queries Q. Route: keys and queries pass "
    "through one shared Gaussian mixture and become responsibilities, K shares for each token. Write: key "
    "responsibilities and values make a memory of K slots, and the key mass of each slot. Read: query responsibilities "
    "mix the slots and divide by the mass that they reach, which gives the output."
)


def workflow(stage=None):
    """Draw the workflow of Gaussian Mixture Attention, with one stage lit.

    Parameters
    ----------
    stage : {"project", "route", "write", "read"}, optional
        The stage to light; the others are dimmed. None lights all.

    Returns
    -------
    Drawing
        Shown by notebooks; ``str()`` gives the SVG.

    Raises
    ------
    ValueError
        If there is no such stage.
    """
    if stage is not None and stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(map(repr, STAGES))} or None, got {stage!r}")
    draw = {"project": _project, "route": _route, "write": _write, "read": _read}
    shapes = [_band(name, lit=stage in (None, name)) for name in STAGES]
    for name in STAGES:
        shapes += draw[name](*_inks(lit=stage in (None, name)))
    return Drawing(
        name=f"gma-workflow-{stage or 'all'}",
        width=WIDTH,
        height=HEIGHT,
        title="The workflow of Gaussian Mixture Attention" + (f": {stage}" if stage else ""),
        description=DESCRIPTION + (f" The {stage} stage is lit." if stage else ""),
        shapes=shapes,
    )


def _inks(lit):
    """Colours for shapes and for letters; dimmed letters must stay readable, dimmed shapes need not."""
    shapes = {name: mix(hue.light, CARD, 1 if lit else 0.36) for name, hue in PALETTE.items()}
    letters = {name: hue.light if lit else FAINT for name, hue in PALETTE.items()}
    return shapes | {"ink": mix(INK, CARD, 0.62 if lit else 0.3)}, letters | {"ink": INK if lit else FAINT}


def _band(name, lit):
    top, height = BANDS[name]
    fill, edge, ink = ("#ffffff", mix(INK, CARD, 0.22), INK) if lit else (DIMMED, "none", FAINT)
    return (
        rectangle(10, top, WIDTH - 20, height, fill, edge, 10, 1.4)
        + label(22, top + 27, name.capitalize(), ink, 17, weight="bold")
        + label(22, top + 48, STAGES[name], ink, 16)
    )


def _matrix(middle, top, values, inks, symbol, name, size):
    """Draw a matrix of one row a token, its name and its shape on its right."""
    shape, letter = inks
    half = values.shape[1] * CELL / 2
    return (
        grid(middle - half, top, values, shape[symbol], CELL)
        + formula(middle + half + 8, top + 26, letter, (symbol, name))
        + formula(middle + half + 8, top + 50, letter, (symbol, size), size=16)
    )


def _project(shape, letter):
    top = BANDS["project"][0] + 14
    bottom, results = top + 5 * CELL, top + 108
    drawn = [_matrix(KEY, top, TOKENS, (shape, letter), "ink", "X", "N × d_model")]
    for symbol, middle, values, name, width in (
        ("val", VALUE, VALUES, "V", "v"),
        ("key", KEY, KEYS, "K", "r"),
        ("query", QUERY, QUERIES, "Q", "r"),
    ):
        start = number(KEY + 0.2 * (middle - KEY))
        bend = f"M{start} {bottom + 4}C{start} {bottom + 28} {middle} {bottom + 14} {middle} {results - 10}"
        beside, anchor = (middle - 10, "end") if middle < KEY else (middle + 8, "start")
        drawn += [
            arrow(bend, (middle, results - 3), shape[symbol]),
            formula(beside, bottom + 34, letter, (symbol, f"W_{name}"), size=19, anchor=anchor),
            _matrix(middle, results, values, (shape, letter), symbol, f"{name}_X", f"N × d_{width}"),
        ]
    return drawn


def _route(shape, letter):
    left, width, top, height = 198, 216, BANDS["route"][0] + 26, 118
    bottom, results = top + height, top + height + 28
    drawn = [
        rectangle(left, top, width, height, "#ffffff", shape["ink"], 10, 1.6),
        label(left + width / 2, top + 20, "one shared mixture", letter["ink"], 16, "middle"),
        _mixture(left + 12, top + 28, width - 24, 62, shape),
        formula(left + width / 2, bottom - 9, letter, ("ink", "μ_k,  Σ_k,  π_k"), size=19, anchor="middle"),
    ]
    for symbol, middle, points, name in (("key", KEY, KEYS, "Γ^K"), ("query", QUERY, QUERIES, "Γ^Q")):
        gamma = responsibilities(points, MIXTURE)
        drawn += [
            arrow(f"M{middle} {PROJECTED}V{top - 10}", (middle, top - 3), shape[symbol]),
            arrow(f"M{middle} {bottom + 3}V{results - 10}", (middle, results - 3), shape[symbol]),
            _matrix(middle, results, gamma, (shape, letter), symbol, name, "N × K"),
        ]
    return drawn


def _mixture(left, top, width, height, shape):
    """Draw keys as dots and queries as squares among the components of the one mixture."""
    scale, origin = np.array([width, -height]), np.array([left, top + height])
    drawn = []
    for mu, sigma in zip(MIXTURE.mu, np.sqrt(MIXTURE.variance), strict=True):
        middle, radii = origin + mu * scale, sigma * np.abs(scale)
        drawn += [ellipse(*middle, *(times * radii), shape["ink"], 0.12) for times in (2, 1.35, 0.7)]
    drawn += [ellipse(x, y, 3.6, 3.6, shape["key"]) for x, y in origin + KEYS * scale]
    drawn += [rectangle(x - 3.2, y - 3.2, 6.4, 6.4, shape["query"], radius=1) for x, y in origin + QUERIES * scale]
    return "".join(drawn)


def _write(shape, letter):
    top = BANDS["write"][0]
    slots, below = top + 30, top + 30 + 3 * SLOT
    memory = write_memory(responsibilities(KEYS, MIXTURE), VALUES)
    drawn = [arrow(f"M{VALUE} {PROJECTED}V{slots - 10}", (VALUE, slots - 3), shape["val"])]
    for tip in (MEMORY + 17, MASS):
        fork = f"M{KEY} {ROUTED}V{top - 1}q0 9 -9 9H{number(tip + 9)}q-9 0 -9 9V{slots - 10}"
        drawn.append(arrow(fork, (tip, slots - 3), shape["key"]))
    for middle, entries, name, size in (
        (MEMORY, memory.V_tilde, "Ṽ", "K × d_v"),
        (MASS, memory.Z[:, None], "Z", "K"),
    ):
        left = middle - entries.shape[1] * SLOT / 2
        drawn += [
            grid(left, slots, entries / memory.Z.max(), shape["mem"], SLOT),
            formula(middle, below + 24, letter, ("mem", name), anchor="middle"),
            formula(middle, below + 45, letter, ("mem", size), size=16, anchor="middle"),
        ]
    keys_transposed = ("ink", " = ("), ("key", "Γ^K"), ("ink", ")^T ")
    drawn += [
        formula(228, top + 60, letter, ("mem", "Ṽ"), *keys_transposed, ("val", "V_X")),
        formula(228, top + 92, letter, ("mem", "Z"), *keys_transposed, ("ink", "1_N")),
    ]
    return drawn


def _read(shape, letter):
    top = BANDS["read"][0] + 30
    memory = write_memory(responsibilities(KEYS, MIXTURE), VALUES)
    output = read_memory(responsibilities(QUERIES, MIXTURE), memory)
    left, line, bar = QUERY - 2 * CELL, top + 12, top + 50
    return [
        arrow(f"M{QUERY} {ROUTED}V{top - 10}", (QUERY, top - 3), shape["query"]),
        path(f"M{MASS} {top - 38}V{line - 18}q0 18 18 18", shape["mem"]),
        arrow(f"M{MEMORY} {top - 38}V{line - 18}q0 18 18 18H{left - 10}", (left - 3, line), shape["mem"], "right"),
        _matrix(QUERY, top, output, (shape, letter), "ink", "O", "N × d_v"),
        formula(214, bar + 7, letter, ("ink", "O ="), anchor="end"),
        path(f"M222 {bar}h96", letter["ink"], 1.3),
        formula(270, bar - 9, letter, ("query", "Γ^Q"), ("mem", " Ṽ"), anchor="middle"),
        formula(270, bar + 23, letter, ("query", "Γ^Q"), ("mem", " Z"), ("ink", " + ε"), anchor="middle"),
    ]
