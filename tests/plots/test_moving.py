"""What moves holds, at every step, what was computed, and travels as little data."""

import base64
import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from gma_ref import GaussianMixture, attention_weights, plots, responsibilities
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


def test_a_note_names_the_words_that_are_read_most_each_once_with_all_its_weights():
    weights = np.full((6, 6), 0.01)
    weights[3, [1, 5, 2, 0]] = [0.5, 0.4, 0.3, 0.2]
    weights[0] = [0.996, 0.004, 0, 0, 0, 0]
    notes = content(plots.moving_weights({"A": weights}, WORDS))["notes"]
    assert notes[0] == "“to” reads with A: to 1.00"
    assert notes[3] == "“not” reads with A: be 0.50 + 0.40, or 0.30, to 0.20 + 0.01"


def test_the_memory_fills_until_it_holds_everything():
    gamma_q, gamma_k = np.random.default_rng(1).dirichlet(np.ones(3), size=(2, 6))
    picture = plots.moving_memory(gamma_q, gamma_k, WORDS)
    weights = attention_weights(gamma_q, gamma_k, causal=True)
    for step in range(6):
        for word in range(6):
            held = gamma_k[word] if word <= step else np.zeros(3)
            np.testing.assert_allclose(trace_at(picture, step, word)["x"], held, rtol=1e-3)
        np.testing.assert_allclose(trace_at(picture, step, 6)["marker"]["size"], gamma_q[step], rtol=1e-3)
        np.testing.assert_allclose(trace_at(picture, step, 7)["y"], weights[step], rtol=1e-3)
    assert content(picture)["start"] == 5
    assert content(picture)["notes"][0].startswith("After “to” the memory holds 1 key; “to” reads to 1.00")


def test_short_parts_of_the_memory_carry_no_name():
    gamma = np.array([[0.5, 0.5], [0.4, 0.6]])
    picture = plots.moving_memory(gamma, gamma, ["be", "honorificabilitudinitatibus"])
    assert trace_at(picture, 1, 0)["text"] == ["be", "be"]
    assert trace_at(picture, 1, 1)["text"] == ["", ""]


def test_outputs_run_from_the_mean_of_the_values_to_the_best():
    values = np.array([[4.0, 0], [0, 4], [8, 8]])
    picture = plots.moving_triangle([[1, 0, 0], [0, 0, 3]], values, [0, 1, 100], start=1)
    for step, expected in ((0, [values.mean(axis=0)] * 2), (2, values[[0, 2]])):
        dots = trace_at(picture, step, 3)
        np.testing.assert_allclose(np.transpose([dots["x"], dots["y"]]), expected, rtol=1e-3, atol=1e-9)
    e = np.e
    assert trace_at(picture, 1, 4)["x"] == pytest.approx([e / (e + 2), 1 / (e**3 + 2)], rel=1e-3)
    assert content(picture)["labels"] == ["0", "1", "100"]


def pixels(picture, step):
    """Return the map at a step as an array, its lowest row first."""
    image = pytest.importorskip("PIL.Image")
    start, packed = trace_at(picture, step, 0)["source"].split(",")
    assert start == "data:image/png;base64"
    return np.asarray(image.open(io.BytesIO(base64.b64decode(packed))).convert("RGB"))


