"""The Mahalanobis trace trap, as G7 states it: where the gradient is exactly 0, and where it is not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests import oracles


def draw(N=12, d=3, K=2):
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, N, d)), rng.dirichlet(np.ones(K), size=(2, N)), rng.normal(size=(2, K, d))


def total(x, weights, mu, **options):
    """Σ_i γ_i times the squared distances, for each component."""
    return (weights * gma_ref.batch_mahalanobis(x, weights, mu, **options)).sum(axis=-2)


def change(function, array, index, step=1e-5):
    moved = [array.copy(), array.copy()]
    moved[0][index] += step
    moved[1][index] -= step
    return (function(moved[0]) - function(moved[1])) / (2 * step)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_distances_are_those_of_the_estimated_covariance(ridge):
    x, weights, mu = draw()
    found = gma_ref.batch_mahalanobis(x, weights, mu, ridge)
    assert found.shape == (2, 12, 2)
    for b, k in np.ndindex(2, 2):
        seen = x[b] - mu[b, k]
        covariance = sum(g * np.outer(s, s) for g, s in zip(weights[b, :, k], seen, strict=True))
        covariance = covariance / weights[b, :, k].sum() + ridge * np.eye(3)
        inverse = np.linalg.inv(covariance)
        assert_allclose(found[b, :, k], [s @ inverse @ s for s in seen], rtol=1e-9)
        assert_array_equal(gma_ref.batch_mahalanobis(x[b], weights[b], mu[b], ridge), found[b])


def test_weighted_sum_of_the_distances_is_a_constant_trace():
    x, weights, mu = draw()
    assert_allclose(total(x, weights, mu), 3 * weights.sum(axis=-2), rtol=1e-12)


def test_fixed_weights_leave_no_gradient():
    x, weights, mu = draw()
    for index in np.ndindex(x.shape):
        assert_allclose(change(lambda moved: total(moved, weights, mu), x, index), 0, atol=1e-8)
    for index in np.ndindex(mu.shape):
        assert_allclose(change(lambda moved: total(x, weights, moved), mu, index), 0, atol=1e-8)


def test_a_ridge_keeps_a_gradient():
    x, weights, mu = draw()
    assert np.abs(change(lambda moved: total(moved, weights, mu, ridge=0.5), x, (0, 0, 0))).max() > 1e-2


def recomputed(x, mu):
    return oracles.responsibilities(x, mu, np.ones((2, 2, 3)), np.log(np.full((2, 2), 0.5)))


def test_weights_that_are_recomputed_leave_each_component_the_gradient_of_its_mass():
    x, _, mu = draw()
    for index in [(0, 0, 0), (1, 3, 2)]:
        found = change(lambda moved: total(moved, recomputed(moved, mu), mu), x, index)
        of_the_mass = change(lambda moved: 3 * recomputed(moved, mu).sum(axis=-2), x, index)
        assert_allclose(found, of_the_mass, rtol=1e-6, atol=1e-8)
        assert np.abs(found).max() > 1e-3
        assert_allclose(found.sum(axis=-1), 0, atol=1e-7)  # over all components it is d_r N, whatever x is


def test_a_singular_covariance_is_an_error():
    with pytest.raises(np.linalg.LinAlgError):
        gma_ref.batch_mahalanobis([[1.0, 0], [2, 0]], np.ones((2, 1)), [[0.0, 0]])
    found = gma_ref.batch_mahalanobis([[1.0, 0], [2, 0]], np.ones((2, 1)), [[0.0, 0]], ridge=1.0)
    assert_allclose(found[:, 0], [1 / 3.5, 4 / 3.5])


@pytest.mark.parametrize("seed", range(100))
def test_fewer_vectors_than_dimensions_are_always_refused(seed):
    rng = np.random.default_rng(seed)
    d = rng.integers(2, 7)
    N = rng.integers(1, d)
    x = rng.normal(size=(N, d)) * np.exp(5 * rng.normal(size=d))  # coordinates in any units
    if seed % 2:
        x = np.repeat(x, 30, axis=0)  # many vectors, and no more directions
    weights = rng.uniform(0.1, 1, size=(len(x), 1))
    message = f"^x must hold at least {d} vectors in general position for each component"
    with pytest.raises(np.linalg.LinAlgError, match=message):
        gma_ref.batch_mahalanobis(x, weights, np.zeros((1, d)))
    with pytest.raises(np.linalg.LinAlgError, match=message):
        gma_ref.batch_mahalanobis(x.astype(np.float32), weights, np.zeros((1, d)))


@pytest.mark.parametrize("seed", range(20))
def test_units_make_no_covariance_singular(seed):
    rng = np.random.default_rng(seed)
    x, weights, mu = rng.normal(size=(9, 3)), rng.dirichlet(np.ones(2), size=9), rng.normal(size=(2, 3))
    units = np.array([1e-9, 1, 1e9])
    expected = gma_ref.batch_mahalanobis(x, weights, mu)
    assert_allclose(gma_ref.batch_mahalanobis(units * x, weights, units * mu), expected, rtol=1e-9)


def test_components_without_a_vector_are_refused():
    message = "^weights must be positive for some vector of each component, got a sum of 0 over "
    with pytest.raises(ValueError, match=message + "4 vectors$"):
        gma_ref.batch_mahalanobis(np.eye(4), np.eye(2)[[0, 0, 0, 0]], np.zeros((2, 4)), ridge=1.0)
    with pytest.raises(ValueError, match=message + "0 vectors$"):
        gma_ref.batch_mahalanobis(np.zeros((0, 2)), np.zeros((0, 1)), np.zeros((1, 2)), ridge=1.0)


@pytest.mark.parametrize("name", ["x", "weights", "mu"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(name, value):
    arguments = dict(zip(("x", "weights", "mu"), draw(), strict=True))
    arguments[name][0, 0, 0] = value
    with pytest.raises(ValueError, match=f"^{name} must be finite, got {value}$"):
        gma_ref.batch_mahalanobis(**arguments)


def test_negative_weights_are_refused():
    x, weights, mu = draw()
    weights[1, 2, 0] = -0.5
    with pytest.raises(ValueError, match=r"^weights must be at least 0, got -0\.5$"):
        gma_ref.batch_mahalanobis(x, weights, mu)


def test_batches_of_nothing_have_no_distances():
    assert gma_ref.batch_mahalanobis(np.ones((3, 2)), np.ones((3, 0)), np.ones((0, 2))).shape == (3, 0)
    assert_allclose(gma_ref.batch_mahalanobis(np.ones((3, 0)), np.ones((3, 2)), np.ones((2, 0))), np.zeros((3, 2)))
