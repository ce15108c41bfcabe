"""Figures of measurements: curves against the number of tokens, and a roofline."""

from gma_ref.plots.palette import EDGE, FAINT, INK, PALETTE
from gma_ref.plots.style import _matplotlib

__all__ = ["draw_curves", "draw_roofline"]

_PURPLE, _BLUE, _GREEN, _ORANGE = (PALETTE[symbol].light for symbol in ("mem", "query", "val", "key"))
# Colour, dashes, marker and width of each method's line; hollow markers go with thin lines
_LOOKS = {
    "gma": (_PURPLE, "-", "o", 3.0),
    "gma_blocked": (_PURPLE, "-", "o", 1.4),
    "gma_naive": (_PURPLE, "--", "^", 1.4),
    "gma_cumulative": (_PURPLE, ":", "s", 1.6),
    "gma_cumsum": (_PURPLE, ":", "D", 1.6),
    "sdpa": (INK, "-", "o", 3.0),
    "elu": (_GREEN, "-", "v", 1.6),
    "favor": (_GREEN, "--", "^", 1.6),
    "performer": (_GREEN, ":", "s", 1.6),
    "mamba": (_ORANGE, "-.", "D", 1.6),
    "floor": (FAINT, "--", "x", 1.6),
}
_OTHER = (_BLUE, "-.", "P", 1.6)


def draw_curves(panels, titles, *, label, ylabel, even=False, reference=None):
    """Draw curves against the number of tokens on logarithmic axes, one panel below the other.

    Parameters
    ----------
    panels : dict
        Title of a panel → name of a method → number of tokens → a value, or a value with the ends of its band.
        A method without values is left out.
    titles : dict of str to str
        What the legend calls a method.
    label : str
        What stands above: where it was measured.
    ylabel : str
    even : bool
        Whether to draw a line at 1, and grey below it.
    reference : tuple of str and dict of int to float, optional
        Title and values of a wide grey line.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    _matplotlib()
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(len(panels), 1, figsize=(5, 1.5 + 3.1 * len(panels)), sharex=True, squeeze=False)
    for ax, (title, curves) in zip(axes[:, 0], panels.items(), strict=True):
        for name, values in curves.items():
            if values:
                _draw_curve(ax, name, titles[name], values)
        if reference:
            ax.plot(*zip(*sorted(reference[1].items()), strict=True), color=EDGE, lw=5, zorder=0, label=reference[0])
        ax.set(xscale="log", yscale="log", ylabel=ylabel, title=title)
        if even:
            bottom, top = ax.get_ylim()
            bottom = min(bottom, 0.5)  # the line is in sight where nothing lies below it
            ax.axhspan(bottom, 1, color=EDGE, alpha=0.6, lw=0)
            ax.axhline(1, color=INK, lw=1)
            ax.set_ylim(bottom, top)
    _finish(fig, axes[-1, 0], label)
    return fig


def draw_roofline(points, titles, *, label, flop_per_second, bytes_per_second):
    """Draw what methods did in a second against their arithmetic intensity, under the machine's limits.

    Parameters
    ----------
    points : dict of str to tuple of float
        Intensity in FLOP a byte, and FLOP a second, by the name of the method.
    titles : dict of str to str
    label : str
        Where it was measured.
    flop_per_second, bytes_per_second : float
        The limits.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    _matplotlib()
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(5, 4.8))
    intensities = [intensity for intensity, _ in points.values()]
    ends = sorted([min(intensities) / 3, flop_per_second / bytes_per_second, max(intensities) * 3])
    roof = [min(flop_per_second, x * bytes_per_second) / 1e9 for x in ends]
    ax.plot(ends, roof, color=INK, ls="-", label="the machine's limits")
    for name, (intensity, speed) in points.items():
        style = _style(name) | {"ls": "none", "ms": 8}
        ax.plot([intensity], [speed / 1e9], label=titles[name], **style)
    ax.set(xscale="log", yscale="log", xlabel="FLOP a byte", ylabel="GFLOP/s")
    _legend(fig, label)
    return fig


def _style(name):
    """Return the look of a method; one that the table lacks gets a blue line."""
    colour, dashes, marker, width = _LOOKS.get(name, _OTHER)
    inside = colour if width > 1.5 else "white"
    return {"color": colour, "ls": dashes, "marker": marker, "lw": width, "ms": 5, "markerfacecolor": inside}


def _draw_curve(ax, name, title, values):
    """Draw one method, with its band where there is one."""
    lengths = sorted(values)
    found = [value if isinstance(value, tuple) else (value,) for value in map(values.get, lengths)]
    ax.plot(lengths, [value for value, *_ in found], label=title, **_style(name))
    with_band = [(N, *ends) for N, (_, *ends) in zip(lengths, found, strict=True) if ends]
    if with_band:
        places, low, high = zip(*with_band, strict=True)
        ax.fill_between(places, low, high, color=INK, alpha=0.15, lw=0)


def _finish(fig, ax, label):
    """Give a figure its lengths, its legend and where it was measured."""
    lengths = sorted({int(N) for one in fig.axes for line in one.lines for N in line.get_xdata() if N > 1})
    shown = [N for N in lengths if N & (N - 1) == 0]
    if len(shown) > 5:  # every other power of two
        shown = [N for N in shown if (N.bit_length() - shown[0].bit_length()) % 2 == 0]
    ax.set_xticks(shown, [f"{N:,}" for N in shown])
    ax.minorticks_off()
    ax.set_xlabel("tokens $N$")
    _legend(fig, label)


def _legend(fig, label):
    entries = {}
    for ax in fig.axes:
        handles, texts = ax.get_legend_handles_labels()
        entries |= dict(zip(texts, handles, strict=True))
    fig.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=2)
    fig.suptitle(label, fontsize=8.5, color=FAINT)
