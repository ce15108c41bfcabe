"""Figures of trained models: scores with their seeds as dots, and how scores depend on something."""

from collections.abc import Mapping, Sequence

from gma_ref.plots.curves import _legend, _style
from gma_ref.plots.palette import EDGE, FAINT, INK
from gma_ref.plots.style import _matplotlib

__all__ = ["draw_scores", "draw_trends"]

# A mixer looks like the attention that it has in other figures
_ATTENTION = {"softmax": "sdpa", "gma": "gma", "linear": "elu", "favor": "favor", "mamba": "mamba"}


def draw_scores(
    panels: Mapping, titles: Mapping, *, xlabel: str, band: Sequence[float] | None = None, mark: float | None = None
):
    """Draw scores in rows, a dot for each run, one panel below the other.

    Parameters
    ----------
    panels : mapping
        Title of a panel → name of a row → its scores. A short line marks the mean of several.
    titles : mapping of str to str
        What stands before a row; the name itself where it has none.
    xlabel : str
    band : pair of float, optional
        Ends of a grey band through all rows.
    mark : float, optional
        Place of a broken line through all rows, such as a baseline.

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

    rows = [len(panel) for panel in panels.values()]
    size = 5, 0.7 + sum(0.4 + 0.34 * count for count in rows)
    fig, axes = plt.subplots(len(panels), 1, figsize=size, sharex=True, squeeze=False, height_ratios=rows)
    for ax, (title, panel) in zip(axes[:, 0], panels.items(), strict=True):
        if band is not None:
            ax.axvspan(*band, color=EDGE, alpha=0.6, lw=0, zorder=0)
        if mark is not None:
            ax.axvline(mark, color=FAINT, ls=(0, (5, 3)), lw=1.4, zorder=0)
        for row, (name, scores) in enumerate(panel.items()):
            look = _look(name)
            ax.plot(scores, [row] * len(scores), **look | {"ls": "none", "alpha": 0.8})
            if len(scores) > 1:
                mean = sum(scores) / len(scores)
                ax.plot([mean, mean], [row - 0.36, row + 0.36], color=look["color"], ls="-", lw=2)
        ax.set_yticks(range(len(panel)), [titles.get(name, name) for name in panel])
        ax.set(ylim=(len(panel) - 0.4, -0.6), title=title)
        ax.grid(axis="y", visible=False)
    axes[-1, 0].set_xlabel(xlabel)
    return fig


def draw_trends(panels: Mapping, titles: Mapping, *, ylabel: str, ticks: Sequence | None = None, label: str = ""):
    """Draw scores against something, one panel below the other: a dot for each run, a line through the means.

    Parameters
    ----------
    panels : mapping
        What is on the horizontal axis, which is logarithmic → name of a model → place on that axis → its scores.
    titles : mapping of str to str
        What the legend calls a model.
    ylabel : str
    ticks : sequence of float, optional
        Places that are named; without it the powers of ten, and 2 and 5 times these where there are few.
    label : str
        What stands above: where it was measured.

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
    from matplotlib.ticker import FuncFormatter, LogLocator

    fig, axes = plt.subplots(len(panels), 1, figsize=(5, 1.3 + 2.7 * len(panels)), sharey=True, squeeze=False)
    for ax, (xlabel, models) in zip(axes[:, 0], panels.items(), strict=True):
        for name, values in models.items():
            _draw_trend(ax, _look(name), titles.get(name, name), values)
        ax.set(xlabel=xlabel, ylabel=ylabel, xscale="log")
        ax.minorticks_off()
        places = [place for values in models.values() for place in values]
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(places) < 100 * min(places) else (1,)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda place, _: f"{place:,g}"))
        if ticks is not None:
            ax.set_xticks(ticks)
    _legend(fig, label)
    return fig


def _draw_trend(ax, look, title, values):
    """Draw a model's runs, and a line through the means where there are several places."""
    places, line = sorted(values), {"ls": look["ls"] if len(values) > 1 else "none", "lw": 1.6}
    means = [sum(values[place]) / len(values[place]) for place in places]
    ax.plot(places, means, color=look["color"], **line)
    dots = [(place, score) for place in places for score in values[place]]
    ax.plot(*zip(*dots, strict=True), **look | {"ls": "none", "alpha": 0.8})
    ax.plot([], [], **look | line, label=title)


def _look(name):
    """Return how a model is drawn, as in the figures of timing; a row that is no model has dots of ink."""
    if name not in _ATTENTION:
        return {"color": INK, "ls": "-", "marker": "o", "ms": 5}
    look = _style(_ATTENTION[name])
    return {key: look[key] for key in ("color", "ls", "marker", "ms")}
