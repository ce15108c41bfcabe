"""The special cases C1-C4, where the answer is known by other means."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests import oracles
from tests.examples import draw


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-6, 2.0])
def test_one_component_gives_the_mean_shrunk_by_eps(eps, causal):
    # C1: K = 1 gives the mean of the n values times n / (n + ε)
    q, k, v, mixture = draw(N=7, K=1)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=eps)
    for i in range(7):
        n = i + 1 if causal else 7
        assert_allclose(output[:, i], v[:, :n].mean(axis=1) * n / (n + eps), rtol=1e-12, atol=1e-14)


def test_equal_covariances_give_a_softmax_of_an_affine_map():
    # C2: logits xᵀΣ⁻¹μ_k + log π_k − ½ μ_kᵀΣ⁻¹μ_k
    q, _, _, mixture = draw(batch=())
    variance = np.broadcast_to(mixture.variance[:1], mixture.mu.shape)
    equal = gma_ref.GaussianMixture(mixture.mu, variance, mixture.log_prior)
    weight = (mixture.mu / variance).T
    bias = mixture.log_prior - 0.5 * np.sum(mixture.mu**2 / variance, axis=-1)
    assert_allclose(gma_ref.responsibilities(q, equal), oracles.softmax(q @ weight + bias), rtol=1e-12)


def test_every_affine_softmax_is_a_mixture_of_equal_covariances():
    # C2, conversely: μ_k = Σ w_k, log π_k = b_k + ½ μ_kᵀΣ⁻¹μ_k up to a constant
    rng = np.random.default_rng(0)
    x, weight, bias = rng.normal(size=(6, 3)), rng.normal(size=(3, 4)), rng.normal(size=4)
    variance = rng.uniform(0.1, 1, size=3)
    mu = weight.T * variance
    alpha = bias + 0.5 * np.sum(mu**2 / variance, axis=-1)
    log_prior = alpha - np.log(np.exp(alpha).sum())
    mixture = gma_ref.GaussianMixture(mu, np.tile(variance, (4, 1)), log_prior)
    assert_allclose(gma_ref.responsibilities(x, mixture), oracles.softmax(x @ weight + bias), rtol=1e-12)


def test_narrow_components_route_like_k_means():
    # C3: equal isotropic σ → 0
    rng = np.random.default_rng(0)
    x, mu = rng.normal(size=(50, 2)), rng.normal(size=(4, 2))
    nearest = np.argmin(((x[:, None] - mu) ** 2).sum(axis=-1), axis=-1)
    mixture = gma_ref.GaussianMixture(mu, np.full((4, 2), 1e-8), np.log([0.1, 0.2, 0.3, 0.4]))
    assert_array_equal(gma_ref.responsibilities(x, mixture), np.eye(4)[nearest])


def test_ties_between_narrow_components_are_split_by_their_priors():
    mixture = gma_ref.GaussianMixture([[-1.0], [1.0], [5.0]], np.full((3, 1), 1e-8), np.log([0.2, 0.6, 0.2]))
    assert_allclose(gma_ref.responsibilities([[0.0]], mixture), [[0.25, 0.75, 0]], rtol=1e-7)


def test_narrow_components_of_unequal_width_compare_distances_in_widths():
    # C3 with σ_k = s·τ_k, s → 0: the rule is the least ‖x − μ_k‖ / τ_k, not the least distance
    rng = np.random.default_rng(0)
    x, mu, tau = rng.normal(size=(50, 2)), rng.normal(size=(4, 2)), np.array([0.5, 1.0, 2.0, 4.0])
    distance = np.sqrt(((x[:, None] - mu) ** 2).sum(axis=-1))
    variance = np.tile((1e-4 * tau[:, None]) ** 2, (1, 2))
    gamma = gma_ref.responsibilities(x, gma_ref.GaussianMixture(mu, variance, np.full(4, -np.log(4))))
    assert_array_equal(gamma, np.eye(4)[np.argmin(distance / tau, axis=-1)])
    assert (np.argmin(distance / tau, axis=-1) != np.argmin(distance, axis=-1)).any()


@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_cell_without_keys_reads_zero(eps):
    mixture = gma_ref.GaussianMixture([[-1.0], [1.0]], np.full((2, 1), 1e-8), np.log([0.5, 0.5]))
    k, v = [[0.9], [1.2]], [[3.0], [5.0]]
    output = gma_ref.gaussian_mixture_attention([[-1.0], [1.0]], k, v, mixture, eps=eps)
    assert_array_equal(output[0], 0)
    assert_allclose(output[1], 4, rtol=1e-6)


def component_per_key(scale, N=5, d=4):
    """C4: unit keys k_j scaled by ρ, queries by 1/ρ, one component μ_j = k_j, σ² = √d, equal priors."""
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(6, d)), rng.normal(size=(N, d))
    k /= np.sqrt((k**2).sum(axis=-1, keepdims=True))
    q, k = q / scale, scale * k
    mixture = gma_ref.GaussianMixture(k, np.full((N, d), np.sqrt(d)), np.full(N, -np.log(N)))
    softmax = oracles.softmax(q @ k.T / np.sqrt(d))
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    weights = gma_ref.attention_weights(gamma_q, gamma_k, eps=0)
    distances = np.sqrt(((k[:, None] - k) ** 2).sum(axis=-1)) + 1e9 * np.eye(N)
    bound = 4 * (N - 1) * np.exp(-(distances.min() ** 2) / (2 * np.sqrt(d)))
    return gamma_q, weights, softmax, bound


@pytest.mark.parametrize("scale", [1, 2, 4, 8, 16])
def test_component_per_key_routes_queries_by_the_softmax_matrix(scale):
    gamma_q, weights, softmax, bound = component_per_key(scale)
    assert_allclose(gamma_q, softmax, rtol=1e-11)
    assert np.abs(weights - softmax).sum(axis=-1).max() <= bound + 1e-12


def test_component_per_key_becomes_dot_product_attention_as_keys_grow():
    def error(scale):
        _, weights, softmax, _ = component_per_key(scale)
        return np.abs(weights - softmax).sum(axis=-1).max()

    assert error(1) > 0.1 > error(4) > error(16) > error(32)
    assert error(32) < 1e-10
