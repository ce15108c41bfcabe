"""Membership in a convex hull: against linear programming, SciPy's least squares, and at its edges."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

import gma_ref
from gma_ref.reference.hull import hull_weights, nonnegative_least_squares


@pytest.mark.parametrize("seed", range(60))
def test_hull_is_that_of_linear_programming(seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 9), rng.integers(1, 5)
    corners = rng.normal(size=(n, d)) * np.exp(3 * rng.normal(size=d))  # coordinates in any units
    if seed % 3 == 0:
        corners[-1] = corners[0]  # corners that repeat
    inside = rng.dirichlet(np.ones(n) * rng.choice([0.05, 1])) @ corners
    outside = inside + (inside - corners.mean(axis=0)) * 3 + rng.normal(size=d)
    for point in (inside, corners[0], corners.mean(axis=0), outside):
        # λ ≥ 0, Σλ = 1, Σ λ a = the point: feasible or not
        seen = corners - point  # in units of each coordinate: the solver's tolerance has none
        seen[np.abs(seen) <= 1e-15 * np.abs(point)] = 0  # and the last digit is no distance
        seen = seen / np.maximum(np.abs(seen).max(axis=0), 1e-300)
        constraints = np.vstack([seen.T, np.ones(n)])
        done = optimize.linprog(np.zeros(n), A_eq=constraints, b_eq=[*np.zeros(d), 1], bounds=(0, None))
        weights, distance = hull_weights(point, corners)
        assert (weights >= 0).all()
        assert_allclose(weights.sum(), 1, rtol=1e-12)
        assert (distance <= 1e-9) == (done.status == 0)
        if done.status == 0:
            assert_allclose(weights @ corners, point, rtol=1e-8, atol=1e-8 * np.abs(corners).max())


@pytest.mark.parametrize("gap", [1e-1, 1e-4, 1e-7])
def test_points_a_little_outside_the_hull_are_outside(gap):
    corners = np.array([[0.0, 0], [4, 0], [0, 4], [1, 1], [2, 2]])
    assert hull_weights(np.array([2.0, 2.0]), corners)[1] <= 1e-12
    assert_allclose(hull_weights(np.array([2.0 + gap, 2.0]), corners)[1], gap / 2 / math.sqrt(2), rtol=0.3)


@pytest.mark.parametrize("seed", range(300))
def test_weights_of_whole_numbers_are_those_of_scipy(seed):
    # points on corners, on edges and on faces, where the residual or a weight is exactly 0
    rng = np.random.default_rng(seed)
    n, d, largest = rng.integers(1, 9), rng.integers(1, 6), rng.choice([2, 8])
    corners = rng.integers(-largest, largest, size=(n, d), endpoint=True).astype(float)
    i, j = rng.integers(n, size=2)
    points = [*corners, (corners[i] + corners[j]) / 2, rng.integers(-largest, largest, size=d).astype(float)]
    for point in points:
        weights, distance = hull_weights(point, corners)
        assert (weights >= 0).all()
        assert_allclose(weights.sum(), 1, rtol=1e-12)
        seen = corners - point
        seen = seen / np.maximum(np.abs(seen).max(axis=0), 1)
        matrix = np.vstack([seen.T, np.ones(n)])
        assert_allclose(distance, optimize.nnls(matrix, np.eye(d + 1)[-1])[1], atol=1e-12)


@pytest.mark.parametrize("seed", range(200))
def test_a_corner_is_mixed_from_the_corners(seed):
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(6, 3))
    for point in corners:
        weights, distance = hull_weights(point, corners)
        assert distance <= 1e-12
        assert_allclose(weights @ corners, point, atol=1e-12)


def test_every_weight_that_helps_is_found_however_the_corners_are_ordered():
    corners = np.array([[6.0, 6], [-5, 8], [-7, -8]])
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]):
        weights, distance = hull_weights(corners[2], corners[order])
        assert distance <= 1e-12
        assert_allclose(weights, np.eye(3)[order.index(2)], atol=1e-12)


def test_least_squares_without_columns_that_help_are_zero():
    assert_allclose(nonnegative_least_squares(-np.eye(2), np.array([0.6, 0.8])), 0)
    assert_allclose(nonnegative_least_squares(np.array([[0.6, 0.6], [0.8, 0.8]]), np.array([0.6, 0.8])).sum(), 1)


def narrow_in_the_last(corners, mean):
    """Return a mixture of broadest components at corners, and of one that is narrower in its last coordinate."""
    mu = [*([*corner, 0] for corner in corners), [*mean, 0]]
    variance = np.ones((len(mu), len(mu[0])))
    variance[-1, -1] = 0.5
    return gma_ref.GaussianMixture(mu, variance, np.full(len(mu), -np.log(len(mu))))


def test_order_of_the_components_does_not_matter():
    corners = [[6, 6], [-5, 8], [-7, -8]]
    bounds = []
    for order in ([0, 1, 2], [1, 0, 2], [2, 0, 1]):
        mixture = narrow_in_the_last([corners[i] for i in order], corners[2])
        assert gma_ref.is_globally_lipschitz(mixture)
        bounds.append(gma_ref.background_bound(mixture))
    assert_allclose(bounds, bounds[0], rtol=1e-12)


def test_a_mean_one_digit_off_corners_that_coincide_is_on_them():
    for corner in (0.1 + 0.2, -0.1 - 0.2):
        near = np.nextafter(corner, 0)
        assert gma_ref.is_globally_lipschitz(narrow_in_the_last([[near], [near]], [corner]))
        one = narrow_in_the_last([[near]], [corner])
        exact = gma_ref.lipschitz_bounds(narrow_in_the_last([[corner]], [corner]), 1.0)["l2_global"]
        assert_allclose(gma_ref.lipschitz_bounds(one, 1.0)["l2_global"], exact, rtol=1e-12)
    assert not gma_ref.is_globally_lipschitz(narrow_in_the_last([[0.3], [0.3]], [0.3 + 1e-12]))
