"""Pictures of components show the numbers they are given, with their names, at sizes for a phone."""

import matplotlib as mpl
import numpy as np
import pytest

from gma_ref import plots
from gma_ref.diagnostics import TopTokens, contingency, top_tokens
from gma_ref.plots.palette import CARD

mpl.use("Agg")


def shares(count, slots, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(slots, 0.3), size=count)


def words(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def said(ax):
    return [text.get_text() for text in ax.texts]


def lengths(ax, of="get_width"):
    return [getattr(bar, of)() for bar in ax.patches]


def top(slots=10, count=6):
    text = "But soft, what light through yonder window breaks?\nIt is the east" * 2
    return top_tokens(shares(len(text), slots), text, count=count)


def test_usage_is_sorted_and_in_equal_shares():
    [ax] = plots.usage_histogram([0.1, 0.6, 0.001, 0.299]).axes
    np.testing.assert_allclose(lengths(ax, "get_height"), [2.4, 1.196, 0.4, 0.004])
    assert [set(line.get_ydata()) for line in ax.lines] == [{1}]
    [corner] = said(ax)
    assert corner.split("\n") == ["2.2 of 4 effective", "1 under 1% of an equal share"]  # 1 / (0.01 + 0.36 + 0.0894)
    [corner] = said(plots.usage_histogram([0.1, 0.6, 0.001, 0.299], threshold=0.001).axes[0])
    assert corner == "2.2 of 4 effective"


def test_usage_of_several_layers_stands_below_each_other():
    usage = {"layer 1": [0.5, 0.5], "layer 2": [0.9, 0.1, 0.0]}
    above, below = plots.usage_histogram(usage).axes
    assert [ax.get_title(loc="left") for ax in (above, below)] == ["layer 1", "layer 2"]
    np.testing.assert_allclose(lengths(above, "get_height"), [1, 1])
    np.testing.assert_allclose(lengths(below, "get_height"), [2.7, 0.3, 0])


def test_bars_are_shares_with_their_lift_beside_them():
    found = TopTokens(
        np.array([["a", " "], ["\n", "$x$"]]),
        np.array([[0.5, 0.25], [0.7, 0.004]]),
        np.array([[2.0, 0.51], [14.2, 1.0]]),
    )
    figure = plots.top_token_bars(found)
    one, two = figure.axes
    assert [ax.get_title() for ax in figure.axes] == ["slot 1", "slot 2"]
    assert words(one.yaxis) == ["a", "\u2423"]
    assert words(two.yaxis) == ["\u21b5", "$x$"]
    assert not any(label.get_parse_math() for label in two.get_yticklabels())
    np.testing.assert_allclose(lengths(one), [50, 25])
    np.testing.assert_allclose(lengths(two), [70, 0.4])
    assert said(one) == ["\u00d72", "\u00d70.51"]
    assert said(two) == ["\u00d714", "\u00d71"]
    places = [one.transData.transform((0, y))[1] for y in one.get_yticks()]
    assert places == sorted(places, reverse=True)  # the first token on top

    one, two = plots.top_token_bars(found, by="lift").axes
    np.testing.assert_allclose(lengths(two), [14.2, 1])
    assert said(two) == ["70%", "<1%"]


def test_slots_can_be_chosen_and_are_counted_from_one():
    figure = plots.top_token_bars(top(), slots=[9, 2, 4])
    assert [ax.get_title() for ax in figure.axes if ax.axison] == ["slot 10", "slot 3", "slot 5"]
    assert len(plots.top_token_bars(top()).axes) == 8
    # each column has its scale below its last panel
    assert [any(words(ax.xaxis)) and ax.xaxis.get_tick_params()["labelbottom"] for ax in figure.axes[:3]] == [
        False,
        True,
        True,
    ]


def test_matrix_shows_what_each_slot_is_made_of_beside_all_tokens():
    table = np.array([[1.0, 3.0, 0.0], [0, 0, 0], [4, 0, 0], [3, 0, 1]])
    axes = plots.alignment_matrix(table, ["a", "b", "$"])
    [everything] = axes["all tokens"].images
    np.testing.assert_allclose(everything.get_array(), [[8 / 12, 3 / 12, 1 / 12]])
    [image] = axes["slots"].images
    cells = np.ma.filled(image.get_array(), np.nan)
    # those of category a first, the purest first; the slot without mass last and blank
    np.testing.assert_allclose(cells, [[1, 0, 0], [0.75, 0, 0.25], [0.25, 0.75, 0], [np.nan] * 3])
    assert words(axes["slots"].yaxis) == ["3", "4", "1", "2"]
    assert words(axes["slots"].xaxis) == ["a", "b", "$"]
    assert (image.norm.vmin, image.norm.vmax) == (0, 1)

    axes = plots.alignment_matrix(table, ["a", "b", "$"], ordered=False)
    np.testing.assert_allclose(np.ma.filled(axes["slots"].images[0].get_array(), np.nan)[0], [0.25, 0.75, 0])
    assert words(axes["slots"].yaxis) == ["1", "2", "3", "4"]


def test_many_slots_have_no_numbers():
    axes = plots.alignment_matrix(np.ones((33, 2)), "ab")
    assert words(axes["slots"].yaxis) == []
    assert axes["slots"].get_ylabel() == "slots, by their main category"


def kinds():
    return ["speaker name", "line start", "capital", "vowel", "consonant", "space", "line break", "punctuation"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: plots.usage_histogram(shares(1, 64)[0]),
        lambda: plots.usage_histogram({f"layer {i}, head {i}": shares(1, 256, i)[0] for i in range(4)}),
        lambda: plots.top_token_bars(top()),
        lambda: plots.top_token_bars(top(), slots=[3], by="lift"),
        lambda: (
            plots.alignment_matrix(contingency(shares(800, 24), kinds() * 100).table, sorted(kinds()))["slots"].figure
        ),
        lambda: (
            plots.alignment_matrix(contingency(shares(800, 64), kinds() * 100).table, sorted(kinds()))["slots"].figure
        ),
    ],
)
def test_figures_fit_a_phone(make):
    """Letters are at least 9 points at 5 inches, that is 9 pixels on a phone of 360; none is cut off."""
    figure = make()
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
            assert text.get_fontname() == "DejaVu Sans"
    # what stands beside a bar stays in its panel
    for ax in figure.axes:
        for text in ax.texts:
            assert text.get_window_extent().x1 <= ax.get_window_extent().x1 + 1


