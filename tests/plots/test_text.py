"""A text stands on its responsibilities, character by character, and can be read on each shade."""

import matplotlib as mpl
import numpy as np
import pytest

from gma_ref import plots
from gma_ref.plots.palette import CARD, PALETTE

mpl.use("Agg")

SCENE = "ROMEO:\nBut soft, what light through yonder window breaks?\n\nJULIET:\nAy me!\n"


def shares(count, slots, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(slots, 0.3), size=count)


def panels(figure):
    return [ax for ax in figure.axes if ax.texts]


def luminance(colour):
    parts = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_each_character_stands_on_its_share():
    gamma = shares(7, 3)
    [ax] = panels(plots.text_heatmap(gamma, "ab\nc d\n", slots=[1]))
    [image] = ax.images
    cells = np.ma.filled(image.get_array(), np.nan)
    assert cells.shape == (2, 40)
    np.testing.assert_array_equal(cells[0, :3], gamma[:3, 1])
    np.testing.assert_array_equal(cells[1, :4], gamma[3:, 1])
    assert np.isnan(cells[0, 3:]).all()
    assert np.isnan(cells[1, 4:]).all()
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written == {(0, 0): "a", (1, 0): "b", (2, 0): "\u21b5", (0, 1): "c", (2, 1): "d", (3, 1): "\u21b5"}
    assert ax.get_title(loc="left") == "slot 2"


def test_long_lines_go_on_below():
    gamma = shares(9, 2)
    [ax] = panels(plots.text_heatmap(gamma, "abcd\nefgh", width=4))
    [image] = ax.images
    cells = np.ma.filled(image.get_array(), np.nan)
    np.testing.assert_array_equal(cells[[0, 2]], gamma[[[0, 1, 2, 3], [5, 6, 7, 8]], 0])
    np.testing.assert_array_equal(cells[1], [gamma[4, 0], *[np.nan] * 3])  # the end of the line, which found no room


@pytest.mark.parametrize("kind", ["key", "query"])
def test_letters_can_be_read_on_every_shade(kind):
    count = 101
    gamma = np.stack([np.linspace(0, 1, count), np.linspace(1, 0, count)], axis=1)
    [ax] = panels(plots.text_heatmap(gamma, "x" * count, kind=kind))
    [image] = ax.images
    for text, share in zip(ax.texts, gamma[:, 0], strict=True):
        ground = image.cmap(image.norm(share))
        assert contrast(text.get_color(), ground) >= 4.5
        assert (
            contrast(text.get_color(), ground) >= max(contrast("#000000", ground), contrast("#ffffff", ground)) - 0.05
        )
    assert mpl.colors.to_hex(image.cmap(2 / 3)) == pytest.approx(PALETTE[kind].light)


def test_several_slots_show_the_same_text():
    gamma = shares(len(SCENE), 6)
    figure = plots.text_heatmap(gamma, SCENE, slots=[5, 0])
    assert [ax.get_title(loc="left") for ax in panels(figure)] == ["slot 6", "slot 1"]
    assert len({tuple(text.get_text() for text in ax.texts) for ax in panels(figure)}) == 1


def test_figures_fit_a_phone():
    """Letters are at least 9 points at 5 inches, that is 9 pixels on a phone of 360; none is cut off or overlaps."""
    figure = plots.text_heatmap(shares(4 * len(SCENE), 3), SCENE * 4, slots=[0, 2], width=44)
    width, height = figure.get_size_inches()
    assert width <= 5
    assert mpl.colors.to_hex(figure.get_facecolor()) == CARD
    box = figure.get_tightbbox()
    assert (box.x0, box.y0) >= (-0.01, -0.01)
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01
    for text in figure.findobj(mpl.text.Text):
        if text.get_text():
            assert text.get_fontsize() >= 9
            assert text.get_fontname() in ("DejaVu Sans", "DejaVu Sans Mono")
    [first, *_] = panels(figure)
    cell = first.get_window_extent().width / 44
    line = first.get_window_extent().height / first.images[0].get_array().shape[0]
    letters = [text.get_window_extent() for text in first.texts if text.get_text() == "w"]
    assert max(letter.width for letter in letters) <= cell
    assert max(letter.height for letter in letters) <= line


@pytest.mark.parametrize("text", ["$x$", "a_b", r"\al", "100"])
def test_characters_are_no_formulas(text):
    [ax] = panels(plots.text_heatmap(shares(3, 2), text))
    assert [one.get_text() for one in ax.texts] == [*text]
    assert not any(one.get_parse_math() for one in ax.texts)


def test_drawing_leaves_the_readers_settings_alone():
    before = dict(mpl.rcParams)
    plots.text_heatmap(shares(3, 2), "abc")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[0.5, 0.5]], "ab"), {}, "text must have one character for a row of gamma, got 2 for 1"),
        (([[1.5, -0.5]], "a"), {}, "gamma must hold shares between 0 and 1"),
        (([[np.nan, 1]], "a"), {}, "gamma must be finite"),
        (([[0.5, 0.5]], "a"), {"slots": [2]}, r"slots must be some of 0 to 1, got \[2\]"),
        (([[0.5, 0.5]], "a"), {"kind": "value"}, "kind must be 'key' or 'query', got 'value'"),
        (([[0.5, 0.5]], "a"), {"width": 45}, "width must be between 1 and 44, got 45"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        plots.text_heatmap(*arguments, **options)


def test_a_text_is_a_string():
    with pytest.raises(TypeError, match=r"^text must be a string, got list$"):
        plots.text_heatmap([[0.5, 0.5]], ["a"])
