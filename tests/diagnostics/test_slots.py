"""Usage, the effective number of slots, and dead components: by hand, by other formulas, and at the edges."""

import numpy as np
import pytest

from gma_ref import affinity, write_memory
from gma_ref.diagnostics import dead_components, effective_slots, usage
from tests.diagnostics.examples import draw, hard

# Z = (2, 1, 1) of N = 4
BY_HAND = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.75]])


def test_usage_is_the_mass_of_the_memory_over_the_number_of_tokens():
    np.testing.assert_allclose(usage(BY_HAND), [0.5, 0.25, 0.25], rtol=1e-15)
    gamma = draw(2, 3, 50, 7)
    memory = write_memory(gamma, np.zeros((50, 1)))
    np.testing.assert_allclose(usage(gamma), memory.Z / 50, rtol=1e-12)


def test_effective_slots_are_the_inverse_of_the_mean_affinity():
    np.testing.assert_allclose(effective_slots(BY_HAND), 8 / 3, rtol=1e-15)
    for seed in range(3):
        gamma = draw(40, 6, seed=seed)
        np.testing.assert_allclose(effective_slots(gamma), 1 / affinity(gamma, gamma).mean(), rtol=1e-12)


def test_effective_slots_lie_between_one_and_the_number_of_components():
    for seed in range(20):
        K = seed % 7 + 1
        number = effective_slots(draw(4, 9, K, concentration=0.05 + seed / 10, seed=seed))
        assert ((number >= 1 - 1e-12) & (number <= K)).all()
    assert effective_slots(hard([3] * 5, 8)) == 1
    for K in (1, 2, 3, 7, 49, 1000):
        assert effective_slots(np.full((5, K), 1 / K)) == pytest.approx(K, rel=1e-12)
        assert effective_slots(np.full((5, K), 1 / K)) <= K


def test_taking_from_the_rich_and_giving_to_the_poor_raises_the_effective_number():
    share = np.array([0.5, 0.3, 0.15, 0.05])
    moved = share + 0.1 * np.array([-1, 0, 0, 1])
    assert effective_slots(share[None]) < effective_slots(moved[None]) < 4


def test_splitting_a_component_in_equal_parts_multiplies_what_is_counted():
    gamma = draw(30, 4)
    np.testing.assert_allclose(effective_slots(np.repeat(gamma, 3, axis=-1) / 3), 3 * effective_slots(gamma))


def test_masked_tokens_are_not_counted_whatever_they_hold():
    gamma, mask = draw(2, 3, 20, 5), np.random.default_rng(1).random(20) < 0.6
    poisoned = np.where(mask[:, None], gamma, np.nan)
    for function in (usage, effective_slots, dead_components):
        np.testing.assert_array_equal(function(poisoned, mask), function(gamma[..., mask, :]))
    each = np.random.default_rng(2).random((2, 1, 20)) < 0.5
    for b in range(2):
        np.testing.assert_allclose(usage(gamma, each)[b], usage(gamma[b][:, each[b, 0]]), rtol=1e-12)


def test_leading_axes_are_each_alone():
    gamma = draw(2, 3, 10, 4)
    for function in (usage, effective_slots, dead_components):
        alone = [[function(gamma[b, h]) for h in range(3)] for b in range(2)]
        np.testing.assert_array_equal(function(gamma), alone)


def test_dead_are_those_below_a_part_of_an_equal_share():
    share = np.array([0.4, 0.3, 0.29, 0.01])  # 0.01 is 4 % of an equal share
    np.testing.assert_array_equal(dead_components(share[None], threshold=0.041), [False, False, False, True])
    assert not dead_components(share[None], threshold=0.039).any()
    assert not dead_components(share[None]).any()
    assert not dead_components(np.array([[1.0, 0.0]]), threshold=0).any()
    np.testing.assert_array_equal(dead_components(hard([0, 2, 2], 4)), [False, True, False, True])


@pytest.mark.parametrize("K", [2, 8, 512])
def test_the_threshold_means_the_same_for_every_number_of_components(K):
    rest = np.full(K - 1, (1 - 0.009 / K) / (K - 1))
    np.testing.assert_array_equal(dead_components([[0.009 / K, *rest]]), np.arange(K) == 0)
    assert not dead_components(np.full((3, K), 1 / K), threshold=0.999).any()


def test_without_tokens_nothing_is_used():
    np.testing.assert_array_equal(usage(np.zeros((2, 0, 3))), np.zeros((2, 3)))
    np.testing.assert_array_equal(effective_slots(np.zeros((2, 0, 3))), [0, 0])
    assert dead_components(np.zeros((0, 3))).all()
    np.testing.assert_array_equal(usage(draw(4, 3), [False] * 4), [0, 0, 0])
    assert usage(np.zeros((0, 5, 3))).shape == (0, 3)


def test_one_token_and_one_component():
    np.testing.assert_array_equal(usage([[0.25, 0.75]]), [0.25, 0.75])
    np.testing.assert_array_equal(usage([[1], [1]]), [1])
    assert effective_slots([[1], [1]]) == 1
    assert not dead_components([[1.0]]).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble])
def test_other_precisions_are_counted_in_float64(dtype):
    gamma = draw(200, 64).astype(dtype)
    share = usage(gamma)
    assert share.dtype == np.float64
    assert share.sum() == pytest.approx(1, abs=1e-14)  # what rounding took from the rows is shared out
    np.testing.assert_allclose(share, usage(np.float64(gamma)), rtol=1e-12)


def test_rows_with_the_bits_of_bfloat16_are_taken():
    """Seven bits after the leading one: each number is off by up to one part in 2^8, all in one direction at worst."""
    rows = draw(5_000, 3)
    exact = rows.astype(np.float32).view(np.uint32)
    short = ((exact + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    assert np.abs(short.sum(axis=-1) - 1).max() > 1e-3
    np.testing.assert_allclose(usage(short), usage(rows), atol=1e-3)
    np.testing.assert_allclose(usage([[0.5015, 0.5015], [0.4985, 0.4985]]), 0.5)
