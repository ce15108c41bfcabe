"""The four diagnostics show the numbers that they are given."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from gma_ref import plots

mpl.use("Agg")

# Five keys, two slots; slot 2 has the larger mass and is drawn first.
GAMMA = np.array([[0.0, 1.0], [0.25, 0.75], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
CLASSES = np.array([1, 0, 0, 1, 1])
IMAGES = np.arange(5)[:, None, None] * np.ones((5, 3, 2)) + 1


@pytest.fixture
def axes():
    yield plots.four_diagnostics(GAMMA, CLASSES, IMAGES)
    plt.close("all")


def test_usage_is_the_mass_beside_an_equal_share(axes):
    np.testing.assert_allclose([bar.get_width() for bar in axes["usage"].patches], [3.25, 1.75])
    np.testing.assert_allclose(axes["usage"].lines[0].get_xdata(), 2.5)


def test_alignment_says_of_which_classes_a_slot_is_made(axes):
    [image] = axes["alignment"].images
    np.testing.assert_allclose(image.get_array(), [[0.75 / 3.25, 2.5 / 3.25], [1.25 / 1.75, 0.5 / 1.75]])


def test_responsibilities_are_sorted_by_class(axes):
    [image] = axes["responsibilities"].images
    np.testing.assert_allclose(image.get_array(), GAMMA[[1, 2, 0, 3, 4]][:, ::-1])
    np.testing.assert_allclose(axes["responsibilities"].get_yticks(), [1, 3.5])


def test_top_tokens_are_those_of_the_largest_responsibility(axes):
    [image] = axes["top tokens"].images
    sheet = image.get_array().filled(np.nan)[5:]  # below the numbers of the slots
    np.testing.assert_array_equal(sheet[[0, 0, 4, 4], [0, 3, 0, 3]], [1, 4, 2, 5])  # of slot 2: keys 0, 3, 1, 4
    np.testing.assert_array_equal(sheet[[0, 0, 4, 4], [9, 12, 9, 12]], [3, 5, 2, 1])  # of slot 1: keys 2, 4, 1, 0
    assert np.isnan(sheet[:, [2, 5, 6, 7, 8]]).all()
    assert [text.get_text() for text in axes["top tokens"].texts] == ["1", "2"]


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"got \(5, 2\), \(4,\), \(5, 3, 2\)"):
        plots.four_diagnostics(GAMMA, CLASSES[:4], IMAGES)
    with pytest.raises(ValueError, match=r"got \(5, 2\), \(5,\), \(4, 3, 2\)"):
        plots.four_diagnostics(GAMMA, CLASSES, IMAGES[:4])