def test_a_map_shows_who_is_responsible_where():
    mixture = GaussianMixture([[-1, -2], [1, 1]], [[1, 1], [0.5, 2]], np.log([0.5, 0.5]))
    far = [4.0, 40.0]
    picture = plots.moving_regions([mixture] * 2, ["near", "far"], "map", reach=far)
    trace = content(picture)["data"][0]
    for step, reach in enumerate(far):
        drawn = pixels(picture, step)
        across = reach * (trace["x0"] + trace["dx"] * np.arange(drawn.shape[1]))
        up = reach * (trace["y0"] + trace["dy"] * np.arange(drawn.shape[0]))
        shares = responsibilities(np.stack(np.meshgrid(across, up), axis=-1), mixture)[..., 0]
        purple, grey = drawn[shares > 0.99], drawn[shares < 0.01]
        for region in (purple, grey):  # of one colour, but for pixels on the white border
            assert (region == np.median(region, axis=0)).all(axis=1).mean() > 0.95
        assert np.median(purple[:, 2]) > np.median(grey[:, 2]) + 50
        part = float(re.search(r"component 1 has (\d+) %", content(picture)["notes"][step])[1])
        assert part == pytest.approx(100 * (shares > 0.5).mean(), abs=1)
        numbers = trace_at(picture, step, 3)
        assert numbers["text"] == ["1", "2"]
        places = reach * np.transpose([numbers["x"], numbers["y"]])
        assert responsibilities(places, mixture).argmax(axis=1).tolist() == [0, 1]
    for number in (1, 2):
        ring = np.array(trace_at(picture, 1, number)["x"], dtype=float)
        assert np.nanmax(ring) == pytest.approx((1 + 0.5**0.5) / 40, rel=1e-2)


def test_a_component_that_is_nowhere_ahead_has_no_number_on_the_map():
    mixture = GaussianMixture([[0, 0], [0, 0]], np.ones((2, 2)), np.log([0.9, 0.1]))
    picture = plots.moving_regions([mixture], ["a"], "s")
    assert trace_at(picture, 0, 3)["text"] == ["1"]


def test_matrices_stand_side_by_side_each_on_its_own_scale():
    one, two = np.array([[0.0, 0.1], [0.05, 0]]), np.array([[0.0, 8], [4, 2]])
    picture = plots.moving_matrices({"moves": [one, two], "stays": two}, ["a", "b"], "s", notes=["x", "y"])
    scaled = {step: unpacked(trace_at(picture, step, 0)["z"]) for step in (0, 1)}
    np.testing.assert_array_equal(scaled[0], [[0, 255], [128, 0]])
    np.testing.assert_array_equal(scaled[1], [[0, 255], [128, 64]])
    np.testing.assert_array_equal(unpacked(content(picture)["data"][1]["z"]), scaled[1])
    assert content(picture)["frames"][0]["traces"] == [0]


def unpacked(array):
    """Read an array of bytes as Plotly packs it, or as the lists that older versions write."""
    if isinstance(array, list):
        return np.array(array)
    assert array["dtype"] == "u1"
    shape = [int(size) for size in array["shape"].split(",")]
    return np.frombuffer(base64.b64decode(array["bdata"]), dtype=np.uint8).reshape(shape)


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
    assert content(given)["config"]["typesetMath"] is False  # MathJax is the page's own
    assert len(given.for_site()) < 10_000


def test_a_picture_of_a_chapters_size_is_no_burden():
    mixture = GaussianMixture(np.eye(3, 2), np.ones((3, 2)), np.log(np.full(3, 1 / 3)))
    shares = np.random.default_rng(0).dirichlet(np.ones(8), size=60)
    for picture in (
        plots.moving_regions([mixture] * 12, "abcdefghijkl", "map", reach=np.geomspace(4, 200, 12)),
        plots.moving_matrices({"A": [shares @ shares.T] * 12}, "abcdefghijkl", "s"),
        plots.moving_memory(shares[:20], shares[:20], ["word"] * 20),
        plots.moving_weights({"A": shares[:40] @ shares[:40].T} | {"S": np.eye(40)}, ["word"] * 40),
    ):
        assert len(picture.for_site()) < 150_000


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
    assert settings["config"] == moving.CONFIG
    assert html == picture.for_site()


def test_words_cannot_end_the_script():
    picture = plots.Moving([TRACE], [[{}]], ["<!--<script></script>"], "step")
    assert picture.for_site().count("<") == 2
    assert content(picture)["labels"] == ["<!--<script></script>"]


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
        (([TRACE], [[{"x": [1]}], [{"y": [1]}]], ["a", "b"], "s"), "every frame must set the same properties"),
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
