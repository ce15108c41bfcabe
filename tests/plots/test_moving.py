"""What moves holds, at every step, what was computed, and travels as little data."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from gma_ref import plots
from gma_ref.plots import moving

WORDS = ["to", "be", "or", "not", "to", "be"]
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
TRACE = {"type": "scatter", "x": [1, 2]}


def content(picture):
    """Return what the site's script is given."""
    return json.loads(re.fullmatch(r"<script [^>]*>(.*)</script>", picture.for_site(), re.DOTALL)[1])


def trace_at(picture, step, number):
    """Return a trace as it is drawn when the slider stands at a step."""
    given = content(picture)
    frame = given["frames"][step]
    changes = dict(zip(frame["traces"], frame["data"], strict=True))
    return given["data"][number] | changes.get(number, {})


def test_importing_plots_loads_no_plotly():
    program = "import sys, gma_ref.plots; assert 'plotly' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_plotly_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r'needs Plotly: pip install "gma-ref\[plots\]"'):
        plots.Moving([TRACE], [[{}]], ["a"], "step")


def test_every_step_shows_the_rows_of_its_word():
    picture = plots.moving_weights({"one": WEIGHTS, "two": WEIGHTS.T}, WORDS, start=2)
    assert content(picture)["labels"] == WORDS
    for step in range(6):
        np.testing.assert_allclose(trace_at(picture, step, 0)["x"], WEIGHTS[step], rtol=1e-3)
        np.testing.assert_allclose(trace_at(picture, step, 1)["x"], WEIGHTS.T[step], rtol=1e-3)
        assert trace_at(picture, step, 2)["y"] == [step]
    assert content(picture)["data"][0]["x"] == trace_at(picture, 2, 0)["x"]


def test_a_note_names_the_words_that_are_read_most_each_once():
    weights = np.full((6, 6), 0.01)
    weights[3, [1, 5, 2, 0]] = [0.5, 0.4, 0.3, 0.2]
    notes = content(plots.moving_weights({"A": weights}, WORDS))["notes"]
    assert notes[3] == "“not” reads with A: be 0.50, or 0.30, to 0.20"


def test_the_slider_of_a_notebook_goes_to_every_frame():
    figure = plots.moving_weights({"one": WEIGHTS}, WORDS, start=2).for_notebook()
    (slider,) = figure.layout.sliders
    frames = {frame.name: frame for frame in figure.frames}
    assert [step.label for step in slider.steps] == WORDS
    assert slider.active == 2
    for row, step in zip(WEIGHTS, slider.steps, strict=True):
        np.testing.assert_allclose(frames[step.args[0][0]].data[0].x, row, rtol=1e-3)
        assert frames[step.args[0][0]].layout.title.text
    assert figure.layout.title.text == frames["2"].layout.title.text


def test_the_site_gets_no_slider_of_plotly_and_no_script_of_it():
    given = plots.moving_weights({"one": WEIGHTS}, WORDS)
    assert "sliders" not in content(given)["layout"]
    assert "title" not in content(given)["layout"]
    assert len(given.for_site()) < 10_000


def test_a_picture_shows_where_it_is_asked_to(monkeypatch):
    display = pytest.importorskip("IPython.display")
    io = pytest.importorskip("plotly.io")
    shown = []
    monkeypatch.setattr(display, "display_html", lambda html, raw: shown.append(html))
    monkeypatch.setattr(io, "show", lambda figure, **settings: shown.append((figure, settings)))
    picture = plots.moving_weights({"one": WEIGHTS}, WORDS)
    picture._ipython_display_()
    monkeypatch.setenv(moving.SITE, "1")
    picture._ipython_display_()
    (figure, settings), html = shown
    assert len(figure.layout.sliders[0].steps) == 6
    assert settings["config"]["typesetMath"] is False  # MathJax is the page's own
    assert html == picture.for_site()


def test_words_cannot_end_the_script():
    assert "</script>" not in plots.Moving([TRACE], [[{}]], ["</script>"], "step").for_site()[:-9]


def test_numbers_travel_short():
    given = {"x": np.array([1 / 3, 2.0]), "y": [np.float32(2 / 3), (1, "a")], "z": np.int64(7)}
    assert moving.plain(given) == {"x": [0.3333, 2.0], "y": [0.6667, [1, "a"]], "z": 7}
    assert type(moving.plain(np.int64(7))) is int


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([TRACE], [], [], "s"), "labels must have one entry for each frame, got 0 for 0"),
        (([TRACE], [[{}]], ["a", "b"], "s"), "labels must have one entry for each frame, got 2 for 1"),
        (([TRACE], [[{}, {}]], ["a"], "s"), "a frame must have one entry for each trace, got 2 for 1"),
        (([{"type": "scatter", "nothing": 1}], [[{}]], ["a"], "s"), "nothing"),
        (([TRACE], [[{"nothing": 1}]], ["a"], "s"), "nothing"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.Moving(*arguments)


def test_more_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="notes must have one entry for each frame, got 2 for 1"):
        plots.Moving([TRACE], [[{}]], ["a"], "s", notes=["a", "b"])
    with pytest.raises(ValueError, match="start must be one of the 1 frames, got 1"):
        plots.Moving([TRACE], [[{}]], ["a"], "s", start=1)
    with pytest.raises(ValueError, match=r"A must have the shape \(2, 2\), got \(6, 6\)"):
        plots.moving_weights({"A": WEIGHTS}, ["a", "b"])
