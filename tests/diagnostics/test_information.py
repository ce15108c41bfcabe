"""Entropies and information: by hand, against SciPy, and what must hold between them."""

import numpy as np
import pytest
from scipy import stats

from gma_ref.diagnostics import alignment, component_information, effective_slots, responsibility_entropy, usage
from tests.diagnostics.examples import draw, hard

LN2 = np.log(2)


def test_entropies_by_hand():
    gamma = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.25, 0.25, 0]]
    nats = np.array([0, 1, 2, 1.5]) * LN2
    np.testing.assert_allclose(responsibility_entropy(gamma), nats, rtol=1e-15)
    np.testing.assert_allclose(responsibility_entropy(gamma, normalised=True), nats / (2 * LN2), rtol=1e-15)


def test_entropies_are_those_of_scipy():
    gamma = draw(2, 3, 40, 7, concentration=0.1)
    np.testing.assert_allclose(responsibility_entropy(gamma), stats.entropy(gamma, axis=-1), rtol=1e-11, atol=1e-14)
    found = component_information(gamma)
    np.testing.assert_allclose(found.marginal, stats.entropy(usage(gamma), axis=-1), rtol=1e-12)
    np.testing.assert_allclose(found.conditional, stats.entropy(gamma, axis=-1).mean(axis=-1), rtol=1e-12)
    # the information is the mean divergence of a token's responsibilities from the usage
    divergence = stats.entropy(gamma, usage(gamma)[..., None, :], axis=-1).mean(axis=-1)
    np.testing.assert_allclose(found.mutual, divergence, rtol=1e-10)


def test_information_by_hand():
    decided = component_information(hard([0, 1, 2, 3]))
    np.testing.assert_allclose(decided, [2 * LN2, 0, 2 * LN2], rtol=1e-15)
    spread = component_information(np.full((6, 4), 0.25))
    np.testing.assert_allclose(spread, [2 * LN2, 2 * LN2, 0], rtol=1e-15)
    half = component_information([[1, 0], [0.5, 0.5]])  # H(3/4, 1/4) and the mean of 0 and log 2
    np.testing.assert_allclose(half, [2 * LN2 - 0.75 * np.log(3), LN2 / 2, 1.5 * LN2 - 0.75 * np.log(3)], rtol=1e-14)


@pytest.mark.parametrize("seed", range(10))
def test_entropies_stay_within_their_bounds(seed):
    K = seed + 1
    gamma = draw(30, K, concentration=0.1 + seed, seed=seed)
    own, share = responsibility_entropy(gamma), responsibility_entropy(gamma, normalised=True)
    assert ((own >= 0) & (own <= np.log(K))).all()
    assert ((share >= 0) & (share <= 1)).all()
    marginal, conditional, mutual = component_information(gamma)
    assert 0 <= conditional <= marginal <= np.log(K) + 1e-12
    assert 0 <= mutual <= min(np.log(K), np.log(30)) + 1e-12
    # of the two effective numbers the entropy's is the larger
    assert effective_slots(gamma) <= np.exp(marginal) + 1e-12


def test_equal_responsibilities_have_the_largest_entropy_and_no_more():
    for K in (1, 2, 3, 7, 49, 1000):
        gamma = np.full((3, K), 1 / K)
        assert responsibility_entropy(gamma).max() <= np.log(K)
        np.testing.assert_allclose(responsibility_entropy(gamma, normalised=True), K > 1, rtol=1e-12)
        assert responsibility_entropy(gamma, normalised=True).max() <= 1
        assert component_information(gamma).mutual == pytest.approx(0, abs=1e-12)


def test_a_category_says_no_more_than_the_token():
    for seed in range(5):
        gamma, categories = draw(60, 5, seed=seed), np.random.default_rng(seed).integers(0, 4, 60)
        most = component_information(gamma).mutual
        assert alignment(gamma, categories).mutual_information < most
        np.testing.assert_allclose(alignment(gamma, np.arange(60)).mutual_information, most, rtol=1e-10)


def test_masked_tokens_have_no_entropy_and_are_in_no_mean():
    gamma, mask = draw(3, 20, 5), np.arange(20) % 3 > 0
    poisoned = np.where(mask[:, None], gamma, np.nan)
    found = responsibility_entropy(poisoned, mask)
    np.testing.assert_array_equal(found[:, ~mask], 0)
    np.testing.assert_array_equal(found[:, mask], responsibility_entropy(gamma[:, mask]))
    np.testing.assert_allclose(component_information(poisoned, mask), component_information(gamma[:, mask]), rtol=1e-12)


def test_without_tokens_and_with_one():
    assert responsibility_entropy(np.zeros((2, 0, 3))).shape == (2, 0)
    np.testing.assert_array_equal(component_information(np.zeros((2, 0, 3))), np.zeros((3, 2)))
    np.testing.assert_allclose(component_information([[0.5, 0.5]]), [LN2, LN2, 0], rtol=1e-15)
    np.testing.assert_array_equal(responsibility_entropy([[1.0]], normalised=True), [0])


def test_single_precision_is_taken_in_double():
    gamma = draw(50, 16)
    low = responsibility_entropy(np.float32(gamma))
    assert low.dtype == np.float64
    np.testing.assert_allclose(low, responsibility_entropy(gamma), rtol=1e-5)
