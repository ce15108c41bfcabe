"""Pictures with a slider. Every frame is computed beforehand, so that they move where no kernel runs.

In a notebook Plotly shows them. The book's site takes the same data and draws them with a slider of its own, which
the keyboard and screen readers know; ``book/_ext/book_moving.py`` makes it.
"""

import json
import os

import numpy as np

from gma_ref.plots.palette import CARD, EDGE, FAINT, INK

__all__ = ["Moving"]

SITE = "GMA_REF_MOVING_FOR_SITE"  # set while the site is built
CONFIG = {"displayModeBar": False, "scrollZoom": False}
# Notebooks see to their width themselves, and MathJax is the page's own.
SITE_CONFIG = CONFIG | {"responsive": True, "typesetMath": False}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"
AXIS = {
    "fixedrange": True,  # a finger on the picture scrolls the page
    "automargin": True,
    "gridcolor": EDGE,
    "linecolor": FAINT,
    "zeroline": False,
    "ticks": "",
    "title": {"standoff": 8},
}
STYLE = {
    "font": {"family": FONT, "size": 13, "color": INK},
    "paper_bgcolor": CARD,
    "plot_bgcolor": "#ffffff",
    "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
    "showlegend": False,
    "dragmode": False,
    "bargap": 0.2,
    "hoverlabel": {"font": {"family": FONT}},
    "xaxis": AXIS,
    "yaxis": AXIS,
}
HEIGHT = 380
AT_ONCE = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}


class Moving:
    """A picture with a slider.

    Parameters
    ----------
    traces : list of dict
        What is drawn, as Plotly has it: each with its ``type``, and all that never changes.
    frames : list of list of dict
        For each step of the slider, what it changes in each trace. What one step changes, every step must set: readers
        may come to it from any other.
    labels : list of str
        For each step, what the slider stands at: a word, a number with its unit.
    slider : str
        What the slider chooses.
    layout : dict, optional
        Axes and the like, as Plotly has it, on top of the book's style. Its ``height`` is in pixels.
    notes : list of str, optional
        For each step, a sentence that says what the picture shows. It is read aloud where the picture is not seen.
    start : int
        The step to begin with.

    Attributes
    ----------
    figure : plotly.graph_objects.Figure
        The picture at its first step, and the frames.

    Raises
    ------
    ImportError
        If Plotly is not installed.
    ValueError
        If there are no frames, or labels, notes or traces do not fit them; and what Plotly refuses.
    """

    def __init__(self, traces, frames, labels, slider, *, layout=None, notes=None, start=0):
        _fits("labels", labels, "frame", frames)
        _fits("notes", notes or labels, "frame", frames)
        for changes in frames:
            _fits("a frame", changes, "trace", traces)
            if [set(change) for change in changes] != [set(change) for change in frames[0]]:
                raise ValueError("every frame must set the same properties of a trace as the first frame does")
        if not 0 <= start < len(frames):
            raise ValueError(f"start must be one of the {len(frames)} frames, got {start}")
        self.labels, self.slider, self.start = list(labels), slider, start
        self.notes = list(notes) if notes else [""] * len(labels)
        self.figure = _figure(traces, frames, layout or {}, start)

    def for_notebook(self):
        """Return the figure with Plotly's own slider under it, and the notes over it."""
        picture = _plotly().Figure(self.figure)
        steps = []
        for index, (label, note) in enumerate(zip(self.labels, self.notes, strict=True)):
            steps.append({"label": label, "method": "animate", "args": [[str(index)], AT_ONCE]})
            if note:
                picture.frames[index].layout.title.text = note
        below = {"steps": steps, "active": self.start, "currentvalue": {"prefix": f"{self.slider}: "}, "pad": {"t": 50}}
        picture.update_layout(sliders=[below], height=picture.layout.height + 100)
        if any(self.notes):
            title = {"text": self.notes[self.start], "font": {"size": 13}, "x": 0, "xref": "paper"}
            picture.update_layout(title=title, height=picture.layout.height + 30, margin={"t": 60})
        return picture

    def for_site(self):
        """Return what the site's script needs to draw the picture, as HTML that shows nothing by itself."""
        picture = json.loads(self.figure.to_json())
        content = {
            "data": picture["data"],
            "layout": picture["layout"],
            "frames": picture["frames"],
            "config": SITE_CONFIG,
            "labels": self.labels,
            "notes": self.notes,
            "slider": self.slider,
            "start": self.start,
        }
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
        return f'<script type="application/json" class="moving-content">{text}</script>'

    def _ipython_display_(self):
        if SITE in os.environ:
            from IPython.display import display_html

            display_html(self.for_site(), raw=True)
        else:
            self.for_notebook().show(config=CONFIG)


def _figure(traces, frames, layout, start):
    """Build the figure: Plotly refuses what it does not know."""
    go = _plotly()
    steps = []
    for index, changes in enumerate(frames):
        changed = [number for number, change in enumerate(changes) if change]
        data = [{"type": traces[number]["type"], **changes[number]} for number in changed]
        steps.append(go.Frame(name=str(index), data=plain(data), traces=changed))
    style = {"template": {"layout": STYLE}, "height": HEIGHT}
    figure = go.Figure(data=plain(traces), layout=style | plain(layout), frames=steps)
    for trace, change in zip(figure.data, frames[start], strict=True):
        trace.update(plain(change))
    return figure


def plain(value, digits=4):
    """Turn arrays within `value` into lists of numbers of `digits` significant digits: Plotly would write more.

    Arrays of bytes stay: Plotly packs them.
    """
    if isinstance(value, dict):
        return {name: plain(part, digits) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, digits) for part in value]
    if isinstance(value, np.ndarray) and value.dtype != np.uint8:
        return plain(value.tolist(), digits)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{digits}g}")
    return value.item() if isinstance(value, np.generic) else value


def panel_suffix(number):
    """Return what Plotly writes after x and y in the names of the axes of a panel, counted from 0."""
    return str(number + 1) if number else ""


def _fits(name, given, what, wanted):
    if not wanted or len(given) != len(wanted):
        raise ValueError(f"{name} must have one entry for each {what}, got {len(given)} for {len(wanted)}")


def _plotly():
    try:
        import plotly.graph_objects
    except ImportError as missing:
        raise ImportError('This picture needs Plotly: pip install "gma-ref[plots]"') from missing
    return plotly.graph_objects
