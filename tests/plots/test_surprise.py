"""Each character stands on its surprise, once for each model, and can be read on each shade."""

import matplotlib as mpl
import numpy as np
import pytest

from gma_ref import plots
from gma_ref.plots.palette import CARD

mpl.use("Agg")

SPEECH = "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?\n"


def surprises(count, seed=0):
    return np.random.default_rng(seed).exponential(2.4, size=count)


def panels(figure):
    return [ax for ax in figure.axes if ax.texts]


def test_each_character_stands_on_its_surprise_once_for_each_model():
    bits = {"GMA": surprises(7), "counts": surprises(7, seed=1)}
    figure = plots.surprise_text(bits, "ab\nc de")
    first, second = panels(figure)
    for ax, part in ((first, slice(0, 3)), (second, slice(3, 7))):
        cells = np.ma.filled(ax.images[0].get_array(), np.nan)
        for row, values in enumerate(bits.values()):
            np.testing.assert_array_equal(cells[row, : len(values[part])], values[part])
            assert np.isnan(cells[row, len(values[part]) :]).all()
        assert [label.get_text() for label in ax.get_yticklabels()] == ["GMA", "counts"]
    written = {text.get_position(): text.get_text() for text in first.texts}
    assert written == {(x, row): sign for row in (0, 1) for x, sign in enumerate("ab\u21b5")}


def test_shades_are_the_same_on_every_line_and_end_where_asked():
    figure = plots.surprise_text({"GMA": surprises(len(SPEECH))}, SPEECH, width=20, most=5.0)
    assert len(panels(figure)) > 2
    assert {ax.images[0].get_clim() for ax in panels(figure)} == {(0.0, 5.0)}


def test_figure_fits_a_phone_and_stands_on_its_card():
    """Letters are at least 9 points at 5 inches; none is cut off, and none overlaps the next."""
    bits = {name: surprises(len(SPEECH)) for name in ("counts", "softmax", "GMA")}
    figure = plots.surprise_text(bits, SPEECH.upper(), width=36)
    width, height = figure.get_size_inches()
    assert width <= 5
    assert mpl.colors.to_hex(figure.get_facecolor()) == CARD
    box = figure.get_tightbbox()
    assert (box.x0, box.y0) >= (-0.01, -0.01)
    assert (box.x1, box.y1) <= (width + 0.01, height + 0.01)
    assert all(text.get_fontsize() >= 9 for text in figure.findobj(mpl.text.Text) if text.get_text())
    for ax in panels(figure):
        cell, line = ax.get_window_extent().width / 36, ax.get_window_extent().height / 3
        letters = [text.get_window_extent() for text in ax.texts]
        assert max(letter.width for letter in letters) <= cell
        assert max(letter.height for letter in letters if letter.width > 1) <= 1.15 * line


@pytest.mark.parametrize(
    ("bits", "text", "options", "message"),
    [
        ({"GMA": [1.0]}, "ab", {}, r"bits of 'GMA' must have shape \(2,\) as text has, got \(1,\)"),
        ({"GMA": [1.0, -0.1]}, "ab", {}, "bits of 'GMA' must be finite and not negative"),
        ({"GMA": [1.0, np.inf]}, "ab", {}, "bits of 'GMA' must be finite and not negative"),
        ({"GMA": [1.0]}, "a", {"width": 37}, "width must be between 1 and 36, got 37"),
        ({}, "a", {}, "must hold something"),
    ],
)
def test_what_does_not_fit_is_refused(bits, text, options, message):
    with pytest.raises(ValueError, match=message):
        plots.surprise_text(bits, text, **options)


def test_a_text_is_a_string():
    with pytest.raises(TypeError, match=r"^text must be a string, got list$"):
        plots.surprise_text({"GMA": [1.0]}, ["a"])
