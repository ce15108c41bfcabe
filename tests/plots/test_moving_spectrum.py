"""The picture of a changing matrix shows its entries and its singular values."""

import numpy as np
import pytest

from gma_ref import plots

FIRST = np.diag([4.0, 2.0, 1.0])
SECOND = np.ones((3, 3)) / 3  # singular values 1, 0, 0


@pytest.fixture(scope="module")
def picture():
    return plots.moving_spectrum([FIRST, SECOND], 2, ["a", "b"], "matrix", notes=["one", "two"], start=1)


def test_every_step_has_the_first_singular_values_of_its_matrix(picture):
    for frame, expected in zip(picture.figure.frames, ([4, 2], [1, 0]), strict=True):
        np.testing.assert_allclose(frame.data[1].y, expected, atol=1e-3)
    lowest, highest = picture.figure.layout.yaxis2.range
    assert lowest == pytest.approx(-5)
    assert highest == pytest.approx(np.log10(8), rel=1e-3)


def test_shades_grow_with_the_entries(picture):
    first, second = (np.array(frame.data[0].z) for frame in picture.figure.frames)
    assert (first[~np.eye(3, dtype=bool)] == 0).all()
    assert first[0, 0] == 255
    assert 0 < first[2, 2] < first[1, 1] < 255
    assert (second == 255).all()


def test_the_picture_begins_where_it_is_told_to(picture):
    assert picture.start == 1
    np.testing.assert_allclose(picture.figure.data[1].y, [1, 0], atol=1e-3)


def test_matrices_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"matrices must be square, with at least 2 rows, got \(2, 3\)"):
        plots.moving_spectrum([np.ones((2, 3))], 2, ["a"], "matrix")
    with pytest.raises(ValueError, match=r"with at least 4 rows, got \(3, 3\)"):
        plots.moving_spectrum([FIRST], 4, ["a"], "matrix")
