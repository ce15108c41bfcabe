"""Components that coincide: by their responsibilities, and as Gaussians, against integrals and other libraries."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.sparse.csgraph import connected_components
from sklearn.metrics.pairwise import cosine_similarity

from gma_ref import GaussianMixture, effective_rank, responsibilities
from gma_ref import diagnostics as package
from gma_ref.diagnostics import (
    collapsed_components,
    component_groups,
    effective_slots,
    gaussian_overlap,
    responsibility_overlap,
)
from tests.diagnostics.examples import draw, hard


def mixture(mu, variance):
    mu, variance = np.asarray(mu, float), np.asarray(variance, float)
    return GaussianMixture(mu, variance, np.full(mu.shape[-2], -np.log(mu.shape[-2])))


def test_overlap_of_responsibilities_is_the_cosine_of_scikit_learn():
    gamma = draw(2, 40, 6)
    found = responsibility_overlap(gamma)
    for one, matrix in zip(gamma, found, strict=True):
        np.testing.assert_allclose(matrix, cosine_similarity(one.T), rtol=1e-12)


def test_proportional_columns_overlap_fully_whatever_their_mass():
    gamma = draw(30, 4)
    split = np.concatenate([gamma[:, :3], gamma[:, 3:] * [0.999, 1e-3 - 1e-200, 1e-200]], axis=1)
    overlap = responsibility_overlap(split)
    np.testing.assert_allclose(overlap[3:, 3:], 1, rtol=1e-12)
    assert overlap[:3, 3:].max() < 0.9
    np.testing.assert_array_equal(component_groups(overlap), [0, 1, 2, 3, 3, 3])
    np.testing.assert_array_equal(collapsed_components(overlap), [False, False, False, False, True, True])


def test_a_component_without_responsibility_coincides_with_none():
    overlap = responsibility_overlap(hard([0, 0, 2], 4))
    np.testing.assert_allclose(overlap, np.diag([1, 0, 1, 0]), atol=1e-15)
    np.testing.assert_array_equal(component_groups(overlap), [0, 1, 2, 3])


def test_tokens_spread_alike_make_all_components_one_though_all_are_used():
    gamma = np.tile([0.4, 0.3, 0.2, 0.1], (7, 1))
    np.testing.assert_array_equal(component_groups(responsibility_overlap(gamma)), [0, 0, 0, 0])
    assert effective_slots(gamma) > 3
    assert effective_rank(gamma) == pytest.approx(1)


def test_masked_tokens_do_not_matter():
    gamma, mask = draw(2, 12, 3), np.arange(12) > 4
    poisoned = np.where(mask[:, None], gamma, np.inf)
    np.testing.assert_allclose(responsibility_overlap(poisoned, mask), responsibility_overlap(gamma[:, mask]))


def test_overlap_of_two_gaussians_is_the_integral_of_their_geometric_mean():
    one, other = stats.norm(0.3, 0.7), stats.norm(-1, 2)
    expected, _ = integrate.quad(lambda x: np.sqrt(one.pdf(x) * other.pdf(x)), -20, 20, epsabs=1e-12)
    overlap = gaussian_overlap(mixture([[0.3], [-1]], [[0.49], [4]]))
    np.testing.assert_allclose(overlap, [[1, expected], [expected, 1]], rtol=1e-9)


def test_overlap_is_a_product_over_coordinates_and_of_each_head_alone():
    rng = np.random.default_rng(0)
    mu, variance = rng.normal(size=(2, 4, 3)), rng.uniform(0.2, 3, size=(2, 4, 3))
    found = gaussian_overlap(mixture(mu, variance))
    each = [gaussian_overlap(mixture(mu[..., m : m + 1], variance[..., m : m + 1])) for m in range(3)]
    np.testing.assert_allclose(found, np.prod(each, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found[1], gaussian_overlap(mixture(mu[1], variance[1])), rtol=1e-15)
    np.testing.assert_allclose(found, found.swapaxes(-1, -2))


def test_equal_variances_give_the_exponential_of_the_distance():
    t = np.array([0, 0.1, 0.2835, 1, 4])
    overlap = gaussian_overlap(mixture(5 * t[:, None], np.full((5, 1), 25)))
    np.testing.assert_allclose(overlap[0], np.exp(-(t**2) / 8), rtol=1e-12)
    np.testing.assert_array_equal(collapsed_components(overlap[[0, 2]][:, [0, 2]]), [False, True])  # 0.28 sigma apart
    np.testing.assert_array_equal(collapsed_components(overlap[[0, 3]][:, [0, 3]]), [False, False])


def test_overlap_does_not_change_with_the_unit_and_bears_extremes():
    rng = np.random.default_rng(1)
    mu, variance = rng.normal(size=(3, 2)), rng.uniform(0.5, 2, size=(3, 2))
    scale, shift = np.array([1e-3, 1e6]), np.array([5, -7])
    found = gaussian_overlap(mixture(mu * scale + shift, variance * scale**2))
    np.testing.assert_allclose(found, gaussian_overlap(mixture(mu, variance)), rtol=1e-9)
    extreme = gaussian_overlap(mixture([[-1e308], [1e308], [1e308]], [[1e-300], [1e300], [1e300]]))
    np.testing.assert_array_equal(extreme, [[1, 0, 0], [0, 1, 1], [0, 1, 1]])


def test_gaussians_that_coincide_have_proportional_responsibilities():
    close = mixture([[0, 0], [1e-4, 0], [2, 1]], [[1, 1], [1.001, 1], [1, 2]])
    gamma = responsibilities(np.random.default_rng(0).normal(size=(50, 2)), close)
    for overlap in (gaussian_overlap(close), responsibility_overlap(gamma)):
        np.testing.assert_array_equal(component_groups(overlap), [0, 0, 2])


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_the_connected_components_of_scipy(seed):
    rng = np.random.default_rng(seed)
    overlap = rng.random((3, 40, 40)) ** 0.3
    overlap = np.minimum(overlap, overlap.swapaxes(-1, -2))
    groups = component_groups(overlap, threshold=0.97)
    for matrix, own in zip(overlap, groups, strict=True):
        count, expected = connected_components(matrix >= 0.97, directed=False)
        first = [np.flatnonzero(expected == one)[0] for one in expected]
        np.testing.assert_array_equal(own, first)
        assert 1 < count < 40


def test_a_long_chain_is_one_group():
    K = 65
    near = np.abs(np.subtract.outer(np.arange(K), np.arange(K))) == 1
    np.testing.assert_array_equal(component_groups(np.float64(near)), np.zeros(K))


def test_an_overlap_as_large_as_the_threshold_is_enough():
    overlap = [[1, 0.5], [0.5, 1]]
    np.testing.assert_array_equal(component_groups(overlap, threshold=0.5), [0, 0])
    np.testing.assert_array_equal(component_groups(overlap, threshold=0.501), [0, 1])
    np.testing.assert_array_equal(component_groups([[1, 1, 0], [1, 1, 0], [0, 0, 1]], threshold=1), [0, 0, 2])


def test_one_component_and_none():
    np.testing.assert_array_equal(component_groups([[1.0]]), [0])
    assert not collapsed_components([[1.0]]).any()
    assert component_groups(np.zeros((2, 0, 0))).shape == (2, 0)
    np.testing.assert_array_equal(responsibility_overlap(np.zeros((0, 2))), np.zeros((2, 2)))


def test_effective_rank_is_that_of_the_reference():
    assert package.effective_rank is effective_rank
