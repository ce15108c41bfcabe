"""The permutation test: exact on small cases, unbiased on random labels, honest about neighbours that are alike."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from gma_ref.diagnostics import alignment, permutation_test
from tests.diagnostics.examples import draw, hard


def labels(count, kinds, seed):
    return np.random.default_rng(seed).integers(0, kinds, count)


def unrelated(count, seed, **options):
    """Test random labels against random responsibilities; nothing of the three is drawn alike."""
    gamma, categories = draw(count, 4, seed=[1, seed]), labels(count, 3, [2, seed])
    return permutation_test(gamma, categories, permutations=99, seed=[3, seed], **options)


def looks_uniform(p):
    """Tell whether p-values from {1, ..., 100} / 100 are as likely as each other."""
    spread = p - np.random.default_rng(0).random(len(p)) / 100
    return stats.kstest(spread, "uniform").pvalue > 0.01


def test_it_draws_from_all_permutations():
    """Six tokens have 720 permutations: their mean, scatter and tail are what the sample should find."""
    gamma, categories = draw(6, 3, seed=4), np.array([0, 0, 0, 1, 1, 2])
    every = [alignment(gamma, categories[list(order)]) for order in permutations(range(6))]
    found = permutation_test(gamma, categories, permutations=20_000)
    for name in ("mutual_information", "purity"):
        values = np.array([getattr(one, name) for one in every])
        observed = getattr(alignment(gamma, categories), name)
        mean, sd = getattr(found.mean, name), getattr(found.sd, name)
        assert getattr(found.observed, name) == pytest.approx(observed, rel=1e-12)
        assert abs(mean - values.mean()) < 4 * values.std() / np.sqrt(20_000)
        assert sd == pytest.approx(values.std(), rel=0.03)
        assert getattr(found.p_value, name) == pytest.approx((values >= observed - 1e-12).mean(), abs=0.015)


def test_observed_is_the_alignment():
    gamma, categories = draw(2, 3, 40, 5), labels(40, 4, 0)
    mask = np.arange(40) % 4 > 0
    np.testing.assert_allclose(
        permutation_test(gamma, categories, mask, permutations=2).observed,
        alignment(gamma, categories, mask),
        rtol=1e-9,
    )


def test_p_values_count_the_observed_one_among_the_permutations():
    categories = labels(60, 3, 0)
    perfect = permutation_test(hard(categories), categories, permutations=99)
    np.testing.assert_allclose(perfect.p_value, 0.01)  # (1 + 0) / (1 + 99), never 0
    blind = permutation_test(np.full((60, 4), 0.25), categories, permutations=99)
    np.testing.assert_allclose(blind.p_value, 1)  # every permutation gives as much
    np.testing.assert_allclose(blind.sd, 0, atol=1e-12)


def test_random_labels_give_uniform_p_values_and_no_adjusted_alignment():
    """Pairs without any relation: a bias of a fifth of the scatter would show."""
    found = [unrelated(60, seed) for seed in range(400)]
    for name in ("mutual_information", "purity"):
        p = np.array([getattr(one.p_value, name) for one in found])
        if name == "mutual_information":  # purity has ties, which make p larger
            assert looks_uniform(p)
        for level in (0.01, 0.05, 0.1, 0.5):
            assert (p <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / 400)
        z = np.array([(getattr(one.observed, name) - getattr(one.mean, name)) / getattr(one.sd, name) for one in found])
        assert abs(z.mean()) < 4 / np.sqrt(400)
        assert z.std() == pytest.approx(1, abs=0.15)
    for name in ("adjusted_information", "adjusted_purity"):
        adjusted = np.array([getattr(one, name) for one in found])
        assert abs(adjusted.mean()) < 4 * adjusted.std() / np.sqrt(400)
    # while the raw information is far from 0
    assert np.mean([one.observed.mutual_information for one in found]) > 5 * 0.001


@pytest.mark.parametrize("seed", range(4))
def test_adjusted_information_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    categories = rng.integers(0, 4, 120)
    components = np.where(rng.random(120) < seed / 3, categories, rng.integers(0, 6, 120))
    expected = metrics.adjusted_mutual_info_score(categories, components)
    found = permutation_test(hard(components), categories, permutations=2000)
    assert found.adjusted_information == pytest.approx(expected, abs=0.004)
    chance = metrics.cluster.expected_mutual_information(
        metrics.cluster.contingency_matrix(categories, components, sparse=True), 120
    )
    assert found.mean.mutual_information == pytest.approx(chance, rel=0.02)


def test_alignment_cannot_be_more_than_one_nor_adjusted():
    categories = labels(80, 4, 0)
    found = permutation_test(hard(categories), categories, permutations=50)
    assert found.adjusted_information == pytest.approx(1)
    assert found.adjusted_purity == pytest.approx(1)


def slow(seed, length=400, kinds=3, stay=0.95):
    """Return labels that keep their value for twenty tokens on average."""
    rng = np.random.default_rng(seed)
    fresh = rng.random(length) > stay
    fresh[0] = True
    return rng.integers(0, kinds, length)[np.maximum.accumulate(np.where(fresh, np.arange(length), 0))]


def test_neighbours_that_are_alike_deceive_single_tokens_but_not_blocks():
    """Responsibilities and categories change slowly and have nothing to do with each other."""
    rejected = {1: 0, 50: 0}
    for seed in range(60):
        gamma = 0.9 * hard(slow(seed, kinds=4), 4) + 0.025
        for block in rejected:
            p = permutation_test(gamma, slow(seed + 1_000), block=block, permutations=99).p_value
            rejected[block] += p.mutual_information <= 0.05
    assert rejected[1] > 40
    assert rejected[50] < 12


def test_blocks_of_random_labels_give_uniform_p_values_too():
    sequences = np.arange(63) // 21
    found = [unrelated(63, seed, block=5, sequences=sequences) for seed in range(300)]
    assert looks_uniform(np.array([one.p_value.mutual_information for one in found]))


def test_categories_stay_in_their_sequence():
    """Each sequence has a category and a component of its own: within sequences nothing can be exchanged."""
    sequences = np.repeat(["one", "two", "three"], 10)
    categories = np.repeat([0, 1, 2], 10)
    order = np.random.default_rng(0).permutation(30)  # a sequence need not stand together
    found = permutation_test(hard(categories)[order], categories[order], sequences=sequences[order], permutations=19)
    np.testing.assert_allclose(found.p_value, 1)
    np.testing.assert_allclose(found.mean, found.observed, rtol=1e-12)
    assert found.adjusted_information == pytest.approx(0)
    np.testing.assert_allclose(permutation_test(hard(categories), categories, permutations=19).p_value, 0.05)


def test_a_block_keeps_its_categories_together():
    """Alternating tokens in blocks of two: whatever the order of blocks, even places stay even."""
    categories = np.tile([0, 1], 20)
    found = permutation_test(hard(categories), categories, block=2, permutations=19)
    np.testing.assert_allclose(found.p_value, 1)
    np.testing.assert_allclose(found.mean.purity, 1)


def test_what_is_left_over_is_not_counted():
    gamma, categories = draw(23, 4), labels(23, 3, 1)
    found = permutation_test(gamma, categories, block=5, permutations=9)
    np.testing.assert_allclose(found.observed, alignment(gamma[:20], categories[:20]), rtol=1e-12)
    sequences = np.array([1] * 7 + [0] * 3 + [2] * 13)  # 5, none and 10 are left
    kept = np.r_[0:5, 10:20]
    found = permutation_test(gamma, categories, block=5, sequences=sequences, permutations=9)
    np.testing.assert_allclose(found.observed, alignment(gamma[kept], categories[kept]), rtol=1e-12)


def test_masked_tokens_take_no_part_in_the_exchange():
    gamma, categories = draw(2, 30, 3), labels(30, 3, 0)
    mask = np.arange(30) % 3 > 0
    poisoned, marked = np.where(mask[:, None], gamma, np.nan), np.where(mask, categories, 99)
    sequences = np.arange(30) // 15
    found = permutation_test(poisoned, marked, mask, block=2, sequences=sequences, permutations=9)
    expected = permutation_test(gamma[:, mask], categories[mask], block=2, sequences=sequences[mask], permutations=9)
    for one, other in zip(found[:4], expected[:4], strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_seed_decides_and_pieces_of_the_work_do_not(monkeypatch):
    gamma, categories = draw(2, 50, 3), labels(50, 4, 0)
    found, again, other = (permutation_test(gamma, categories, permutations=20, seed=s) for s in (7, 7, 8))
    np.testing.assert_array_equal(found.mean, again.mean)
    assert (found.mean.mutual_information != other.mean.mutual_information).all()
    generator = permutation_test(gamma, categories, permutations=20, seed=np.random.default_rng(7))
    np.testing.assert_array_equal(found.mean, generator.mean)
    monkeypatch.setattr("gma_ref.diagnostics.permutations.AT_ONCE", 3 * 50 * 4)
    np.testing.assert_allclose(
        permutation_test(gamma, categories, permutations=20, seed=7).mean, found.mean, rtol=1e-12
    )


def test_nothing_to_compare():
    for gamma, categories in [(np.zeros((2, 0, 3)), []), (np.ones((5, 1)), "abcab"), ([[0.2, 0.8]], "a")]:
        found = permutation_test(gamma, categories, permutations=9)
        np.testing.assert_array_equal(found.p_value, np.ones((5, *np.shape(gamma)[:-2])))
        np.testing.assert_array_equal(found.adjusted_information, 0)
        np.testing.assert_array_equal(found.sd.mutual_information, 0)
