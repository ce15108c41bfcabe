"""Figures of trained models show every run they are given, and the means of several."""

from contextlib import nullcontext

import matplotlib as mpl
import numpy as np
import pytest

from gma_ref import plots

mpl.use("Agg")

TITLES = {"gma": "GMA", "softmax": "softmax", "linear": "elu + 1"}
SCORES = {"with": {"gma": [2.4, 2.5, 2.3], "softmax": [2.2]}, "without": {"gma": [2.9, 2.7], "K = 128": [2.8]}}
TRENDS = {
    "characters": {"gma": {512: [2.5, 2.3], 128: [2.4]}, "softmax": {128: [2.2]}},
    "kB": {"gma": {50: [2.4]}, "linear": {20: [2.6, 2.7]}},
}


def dots(ax):
    return [line.get_xydata() for line in ax.lines if line.get_linestyle() == "None" and len(line.get_xdata())]


def test_each_run_is_a_dot_in_its_row():
    above, below = plots.draw_scores(SCORES, TITLES, xlabel="bits").axes
    assert (above.get_title(), below.get_title(), below.get_xlabel()) == ("with", "without", "bits")
    np.testing.assert_array_equal(dots(above)[0], [(2.4, 0), (2.5, 0), (2.3, 0)])
    np.testing.assert_array_equal(dots(above)[1], [(2.2, 1)])
    assert [text.get_text() for text in below.get_yticklabels()] == ["GMA", "K = 128"]
    assert above.yaxis_inverted()


@pytest.mark.parametrize("style", [plots.book_style, nullcontext])
def test_mean_of_several_runs_is_marked_and_of_one_is_not(style):
    with style():
        above, below = plots.draw_scores(SCORES, TITLES, xlabel="").axes
    for ax, mean in ((above, 2.4), (below, 2.8)):
        [line] = [line for line in ax.lines if line.get_linestyle() == "-"]
        np.testing.assert_allclose(line.get_xdata(), mean)


def test_band_is_drawn_where_it_is_asked_for():
    [plain] = plots.draw_scores({"": SCORES["with"]}, TITLES, xlabel="").axes
    [banded] = plots.draw_scores({"": SCORES["with"]}, TITLES, xlabel="", band=(2.3, 2.5)).axes
    assert not plain.patches
    assert (banded.patches[0].get_x(), banded.patches[0].get_width()) == pytest.approx((2.3, 0.2))


def test_baseline_runs_through_every_panel():
    axes = plots.draw_scores(SCORES, TITLES, xlabel="", mark=2.25).axes
    plain = plots.draw_scores(SCORES, TITLES, xlabel="").axes
    for ax, without in zip(axes, plain, strict=True):
        [line] = [line for line in ax.lines if list(line.get_xdata()) == [2.25, 2.25]]
        assert line.get_linestyle() == "--"
        assert len(ax.lines) == len(without.lines) + 1


def test_trend_goes_through_the_means_and_shows_every_run():
    above, _ = plots.draw_trends(TRENDS, TITLES, ylabel="bits", ticks=(128, 512)).axes
    [line] = [line for line in above.lines if line.get_linestyle() == "-" and len(line.get_xdata())]
    np.testing.assert_allclose(line.get_xydata(), [(128, 2.4), (512, 2.4)])
    np.testing.assert_array_equal(dots(above)[0], [(128, 2.4), (512, 2.5), (512, 2.3)])
    assert above.get_xscale() == "log"
    assert [text.get_text() for text in above.get_xticklabels()] == ["128", "512"]


def test_panels_have_their_axes_and_the_legend_names_each_model_once():
    fig = plots.draw_trends(TRENDS, TITLES, ylabel="bits", label="measured there")
    assert [ax.get_xlabel() for ax in fig.axes] == ["characters", "kB"]
    [legend] = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == ["GMA", "softmax", "elu + 1"]
    assert fig.get_suptitle() == "measured there"


def test_mixer_looks_like_its_attention_and_other_rows_have_no_colour():
    of_mixers = plots.draw_scores({"": {"softmax": [1.0], "gma": [1.0], "K = 16": [1.0]}}, {}, xlabel="").axes[0]
    of_methods = plots.draw_curves(
        {"": {"sdpa": {1: 1.0}, "gma": {1: 1.0}}}, TITLES | {"sdpa": ""}, label="", ylabel=""
    )
    softmax, gma, other = (line.get_color() for line in of_mixers.lines)
    assert [softmax, gma] == [line.get_color() for line in of_methods.axes[0].lines]
    assert other == plots.palette.INK


@pytest.mark.parametrize(("largest", "named"), [(900, [20, 50, 100, 200, 500]), (9_000, [100, 1_000])])
def test_long_axes_name_powers_of_ten_alone(largest, named):
    [ax] = plots.draw_trends({"kB": {"gma": {20: [2.4], largest: [2.5]}}}, TITLES, ylabel="").axes
    assert [tick for tick in ax.get_xticks() if 20 <= tick <= largest] == named
