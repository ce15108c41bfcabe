"""The picture of a moving mixture shows each mixture where it is."""

import json
import re

import numpy as np
import pytest

from gma_ref import GaussianMixture, plots, responsibilities

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(10, 2))
GROUPS = np.arange(10) % 2
PATHS = {
    name: [GaussianMixture(RNG.normal(size=(3, 2)), RNG.uniform(0.2, 2, (3, 2)), np.full(3, -np.log(3))) for _ in "ab"]
    for name in ("above", "below")
}


@pytest.fixture(scope="module")
def content():
    picture = plots.moving_components(PATHS, POINTS, GROUPS, ["a", "b"], resolution=5)
    return json.loads(re.fullmatch(r"<script [^>]*>(.*)</script>", picture.for_site(), re.DOTALL)[1])


def test_points_stand_in_every_panel_and_never_move(content):
    for panel in (0, 1):
        for group in (0, 1):
            trace = content["data"][4 * panel + 1 + group]
            drawn = np.column_stack([trace["x"], trace["y"]])
            np.testing.assert_allclose(drawn, POINTS[group == GROUPS], rtol=1e-3)
    assert [frame["traces"] for frame in content["frames"]] == [[0, 3, 4, 7]] * 2


def test_numbers_stand_at_the_means_and_shades_show_the_largest_responsibility(content):
    for panel, mixtures in enumerate(PATHS.values()):
        for frame, mixture in zip(content["frames"], mixtures, strict=True):
            shades, numbers = frame["data"][2 * panel : 2 * panel + 2]
            np.testing.assert_allclose([numbers["x"], numbers["y"]], mixture.mu.T, rtol=1e-3)
            for row, column in np.ndindex(5, 5):
                place = np.array([[-3.2 + 1.6 * column, -3.2 + 1.6 * row]])
                assert shades["z"][row][column] == responsibilities(place, mixture).argmax()


def test_a_mean_outside_stands_at_the_edge_with_an_arrow():
    mixture = GaussianMixture([[0.0, -9.0], [9.0, 9.0], [1.0, 2.0]], np.ones((3, 2)), np.full(3, -np.log(3)))
    picture = plots.moving_components({"one": [mixture]}, POINTS, GROUPS, ["a"], side=4, resolution=5)
    numbers = picture.figure.data[-1]
    assert numbers.text == ("<b>1↓</b>", "<b>2↗</b>", "<b>3</b>")
    np.testing.assert_allclose([numbers.x, numbers.y], [[0, 3.72, 1], [-3.72, 3.72, 2]])


def test_the_picture_begins_at_the_last_step(content):
    assert content["start"] == 1
    np.testing.assert_allclose(content["data"][3]["x"], PATHS["above"][1].mu[:, 0], rtol=1e-3)


def test_paths_and_points_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="above must have one mixture for each label, got 2 for 3"):
        plots.moving_components(PATHS, POINTS, GROUPS, ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"points must have the shape \(N, 2\), got \(10, 3\)"):
        plots.moving_components(PATHS, np.zeros((10, 3)), GROUPS, ["a", "b"])