def test_drawing_leaves_the_readers_settings_alone():
    before = dict(mpl.rcParams)
    plots.usage_histogram([0.5, 0.5])
    plots.top_token_bars(top())
    plots.alignment_matrix([[1.0]], ["a"])
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.usage_histogram([0.5, 0.4]), "usage must hold shares that sum to 1, got 0.9"),
        (lambda: plots.usage_histogram([1.5, -0.5]), "usage must hold shares that sum to 1"),
        (lambda: plots.usage_histogram([np.nan, 1]), "usage must be finite"),
        (lambda: plots.usage_histogram([]), "usage must be one matrix of real numbers"),
        (lambda: plots.usage_histogram({}), "usage must hold at least one array"),
        (lambda: plots.top_token_bars(TopTokens(*(np.ones((2, 3, 4)),) * 3)), r"of shape \(K, T\), got \(2, 3, 4\)"),
        (lambda: plots.top_token_bars(top(), slots=[10]), r"slots must be some of 0 to 9, got \[10\]"),
        (lambda: plots.top_token_bars(top(), slots=[]), r"slots must be some of 0 to 9, got \[\]"),
        (lambda: plots.top_token_bars(top(), by="mass"), "by must be 'share' or 'lift', got 'mass'"),
        (lambda: plots.alignment_matrix([[1, -1]], "ab"), "table must hold numbers of at least 0"),
        (lambda: plots.alignment_matrix([[0, 0]], "ab"), "not all 0"),
        (lambda: plots.alignment_matrix([[1, 1]], "abc"), "categories must name the 2 columns of table, got 3"),
        (lambda: plots.alignment_matrix([1, 1], "ab"), "table must be one matrix"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
