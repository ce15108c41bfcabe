"""Bounds of stability where numbers are extreme or components coincide: finite where they can be, and never NaN."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from gma_ref.reference import global_stability


@pytest.mark.parametrize("logit", [-100.0, -1000.0, -2000.0, -1e10, -1e300])
def test_priors_of_any_size_have_a_global_constant(logit):
    mu, variance = [[0.0], [0.0]], [[2.0], [1.0]]
    for log_prior, largest in (([0, logit], 1e-20), ([logit, 0], np.inf)):
        bounds = gma_ref.lipschitz_bounds(gma_ref.GaussianMixture(mu, variance, log_prior), 1.0)
        assert 0 <= bounds["l2_global"] <= largest
        assert np.isfinite(bounds["l2_global"])


@pytest.mark.parametrize("K", [2, 3])
def test_bounds_of_the_smallest_variances_are_infinite_not_undefined(K):
    mixture = gma_ref.GaussianMixture(np.arange(K)[:, None], [[1e-310]] * K, [-np.log(K)] * K)
    for bound in gma_ref.lipschitz_bounds(mixture, 1.0).values():
        assert bound == np.inf
    same = gma_ref.GaussianMixture(np.full((K, 1), 7.0), [[1e-310]] * K, [-np.log(K)] * K)
    bounds = gma_ref.lipschitz_bounds(same, 1.0)
    assert bounds["l2_sharp"] == bounds["l2_global"] == 0  # they are one component


def test_bound_of_the_difference_needs_no_inverse_that_overflows():
    # the precisions overflow, and what they are multiplied with is as small
    mixture = gma_ref.GaussianMixture([[0.0], [1e-310]], [[1e-310]] * 2, np.log([0.5, 0.5]))
    assert_allclose(gma_ref.lipschitz_bounds(mixture, 0.0)["l2_sharp"], 1 / math.sqrt(8), rtol=1e-9)


def test_means_far_out_have_finite_bounds_where_nothing_overflows():
    mixture = gma_ref.GaussianMixture([[0.0, 0], [3e200, 4e200]], [[2.0, 2]] * 2, np.log([0.5, 0.5]))
    bounds = gma_ref.lipschitz_bounds(mixture, 1.0)
    assert_allclose(bounds["score_gradient"], 2.5e200)
    for name in ("l2_sharp", "l2_global"):
        assert_allclose(bounds[name], 2.5e200 / math.sqrt(8))
    assert_allclose(gma_ref.background_bound(mixture), 2.5e200 / math.sqrt(2))
    unequal = gma_ref.GaussianMixture([[0.0], [1e200]], [[2.0], [1]], np.log([0.5, 0.5]))
    assert gma_ref.background_bound(unequal) == np.inf  # a square on the way overflows


def test_a_component_of_prior_zero_does_not_set_the_scale():
    mu, variance = np.array([[0.0], [1], [5]]), np.array([[1.0], [2], [1e-310]])
    three = gma_ref.GaussianMixture(mu, variance, [np.log(0.5), np.log(0.5), -np.inf])
    two = gma_ref.GaussianMixture(mu[:2], variance[:2], np.log([0.5, 0.5]))
    expected = gma_ref.lipschitz_bounds(two, 3.0)
    for name, bound in gma_ref.lipschitz_bounds(three, 3.0).items():
        assert_array_equal(bound, expected[name])


def background(shift=0.0):
    """Return a mixture in which two of the broadest components coincide."""
    mu = np.array([[1.0, 2], [1, 2], [0, 1], [2, -1]]) + shift
    return gma_ref.GaussianMixture(mu, [[3.0, 3], [3, 3], [1, 2], [2, 1]], np.log([0.1, 0.2, 0.3, 0.4]))


def test_broadest_components_that_coincide_leave_the_bound_where_it_is():
    # moving all means together changes nothing
    assert_allclose(gma_ref.background_bound(background(10.0)), gma_ref.background_bound(background()), rtol=1e-12)


def test_hull_is_asked_once_for_each_component(monkeypatch):
    rng = np.random.default_rng(0)
    corners, variance = rng.normal(size=(12, 3)), np.ones((20, 3))
    variance[12:, 2] = 0.5
    mu = np.vstack([corners, rng.dirichlet(np.ones(12), size=8) @ corners])
    mixture = gma_ref.GaussianMixture(mu, variance, np.full(20, -np.log(20)))
    asked = []
    hull_weights = global_stability.hull_weights

    def counted(point, corners):
        asked.append(point)
        return hull_weights(point, corners)

    monkeypatch.setattr(global_stability, "hull_weights", counted)
    assert np.isfinite(gma_ref.background_bound(mixture))
    assert len(asked) == 8


def test_slopes_of_scores_far_out_are_what_they_are():
    slopes = gma_ref.score_jacobians([[1e200]], [[0.0]], [[0.0]], [0.0])
    assert_allclose(slopes["x"], -1e200 / (math.log(2) + 1e-6))
    assert slopes["omega"] == np.inf
    assert_array_equal(gma_ref.score_jacobians([[1e200]], [[0.0]], [[-800.0]], [0.0])["omega"], 0)


def test_variances_of_any_ratio_have_bounds_that_are_numbers():
    # the narrow component's determinant is 1e-618 times the other's
    mixture = gma_ref.GaussianMixture([[0.0], [0]], [[1e308], [1e-310]], np.log([0.5, 0.5]))
    assert gma_ref.is_globally_lipschitz(mixture)
    assert gma_ref.background_bound(mixture) > 0
    assert gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"] > 0
    never = gma_ref.GaussianMixture([[0.0], [0]], [[1e308], [1e-310]], [0, -1e300])
    assert gma_ref.lipschitz_bounds(never, 1.0)["l2_global"] == 0
