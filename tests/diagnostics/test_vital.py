"""Key mass and the vital signs of a head: by hand, by the memory that is read, and one by one."""

import numpy as np
import pytest

from gma_ref import affinity, attention_weights, read_memory, write_memory
from gma_ref.diagnostics import (
    component_information,
    dead_components,
    effective_slots,
    key_mass,
    usage,
    vital_signs,
)
from tests.diagnostics.examples import draw, hard


def test_key_mass_by_hand():
    queries, keys = np.array([[1, 0], [0.5, 0.5]]), np.array([[1, 0], [0.25, 0.75]])
    np.testing.assert_allclose(key_mass(queries, keys), [1.25, 1])
    np.testing.assert_allclose(key_mass(queries, keys, causal=True), [1, 1])
    np.testing.assert_array_equal(key_mass(hard([1, 0], 3), hard([0, 0, 2], 3)), [0, 2])


def test_key_mass_is_the_row_sum_of_the_affinity():
    q, k = draw(2, 3, 7, 5), draw(2, 3, 9, 5, seed=1)
    np.testing.assert_allclose(key_mass(q, k), affinity(q, k).sum(-1), rtol=1e-12)
    k = k[..., :7, :]
    below = np.tril(affinity(q, k)).sum(-1)
    np.testing.assert_allclose(key_mass(q, k, causal=True), below, rtol=1e-12)
    weights = attention_weights(q, k, causal=True, eps=0.5)
    np.testing.assert_allclose(weights.sum(-1), below / (below + 0.5), rtol=1e-12)


def test_key_mass_says_how_far_epsilon_shrinks_an_output():
    q, k = draw(6, 4), draw(8, 4, seed=1)
    output = read_memory(q, write_memory(k, np.ones((8, 1))), eps=0.1)[:, 0]
    np.testing.assert_allclose(output, key_mass(q, k) / (key_mass(q, k) + 0.1), rtol=1e-12)


def test_vital_signs_by_hand():
    queries = hard([0, 0, 1, 1], 4)  # nobody is in the last two
    keys = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]])
    signs = vital_signs(queries, keys)
    assert signs.entropy_q == 0
    assert signs.entropy_k == pytest.approx(0.5)  # log 2 of log 4
    assert signs.effective == pytest.approx(2)
    assert (signs.dead, signs.key_mass) == (2, 1)
    assert signs.distinct == 4  # an empty column is like no other
    alike = np.full((5, 4), 0.25)
    assert vital_signs(alike, alike)[:5] == pytest.approx((1, 1, 4, 0, 1))


def test_vital_signs_are_those_of_the_single_functions():
    q, k = draw(3, 6, 5), draw(3, 8, 5, seed=1)
    both = np.concatenate([q.reshape(-1, 5), k.reshape(-1, 5)])
    signs = vital_signs(q, k)
    assert signs.entropy_q == pytest.approx(component_information(q.reshape(-1, 5)).conditional / np.log(5))
    assert signs.entropy_k == pytest.approx(component_information(k.reshape(-1, 5)).conditional / np.log(5))
    assert signs.effective == pytest.approx(effective_slots(both))
    assert signs.dead == dead_components(both).sum()
    assert signs.key_mass == pytest.approx(min((q[b] @ k[b].sum(0)).min() for b in range(3)))
    assert vital_signs(q, k[:, :6], causal=True).key_mass < signs.key_mass


def test_a_component_that_is_split_in_two_is_counted_once():
    gamma = draw(40, 4)
    split = np.concatenate([gamma[:, :3], np.repeat(gamma[:, 3:] / 2, 2, axis=1)], axis=1)
    assert vital_signs(gamma, gamma).distinct == vital_signs(split, split).distinct == 4
    assert usage(split)[3] == usage(split)[4]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"K"):
        vital_signs(draw(5, 3), draw(5, 4))
    with pytest.raises(ValueError, match=r"^causal=True must get as many queries as keys"):
        key_mass(draw(5, 3), draw(4, 3), causal=True)
    with pytest.raises(TypeError, match=r"^causal must be"):
        vital_signs(draw(5, 3), draw(5, 3), causal="yes")
    with pytest.raises(ValueError, match=r"^gamma must hold shares"):
        vital_signs(np.log(draw(5, 3)), draw(5, 3))
    with pytest.raises(ValueError, match=r"at least one row each, got 5 and 0$"):
        vital_signs(draw(5, 3), np.zeros((0, 3)))
