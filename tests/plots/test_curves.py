"""Curves and rooflines show the numbers they are given, say who is who, and draw no band that is not there."""

import matplotlib as mpl
import numpy as np
import pytest

from gma_ref import plots

mpl.use("Agg")

TITLES = {"gma": "GMA", "gma_blocked": "GMA in PyTorch", "sdpa": "SDPA", "other": "something new"}
PANELS = {
    "forward": {
        "gma": {512: (1.0, 0.9, 1.2), 2_048: (4.0, 3.9, 4.1)},
        "gma_blocked": {512: (2.0, 1.0, 3.0), 2_048: (8.0,)},
        "sdpa": {2_048: 30.0, 512: 2.0},
        "other": {},
    },
    "training": {"gma": {512: 3.0}, "other": {512: 5.0}},
}


def lines(ax):
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def test_each_panel_has_its_curves_by_length():
    fig = plots.draw_curves(PANELS, TITLES, label="here", ylabel="ms")
    above, below = fig.axes
    assert (above.get_title(), below.get_title()) == ("forward", "training")
    np.testing.assert_array_equal(lines(above)["SDPA"].get_xydata(), [(512, 2.0), (2_048, 30.0)])
    np.testing.assert_array_equal(lines(above)["GMA in PyTorch"].get_ydata(), [2.0, 8.0])
    assert set(lines(above)) == {"GMA", "GMA in PyTorch", "SDPA"}
    assert set(lines(below)) == {"GMA", "something new"}
    assert (above.get_xscale(), above.get_yscale()) == ("log", "log")


def test_legend_names_each_once_and_the_label_stands_above():
    fig = plots.draw_curves(PANELS, TITLES, label="measured there", ylabel="ms")
    [legend] = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == ["GMA", "GMA in PyTorch", "SDPA", "something new"]
    assert fig.get_suptitle() == "measured there"


def test_bands_are_drawn_where_there_are_ends():
    fig = plots.draw_curves(PANELS, TITLES, label="", ylabel="ms")
    of_gma, of_blocked = fig.axes[0].collections
    assert of_gma.get_paths()[0].get_extents().bounds == pytest.approx((512, 0.9, 1_536, 3.2))
    assert of_blocked.get_paths()[0].get_extents().width == 0  # one length alone
    assert not fig.axes[1].collections


def test_gma_in_pytorch_is_the_thin_twin_of_gma():
    fig = plots.draw_curves(PANELS, TITLES, label="", ylabel="ms")
    thick, thin = (lines(fig.axes[0])[name] for name in ("GMA", "GMA in PyTorch"))
    assert thick.get_color() == thin.get_color()
    assert thick.get_linewidth() > 2 * thin.get_linewidth()
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines(fig.axes[0]).values()}
    assert len(looks) == 2


@pytest.mark.parametrize(("least", "bottom"), [(0.01, None), (3.0, 0.5)])
def test_below_even_is_grey_and_in_sight(least, bottom):
    ratios = {"": {"sdpa": {512: least, 2_048: 8.0}}}
    [plain], [even] = (plots.draw_curves(ratios, TITLES, label="", ylabel="", even=even).axes for even in (False, True))
    assert even.get_ylim() == (bottom or plain.get_ylim()[0], plain.get_ylim()[1])
    [grey] = [patch for patch in even.patches if patch not in plain.patches]
    assert grey.get_y() == even.get_ylim()[0]
    assert grey.get_y() + grey.get_height() == pytest.approx(1)
    assert any(set(line.get_ydata()) == {1} for line in even.lines)


def test_reference_line_is_drawn_and_named():
    fig = plots.draw_curves({"": PANELS["training"]}, TITLES, label="", ylabel="", reference=("q", {4: 1.0, 2: 0.5}))
    np.testing.assert_array_equal(lines(fig.axes[0])["q"].get_xydata(), [(2, 0.5), (4, 1.0)])


def test_points_lie_under_a_roof_that_bends_at_the_ratio_of_the_limits():
    points = {"gma": (50.0, 20e9), "sdpa": (0.5, 2e9)}
    fig = plots.draw_roofline(points, TITLES, label="there", flop_per_second=100e9, bytes_per_second=10e9)
    [ax] = fig.axes
    roof = lines(ax)["the machine's limits"].get_xydata()
    np.testing.assert_allclose(roof, [(0.5 / 3, 10 * 0.5 / 3), (10, 100), (150, 100)])
    np.testing.assert_allclose(lines(ax)["GMA"].get_xydata(), [(50, 20)])
    np.testing.assert_allclose(lines(ax)["SDPA"].get_xydata(), [(0.5, 2)])
    assert fig.get_suptitle() == "there"


def test_roof_bends_where_all_points_are_to_one_side():
    fig = plots.draw_roofline({"gma": (1_000.0, 1e9)}, TITLES, label="", flop_per_second=1e11, bytes_per_second=1e10)
    roof = lines(fig.axes[0])["the machine's limits"].get_xydata()
    assert list(roof[:, 0]) == sorted(roof[:, 0])
    np.testing.assert_allclose(roof[0], (10, 100))
