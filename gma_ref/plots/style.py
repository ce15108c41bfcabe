"""One matplotlib style for every figure: a light card, the palette, letters that a phone can show."""

from gma_ref.plots.palette import CARD, EDGE, INK, PALETTE
from gma_ref.plots.svg import mix

__all__ = ["book_style", "colour_map", "use_book_style"]

# A figure 5 inches wide is 360 points wide, so on a phone of 360 pixels a point is a pixel.
RC = {
    "figure.figsize": (5.0, 3.1),
    "figure.dpi": 100,
    "figure.facecolor": CARD,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.08,
    "savefig.facecolor": CARD,
    "savefig.dpi": 200,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine draws the same
    "mathtext.fontset": "dejavuserif",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": mix(INK, CARD, 0.5),
    "axes.facecolor": "#ffffff",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": EDGE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
    "image.interpolation": "nearest",
}


def use_book_style(vector=False):
    """Give all later figures the book's style; in a notebook also twice the pixels, which keeps print and phones crisp.

    Parameters
    ----------
    vector : bool
        In a notebook, SVG instead of pixels: less to load for large figures of a few lines.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    matplotlib.rcParams.update(_settings(matplotlib))
    if "inline" in matplotlib.get_backend():
        from IPython import get_ipython
        from matplotlib_inline.config import InlineBackend

        # The setting itself, since older versions of matplotlib configure the notebook again after the first cell.
        InlineBackend.instance(parent=get_ipython()).figure_formats = {"svg" if vector else "retina"}


def book_style():
    """Return a context in which figures have the book's style.

    Returns
    -------
    context manager

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    return matplotlib.rc_context(_settings(matplotlib))


def colour_map(symbol, diverging=False):
    """Make a colour map from white to the hue of a symbol.

    Parameters
    ----------
    symbol : {"query", "key", "val", "mem"}
        A key of the palette.
    diverging : bool
        Whether white stands for 0 in the middle, and grey for what is below.

    Returns
    -------
    matplotlib.colors.Colormap

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    _matplotlib()
    from matplotlib.colors import LinearSegmentedColormap

    hue = PALETTE[symbol].light
    colours = ["#ffffff", mix(hue, "#ffffff", 0.5), hue, mix(hue, "#000000", 0.62)]
    if diverging:
        colours = [mix(INK, "#ffffff", share) for share in (1, 0.8, 0.4)] + colours
    return LinearSegmentedColormap.from_list(f"gma-{symbol}", colours, N=257)  # odd, so that there is a middle


def _settings(matplotlib):
    # Dashes differ as well as hues, for readers who cannot tell the hues apart and for prints in grey.
    lines = [PALETTE[symbol].light for symbol in ("query", "key", "val", "mem")]
    cycle = matplotlib.cycler(color=lines, linestyle=["-", "--", "-.", (0, (1, 1))])
    return RC | {"axes.prop_cycle": cycle}


def _matplotlib():
    try:
        import matplotlib
    except ImportError as missing:
        raise ImportError('This figure needs matplotlib: pip install "gma-ref[plots]"') from missing
    return matplotlib
