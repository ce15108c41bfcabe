"""Heatmaps show the numbers they are given, with their labels, at sizes for a phone."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from gma_ref import Memory, plots
from gma_ref.plots.palette import CARD, PALETTE

mpl.use("Agg")


def shares(count, slots, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(slots, 0.3), size=count)


def drawn(ax):
    [image] = ax.images
    return image.get_array()


def words(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_each_word_is_a_row_and_each_slot_a_column():
    gamma, tokens = shares(5, 3), ["to", "be", "or", "not", "to"]
    ax = plots.responsibility_heatmap(gamma, tokens)
    np.testing.assert_array_equal(drawn(ax), gamma)
    assert words(ax.yaxis) == tokens
    assert words(ax.xaxis) == ["1", "2", "3"]
    rows = [ax.transData.transform((1, y))[1] for y in ax.get_yticks()]
    assert rows == sorted(rows, reverse=True)  # the first word on top


def test_cells_lie_at_their_labels():
    gamma = np.eye(4)
    ax = plots.responsibility_heatmap(gamma, list("abcd"))
    [image] = ax.images
    for row, y in enumerate(ax.get_yticks()):
        for column, x in enumerate(ax.get_xticks()):
            event = mpl.backend_bases.MouseEvent("motion", ax.figure.canvas, *ax.transData.transform((x, y)))
            assert image.get_cursor_data(event) == gamma[row, column]


def test_a_whole_scene_runs_to_the_right_and_keeps_its_shares():
    gamma = shares(1563, 8)
    ax = plots.responsibility_heatmap(gamma)
    image = drawn(ax)
    assert image.shape[0] == 8
    assert image.shape[1] <= 400
    np.testing.assert_allclose(image.sum(axis=0), 1)
    np.testing.assert_allclose(image[:, 0], gamma[:4].mean(axis=0))
    np.testing.assert_allclose(image[:, -1], gamma[1560:].mean(axis=0))
    assert ax.get_xlim() == (0.5, 1563.5)
    assert "means over 4" in ax.get_xlabel()
    np.testing.assert_array_equal(drawn(plots.responsibility_heatmap(gamma[:400])), gamma[:400].T)


@pytest.mark.parametrize("kind", ["key", "query"])
def test_hue_tells_keys_from_queries(kind):
    ax = plots.responsibility_heatmap(shares(4, 2), kind=kind)
    [image] = ax.images
    assert (image.norm.vmin, image.norm.vmax) == (0, 1)
    assert mpl.colors.to_hex(image.cmap(0.0)) == "#ffffff"
    assert mpl.colors.to_hex(image.cmap(2 / 3)) == pytest.approx(PALETTE[kind].light)


def test_darkness_grows_with_the_share():
    for symbol in PALETTE:
        luminance = plots.colour_map(symbol)(np.linspace(0, 1, 100))[:, :3] @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(luminance) < 0).all()


def test_a_memory_is_drawn_by_slot_and_coordinate():
    memory = Memory(np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0]))
    plain = plots.memory_heatmap(memory)
    np.testing.assert_array_equal(drawn(plain), memory.V_tilde)
    named = plots.memory_heatmap(memory.V_tilde, ["a", "b", "c"], title="counts")
    np.testing.assert_array_equal(drawn(named), memory.V_tilde.T)
    assert words(named.yaxis) == ["a", "b", "c"]


def test_white_means_zero_also_with_negative_values():
    for values in ([[0.0, 2.0]], [[-3.0, 2.0]]):
        [image] = plots.memory_heatmap(values).images
        assert mpl.colors.to_hex(image.cmap(image.norm(0.0))) == "#ffffff"
        assert image.norm.vmax == np.abs(values).max()


def test_an_empty_memory_can_be_drawn():
    assert plots.memory_heatmap(np.zeros((2, 2))).images[0].norm.vmax == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: plots.responsibility_heatmap(shares(1563, 8)),
        lambda: plots.responsibility_heatmap(shares(40, 8), ["honorificabilitudinitatibus"] * 40),
        lambda: plots.responsibility_heatmap(shares(30, 24), ["word"] * 30),
        lambda: plots.memory_heatmap(shares(8, 30), ["word"] * 30, title="share of the slot"),
        lambda: plots.memory_heatmap(shares(8, 600)),
    ],
)
def test_figures_fit_a_phone(make):
    """Letters are at least 9 points at 6.4 inches, that is 7 pixels on a phone of 360; none is cut off."""
    figure = make().figure
    width, height = figure.get_size_inches()
    assert width <= 6.4
    assert mpl.colors.to_hex(figure.get_facecolor()) == CARD
    box = figure.get_tightbbox()
    assert (box.x0, box.y0) >= (-0.01, -0.01)
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01
    for text in figure.findobj(mpl.text.Text):
        if text.get_text():
            assert text.get_fontsize() >= 9
            assert text.get_fontname() == "DejaVu Sans"


def test_drawing_leaves_the_readers_settings_alone():
    before = dict(mpl.rcParams)
    plots.responsibility_heatmap(shares(4, 2))
    assert dict(mpl.rcParams) == before


def test_it_draws_on_axes_that_it_is_given():
    figure, ax = plt.subplots()
    assert plots.responsibility_heatmap(shares(4, 2), ax=ax) is ax
    assert ax.figure is figure


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 0.0],), "gamma must be one matrix of real numbers, got shape"),
        ((np.zeros((0, 3)),), "gamma must be one matrix"),
        (([["a", "b"]],), "gamma must be one matrix of real numbers"),
        (([[0.5, np.nan]],), "gamma must be finite"),
        (([[0.9, 0.9]],), "rows must sum to 1"),
        (([[-0.5, 1.5]],), "shares between 0 and 1"),
        (([[-0.5, 0.5]],), "shares between 0 and 1"),
        (([[0.0, 0.0], [0.5, 0.0]],), "rows must sum to 1"),
        (([[1.0, 0.0], [1.0]],), "gamma must be one matrix of real numbers, got rows of different lengths"),
        (([[1.0, 0.0]], ["a", "b"]), "tokens must have one label for a row of gamma, got 2 labels for 1"),
    ],
)
def test_what_is_no_responsibility_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.responsibility_heatmap(*arguments)


def test_masked_keys_are_rows_without_a_share():
    kept = np.array([True, False, True, False, False])
    gamma = np.where(kept[:, None], shares(5, 3), 0)
    for ax in (plots.responsibility_heatmap(gamma, list("abcde")), plots.responsibility_heatmap(gamma)):
        assert drawn(ax).sum() == pytest.approx(2)


def test_a_masked_array_is_refused_not_unmasked():
    masked = np.ma.masked_array(shares(2, 3), mask=[[True, False, False]] * 2)
    with pytest.raises(TypeError, match=r"^gamma must be a plain array, got a masked one"):
        plots.responsibility_heatmap(masked)
    for memory in (masked, Memory(masked, np.ones(2))):
        with pytest.raises(TypeError, match=r"^memory must be a plain array, got a masked one"):
            plots.memory_heatmap(memory)


@pytest.mark.parametrize("label", ["$$", "a$b$", "$x_k$", r"\$", "100 %", "$"])
def test_labels_are_words_and_not_formulas(label):
    for ax in (plots.responsibility_heatmap([[1.0]], [label]), plots.memory_heatmap([[1.0]], [label])):
        [text] = ax.get_yticklabels()
        assert text.get_text() == label
        assert not text.get_parse_math()


def test_wrong_kinds_and_labels_are_refused():
    with pytest.raises(ValueError, match="kind must be 'key' or 'query', got 'value'"):
        plots.responsibility_heatmap([[1.0]], kind="value")
    with pytest.raises(ValueError, match="labels must have one label for a value coordinate, got 1 labels for 2"):
        plots.memory_heatmap([[1.0, 2.0]], ["a"])
    with pytest.raises(ValueError, match="memory must be one matrix of real numbers, got rows of different lengths"):
        plots.memory_heatmap([[1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="memory must be one matrix"):
        plots.memory_heatmap(Memory(np.zeros((2, 3, 4)), np.zeros((2, 3))))
