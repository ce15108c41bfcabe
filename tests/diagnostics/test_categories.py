"""Alignment with categories: tables by hand, scores against scikit-learn where assignments are hard."""

import numpy as np
import pytest
from sklearn import metrics

from gma_ref.diagnostics import alignment, contingency
from tests.diagnostics.examples import draw, hard

BY_HAND = np.array([[1, 0], [0.5, 0.5], [0.25, 0.75], [0, 1]])
LABELS = ["b", "a", "b", "b"]


def purity(components, categories):
    """Count the tokens of the most common category of each component."""
    table = metrics.cluster.contingency_matrix(categories, components)
    return table.max(axis=0).sum() / table.sum()


def test_table_by_hand():
    names, table = contingency(BY_HAND, LABELS)
    assert names.tolist() == ["a", "b"]
    np.testing.assert_allclose(table, [[0.5, 1.25], [0.5, 1.75]], rtol=1e-15)


def test_scores_by_hand():
    found = alignment(BY_HAND, LABELS)
    joint = np.array([[0.5, 1.25], [0.5, 1.75]]) / 4
    components, categories = [0.4375, 0.5625], [0.25, 0.75]
    information = sum(
        joint[k, c] * np.log(joint[k, c] / (components[k] * categories[c])) for k in range(2) for c in range(2)
    )
    H_z, H_c = (-sum(p * np.log(p) for p in shares) for shares in (components, categories))
    expected = [information, information / H_c, information / H_z, 2 * information / (H_z + H_c), 3 / 4]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_hard_assignments_have_the_scores_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    categories = rng.integers(0, 5, 300)
    components = np.where(rng.random(300) < seed / 5, categories, rng.integers(0, 8, 300))
    found = alignment(hard(components, 9), categories)
    np.testing.assert_allclose(
        found.mutual_information, metrics.mutual_info_score(categories, components), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(found.homogeneity, metrics.homogeneity_score(categories, components), rtol=1e-9)
    np.testing.assert_allclose(found.completeness, metrics.completeness_score(categories, components), rtol=1e-9)
    np.testing.assert_allclose(found.normalised, metrics.v_measure_score(categories, components), rtol=1e-9)
    np.testing.assert_allclose(
        found.normalised, metrics.normalized_mutual_info_score(categories, components), rtol=1e-9
    )
    np.testing.assert_allclose(found.purity, purity(components, categories), rtol=1e-12)


def test_table_is_that_of_scikit_learn_and_adds_up():
    rng = np.random.default_rng(0)
    categories, components = rng.integers(0, 5, 100), rng.integers(0, 4, 100)
    _, table = contingency(hard(components), categories)
    np.testing.assert_array_equal(table, metrics.cluster.contingency_matrix(components, categories))
    gamma = draw(2, 100, 4)
    _, table = contingency(gamma, categories)
    np.testing.assert_allclose(table.sum(axis=-1), gamma.sum(axis=-2))
    np.testing.assert_allclose(table.sum(axis=-2), [np.bincount(categories)] * 2)


def test_soft_responsibilities_are_drawn_assignments_on_average():
    """Many copies of each token, each assigned by chance, are counted by scikit-learn."""
    rng = np.random.default_rng(0)
    gamma, categories = draw(20, 3), rng.integers(0, 3, 20)
    drawn = np.concatenate([rng.choice(3, size=4000, p=row) for row in gamma])
    repeated = np.repeat(categories, 4000)
    found = alignment(gamma, categories)
    np.testing.assert_allclose(found.mutual_information, metrics.mutual_info_score(repeated, drawn), rtol=0.03)
    np.testing.assert_allclose(found.purity, purity(drawn, repeated), rtol=0.01)


def test_perfect_alignment_is_one_and_constant_responsibilities_know_nothing():
    categories = np.random.default_rng(0).integers(0, 4, 50)
    np.testing.assert_allclose(alignment(hard(categories), categories)[1:], 1, rtol=1e-12)
    even = alignment(np.full((50, 3), 1 / 3), categories)
    np.testing.assert_allclose(even[:4], 0, atol=1e-12)
    np.testing.assert_allclose(even.purity, np.bincount(categories).max() / 50)


@pytest.mark.parametrize("seed", range(8))
def test_scores_stay_within_their_bounds(seed):
    rng = np.random.default_rng(seed)
    categories = rng.integers(0, 4, 40)
    found = alignment(draw(3, 40, 2 * seed + 1, concentration=0.05, seed=seed), categories)
    for entry in found[1:]:
        assert ((entry >= 0) & (entry <= 1)).all()
    assert (found.purity >= np.bincount(categories).max() / 40 - 1e-12).all()


def test_dividing_a_component_changes_no_information_and_no_purity():
    gamma, categories = draw(60, 3), np.random.default_rng(1).integers(0, 4, 60)
    divided = np.concatenate([gamma[:, :2], gamma[:, 2:] * [0.3, 0.7]], axis=1)
    for entry in ("mutual_information", "purity", "homogeneity"):
        one, other = (getattr(alignment(array, categories), entry) for array in (gamma, divided))
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_labels_of_any_kind_name_the_same_categories():
    gamma, text = draw(8, 3), "to be or"
    expected = contingency(gamma, text)
    assert "".join(expected.categories) == " beort"
    for labels in (list(text), np.array(list(text)), np.array(list(text), dtype=object), text.encode()):
        table = contingency(gamma, np.frombuffer(labels, "S1") if isinstance(labels, bytes) else labels).table
        np.testing.assert_array_equal(table, expected.table)
    numbers = contingency(gamma, [ord(one) for one in text])
    np.testing.assert_array_equal(numbers.categories, sorted(map(ord, set(text))))
    np.testing.assert_array_equal(numbers.table, expected.table)
    np.testing.assert_array_equal(contingency(gamma, np.array([*text]) == " ").categories, [False, True])


def test_masked_tokens_are_not_counted_and_their_categories_need_not_occur():
    gamma, mask = draw(2, 6, 3), np.array([True, True, False, True, True, False])
    poisoned = np.where(mask[:, None], gamma, np.nan)
    names, table = contingency(poisoned, "aaxbby", mask)
    assert names.tolist() == ["a", "b"]
    expected = contingency(gamma[:, mask], "aabb")
    np.testing.assert_array_equal(table, expected.table)
    np.testing.assert_array_equal(alignment(poisoned, "aaxbby", mask), alignment(gamma[:, mask], "aabb"))


def test_nothing_to_agree_on_is_no_agreement():
    for gamma, categories in [
        (np.ones((5, 1)), "abcab"),  # one component
        (draw(5, 3), "aaaaa"),  # one category
        (draw(1, 3), "a"),  # one token
        (np.zeros((0, 3)), ""),
        (np.zeros((0, 3)), []),
    ]:
        np.testing.assert_array_equal(alignment(gamma, categories)[:4], 0)
    assert contingency(np.zeros((2, 0, 3)), []).table.shape == (2, 3, 0)
    assert alignment(np.zeros((2, 0, 3)), []).purity.shape == (2,)
    assert alignment(draw(5, 3), "aaaaa").purity == 1


def test_leading_axes_are_each_alone():
    gamma, categories = draw(2, 3, 20, 4), np.random.default_rng(0).integers(0, 3, 20)
    found = alignment(gamma, categories)
    for b in range(2):
        for h in range(3):
            one = [entry[b, h] for entry in found]
            np.testing.assert_allclose(one, alignment(gamma[b, h], categories), rtol=1e-12)
