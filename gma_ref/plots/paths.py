"""Two orders of work side by side: match then collect, write then read."""

from gma_ref.plots.palette import CARD, INK, PALETTE
from gma_ref.plots.svg import Drawing, ellipse, formula, label, mix, path, rectangle

WIDTH, HEIGHT = 460, 306
TOP, STEP = 70, 25  # the first token, and the way to the next
TOKENS, SLOTS = 7, 2


def compare_paths():
    """Draw how keys inform queries in dot-product attention, and in Gaussian Mixture Attention.

    Returns
    -------
    Drawing
        Shown by notebooks; ``str()`` gives the SVG.
    """
    return Drawing(
        name="gma-paths",
        width=WIDTH,
        height=HEIGHT,
        title="Match then collect, or write then read",
        description=(
            "Left: in dot-product attention each of 7 queries is linked with each of 7 keys, by 49 lines. Right: in "
            "Gaussian Mixture Attention 7 keys are linked with 2 slots of a memory, and these with 7 queries, by 28."
        ),
        shapes=[*_match_then_collect(10), *_write_then_read(235)],
    )


def _match_then_collect(left):
    keys, queries = left + 44, left + 171
    links = [(keys, _y(j), queries, _y(i)) for i in range(TOKENS) for j in range(TOKENS)]
    return [
        *_panel(left, "Match, then collect", [("ink", "N^2"), ("ink", f" = {TOKENS**2} similarities")]),
        *(_link(*ends, INK) for ends in links),
        *_tokens(keys, "key", "keys"),
        *_tokens(queries, "query", "queries"),
    ]


def _write_then_read(left):
    keys, slots, queries = left + 44, left + 107.5, left + 171
    heights = [_y((TOKENS - 1) * (slot + 0.5) / SLOTS) for slot in range(SLOTS)]
    links = [
        _link(*ends, PALETTE[symbol].light)
        for i in range(TOKENS)
        for y in heights
        for symbol, *ends in (("key", keys, _y(i), slots, y), ("query", slots, y, queries, _y(i)))
    ]
    return [
        *_panel(
            left,
            "Write, then read",
            [("ink", "2"), ("ink", "N"), ("ink", "K"), ("ink", f" = {2 * TOKENS * SLOTS} shares")],
        ),
        *links,
        *_tokens(keys, "key", "keys"),
        *_tokens(queries, "query", "queries"),
        *(rectangle(slots - 13, y - 13, 26, 26, PALETTE["mem"].light, "#ffffff", 6, 2) for y in heights),
        label(slots, _y(TOKENS - 1) + 30, "slots", PALETTE["mem"].light, 16, "middle"),
    ]


def _y(position):
    return TOP + STEP * position


def _panel(left, title, count):
    return [
        rectangle(left, 10, 215, HEIGHT - 20, "#ffffff", mix(INK, CARD, 0.22), 10, 1.4),
        label(left + 107.5, 38, title, INK, 17, "middle", "bold"),
        formula(left + 107.5, HEIGHT - 28, {"ink": INK}, *count, size=19, anchor="middle"),
    ]


def _link(x1, y1, x2, y2, colour):
    return path(f"M{x1:g} {y1:g}L{x2:g} {y2:g}", mix(colour, "#ffffff", 0.42), 1.3)


def _tokens(x, symbol, name):
    colour = PALETTE[symbol].light
    dots = [ellipse(x, _y(i), 7.5, 7.5, "#ffffff") + ellipse(x, _y(i), 6, 6, colour) for i in range(TOKENS)]
    return [*dots, label(x, _y(TOKENS - 1) + 30, name, colour, 16, "middle")]
