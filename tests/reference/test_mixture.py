"""The mixture and its responsibilities: Eqs. (2), (3), (14), (15), (16), and the faults that mixtures are prone to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests import oracles
from tests.examples import CASES, draw, every_case, mixture_of

EXACT = {"rtol": 1e-12, "atol": 0}


@every_case
def test_log_density_is_the_exact_one(case):
    mixture = mixture_of(case)
    assert_allclose(gma_ref.log_density(case.inputs.q, mixture), case.log_density_q, **EXACT)


@every_case
def test_scores_are_the_exact_ones(case):
    assert_allclose(gma_ref.scores(case.inputs.q, mixture_of(case)), case.scores_q, **EXACT)


@every_case
def test_responsibilities_are_the_exact_ones(case):
    assert_allclose(gma_ref.responsibilities(case.inputs.q, mixture_of(case)), case.bidirectional.gamma_q, **EXACT)


@every_case
def test_queries_and_keys_share_the_mixture(case):
    mixture = mixture_of(case)
    tokens = np.concatenate([case.inputs.q, case.inputs.k], axis=-2)
    expected = np.concatenate([case.bidirectional.gamma_q, case.bidirectional.gamma_k], axis=-2)
    assert_allclose(gma_ref.responsibilities(tokens, mixture), expected, **EXACT)


@every_case
def test_unconstrained_parameters_give_the_exact_mixture(case):
    mixture = mixture_of(case)
    assert_array_equal(mixture.mu, case.inputs.mu)
    assert_allclose(mixture.variance, case.variance, **EXACT)
    assert_allclose(mixture.log_prior, case.log_prior, rtol=1e-12, atol=1e-300)


def test_responsibilities_are_the_slow_loop():
    q, _, _, mixture = draw(N=7, K=5, d_r=3, batch=(2,))
    expected = oracles.responsibilities(q, mixture.mu, mixture.variance, mixture.log_prior)
    assert_allclose(gma_ref.responsibilities(q, mixture), expected, rtol=1e-12)


@pytest.mark.parametrize("x", [1e4, -1e4])
def test_far_from_every_mean_responsibilities_stay_exact(x):
    # every density is 0 in float64; log-odds of the second component are x·μ − μ²/2 and the log-odds of the priors
    def responsibilities(mu, priors):
        return gma_ref.responsibilities([[x]], gma_ref.GaussianMixture([[0.0], [mu]], np.ones((2, 1)), np.log(priors)))

    assert_array_equal(responsibilities(1.0, [0.5, 0.5]), [[0, 1]] if x > 0 else [[1, 0]])
    assert_allclose(responsibilities(0.0, [0.25, 0.75]), [[0.25, 0.75]], rtol=1e-7)
    assert_allclose(responsibilities(1 / x, [0.5, 0.5]), [[1 / (1 + np.e), np.e / (1 + np.e)]], rtol=1e-7)


@pytest.mark.parametrize("c", [0, 1, 10, 100, 1000, 10_000])
def test_data_far_from_the_origin_do_not_cancel_in_float32(c):
    x, mu = np.float32([[c + 0.2]]), np.float32([[c], [c + 0.5]])
    mixture = gma_ref.GaussianMixture(mu, np.full((2, 1), 0.01, np.float32), np.log(np.float32([0.5, 0.5])))
    gamma = gma_ref.responsibilities(x, mixture)
    assert gamma.dtype == np.float32
    assert_allclose(gamma, [[0.924, 0.076]], atol=0.002)  # c + 0.2 itself is rounded, to 0.0005 where c = 10,000
    exact = oracles.responsibilities(*(np.float64(a) for a in (x, mu, mixture.variance, mixture.log_prior)))
    assert_allclose(gamma, exact, rtol=1e-5)


def test_variance_is_neither_root_nor_inverse_and_keeps_its_log_determinant():
    def responsibilities(x, sigma):
        sigma = np.array(sigma)[:, None] * np.ones(len(x))
        return gma_ref.responsibilities([x], gma_ref.GaussianMixture(0 * sigma, sigma**2, np.log([0.5, 0.5])))[0]

    assert_allclose(responsibilities([0.0], (1.0, 2.0)), [2 / 3, 1 / 3], rtol=1e-12)
    assert_allclose(responsibilities([2.0], (1.0, 2.0)), [0.30856, 0.69144], atol=5e-6)
    assert_allclose(responsibilities([0.0, 0.0], (1.0, 2.0)), [0.8, 0.2], rtol=1e-12)


def test_component_with_a_prior_of_zero_takes_nothing():
    mu, omega = [[0.0], [1.0], [2.0]], np.full((3, 1), np.log(np.expm1(1)))  # softplus(ω) = 1
    with_zero = gma_ref.GaussianMixture(mu, np.ones((3, 1)), [-np.inf, np.log(0.5), np.log(0.5)])
    unconstrained = gma_ref.GaussianMixture.from_unconstrained(mu, omega, [-np.inf, 3.0, 3.0], eps_sigma=0)
    for mixture in (with_zero, unconstrained):
        assert_array_equal(gma_ref.scores([[0.3]], mixture)[0, 0], -np.inf)
        gamma = gma_ref.responsibilities([[0.3]], mixture)
        assert_allclose(gamma, [[0, 0.76852, 0.23148]], atol=5e-6)
        assert gamma[0, 0] == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("omega", [1000.0, -1000.0])
def test_variances_of_any_omega_are_finite_and_positive(omega, dtype):
    mu, omegas, alpha = (np.full(shape, value, dtype) for shape, value in (((1, 1), 0), ((1, 1), omega), ((1,), 0)))
    mixture = gma_ref.GaussianMixture.from_unconstrained(mu, omegas, alpha, eps_sigma=1e-6)
    assert mixture.variance.dtype == dtype
    assert_allclose(mixture.variance, [[omega if omega > 0 else 1e-6]], rtol=1e-6)


def test_variance_keeps_its_floor():
    mixture = gma_ref.GaussianMixture.from_unconstrained([[0.0]], [[-800.0]], [0.0], eps_sigma=0.25)
    assert_array_equal(mixture.variance, [[0.25]])


@pytest.mark.parametrize("alpha", [(1e4, -1e4), (-1e4, -1e4), (1e4, 1e4)])
def test_priors_of_any_alpha_sum_to_one(alpha):
    mixture = gma_ref.GaussianMixture.from_unconstrained(np.zeros((2, 1)), np.zeros((2, 1)), alpha)
    assert_allclose(np.exp(mixture.log_prior), [1, 0] if alpha[0] > alpha[1] else [0.5, 0.5], rtol=1e-12)
    assert np.isfinite(mixture.log_prior).all()


@pytest.mark.parametrize(
    ("K", "variance", "share"), [(64, 1.0, 0.14), (64, 8.0, 0.86), (64, 64.0, 1.0), (16, 8.0, 0.8)]
)
def test_broad_components_share_the_tokens_in_high_dimension(K, variance, share):
    # d_r = 64, x and μ standard normal: entropy of the responsibilities over log K, for σ² = 1, √d_r, d_r
    rng = np.random.default_rng(0)
    d_r = 64
    mixture = gma_ref.GaussianMixture(rng.normal(size=(K, d_r)), np.full((K, d_r), variance), np.full(K, -np.log(K)))
    gamma = gma_ref.responsibilities(rng.normal(size=(2000, d_r)), mixture)
    entropy = -(gamma * np.log(np.maximum(gamma, 1e-300))).sum(axis=-1).mean()
    assert_allclose(entropy / np.log(K), share, atol=0.03)


@pytest.mark.parametrize("name", ["far_away", "large_offset", "extreme_priors", "extreme_variances"])
def test_float32_responsibilities_follow_the_exact_ones_of_their_inputs(name):
    # the exact answer for the inputs as float32 holds them
    mixture = mixture_of(CASES[name])
    arrays = CASES[name].inputs.q, mixture.mu, mixture.variance, mixture.log_prior
    x, mu, variance, log_prior = map(np.float32, arrays)
    exact = oracles.responsibilities(*(np.float64(a) for a in (x, mu, variance, log_prior)))
    gamma = gma_ref.responsibilities(x, gma_ref.GaussianMixture(mu, variance, log_prior))
    size = np.abs(gma_ref.scores(x, mixture))
    size = size[np.isfinite(size)].max()
    assert_allclose(gamma, exact, atol=1e-6 + 2e-7 * size)
    assert_allclose(gamma.sum(axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_densities_reach_to_the_ends_of_the_floats(dtype):
    largest, tiny = np.finfo(dtype).max, np.finfo(dtype).tiny
    far = np.array([[largest / 4]], dtype)
    wide = gma_ref.GaussianMixture(
        np.zeros((2, 1), dtype), np.array([[largest / 2], [largest]], dtype), np.log(np.array([0.5, 0.5], dtype))
    )
    # at 0 the densities are as 1/σ; the ratio does not depend on the scale
    assert_allclose(
        gma_ref.responsibilities(np.zeros((1, 1), dtype), wide), [[2**0.5 / (1 + 2**0.5), 1 / (1 + 2**0.5)]], rtol=1e-6
    )
    narrow_and_idle = gma_ref.GaussianMixture(
        np.zeros((2, 1), dtype), np.array([[1], [tiny]], dtype), np.array([0, -np.inf], dtype)
    )
    assert_array_equal(gma_ref.responsibilities(np.array([[1e10]], dtype), narrow_and_idle), [[1, 0]])
    alone = gma_ref.GaussianMixture(np.zeros((1, 1), dtype), np.ones((1, 1), dtype), np.zeros(1, dtype))
    assert_array_equal(gma_ref.log_density(far, alone), [[-np.inf]])


def test_masked_keys_are_harmless_wherever_the_means_lie():
    mixture = gma_ref.GaussianMixture(np.full((1, 2), 1e20, np.float32), np.ones((1, 2), np.float32), [0])
    k = np.array([[1e20, 1e20], [np.nan, np.inf]], np.float32)
    v = np.array([[2.0], [np.nan]], np.float32)
    output = gma_ref.gaussian_mixture_attention(k[:1], k, v, mixture, key_mask=[True, False], eps=0)
    assert_array_equal(output, [[2]])


def test_logits_may_lie_further_apart_than_the_largest_float():
    mixture = gma_ref.GaussianMixture.from_unconstrained([[0.0], [1.0]], [[0.0], [0.0]], [1e308, -1e308])
    assert_array_equal(np.exp(mixture.log_prior), [1, 0])
