"""The latent memory, Eqs. (5)-(8) and (5b): written by keys, read by queries, continued piece by piece."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests import oracles
from tests.examples import draw_responsibilities

EXACT = {"rtol": 1e-12, "atol": 1e-14}
MASK = np.array([True, False, True, True, False, True])


def everyone(v):
    return np.ones(v.shape[-2], bool)


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_write_is_the_slow_loop(batch, mask):
    _, gamma_k, v = draw_responsibilities(batch=batch)
    V_tilde, Z = gma_ref.write_memory(gamma_k, v, mask)
    expected = oracles.write(gamma_k, v, everyone(v) if mask is None else mask)
    assert_allclose(V_tilde, expected[0], **EXACT)
    assert_allclose(Z, expected[1], **EXACT)


def test_each_slot_sums_its_values():
    # by hand: two heads, three tokens, two slots, values of width 2
    gamma_k = np.array([[[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]], [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]])
    v = np.array([[[2.0, 0.0], [0.0, 4.0], [4.0, 8.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    V_tilde, Z = gma_ref.write_memory(gamma_k, v)
    assert_array_equal(V_tilde, [[[3.0, 4.0], [3.0, 8.0]], [[5.0, 6.0], [4.0, 6.0]]])
    assert_array_equal(Z, [[1.75, 1.25], [1.0, 2.0]])


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_read_is_the_slow_loop(batch, eps):
    gamma_q, gamma_k, v = draw_responsibilities(batch=batch, N=3, N_k=7)
    memory = gma_ref.Memory(*oracles.write(gamma_k, v, everyone(v)))
    assert_allclose(gma_ref.read_memory(gamma_q, memory, eps), oracles.read(gamma_q, *memory, eps=eps), **EXACT)


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_prefix_memory_is_a_write_of_each_prefix(batch, mask):
    _, gamma_k, v = draw_responsibilities(batch=batch)
    V_tilde, Z = gma_ref.prefix_memory(gamma_k, v, mask)
    mask = everyone(v) if mask is None else mask
    assert V_tilde.shape == (*batch, 6, 4, 5)
    assert Z.shape == (*batch, 6, 4)
    for i in range(6):
        expected = oracles.write(gamma_k[..., : i + 1, :], v[..., : i + 1, :], mask[: i + 1])
        assert_allclose(V_tilde[..., i, :, :], expected[0], **EXACT)
        assert_allclose(Z[..., i, :], expected[1], **EXACT)


def test_reading_the_prefix_memories_is_the_causal_output():
    gamma_q, gamma_k, v = draw_responsibilities()
    prefixes = gma_ref.prefix_memory(gamma_k, v)
    output = gma_ref.read_memory(gamma_q[..., None, :], prefixes, eps=0.1)[..., 0, :]
    weights = oracles.weights(gamma_q, gamma_k, everyone(v), causal=True, eps=0.1)
    assert_allclose(output, oracles.combine(weights, v), **EXACT)


def test_row_that_reads_an_empty_slot_is_zero():
    gamma_q, gamma_k = np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]])
    memory = gma_ref.write_memory(gamma_k, [[3.0], [5.0]])
    assert_array_equal(memory.Z, [2, 0])
    assert_array_equal(gma_ref.read_memory(gamma_q, memory, eps=0), [[4], [0]])
    assert_array_equal(gma_ref.read_memory(gamma_q, memory, eps=2), [[2], [0]])


# Sequences in pieces


@pytest.mark.parametrize("cut", range(7))
def test_two_pieces_make_the_whole(cut):
    _, gamma_k, v = draw_responsibilities()
    start = gma_ref.write_memory(gamma_k[:, :cut], v[:, :cut])
    V_tilde, Z = gma_ref.update_memory(start, gamma_k[:, cut:], v[:, cut:])
    expected = oracles.write(gamma_k, v, everyone(v))
    assert_allclose(V_tilde, expected[0], **EXACT)
    assert_allclose(Z, expected[1], **EXACT)


def test_pieces_of_any_length_make_the_whole():
    rng = np.random.default_rng(0)
    for seed in range(20):
        N = 40
        gamma_q, gamma_k, v = draw_responsibilities(seed, N=N)
        mask = rng.random(N) < 0.8
        cuts = [0, *sorted(rng.integers(0, N + 1, size=rng.integers(0, 8))), N]
        memory = gma_ref.write_memory(gamma_k[:, :0], v[:, :0])
        for start, stop in pairwise(cuts):
            memory = gma_ref.update_memory(memory, gamma_k[:, start:stop], v[:, start:stop], mask[start:stop])
        expected = oracles.write(gamma_k, v, mask)
        assert_allclose(memory.V_tilde, expected[0], rtol=1e-12, atol=1e-13)
        assert_allclose(memory.Z, expected[1], rtol=1e-12)
        weights = oracles.weights(gamma_q, gamma_k, mask, causal=False, eps=1e-6)
        assert_allclose(gma_ref.read_memory(gamma_q, memory), oracles.combine(weights, v), rtol=1e-10, atol=1e-13)


def test_state_carries_its_normaliser():
    # one component: every output is a mean. Write (1, 2, 3), continue with (4, 5): 2.5, then 3.0
    one = np.ones((1, 1))
    memory = gma_ref.write_memory(np.ones((3, 1)), [[1], [2], [3]])
    outputs = []
    for value in (4, 5):
        memory = gma_ref.update_memory(memory, one, [[value]])
        outputs.append(gma_ref.read_memory(one, memory, eps=0).item())
    assert outputs == [2.5, 3.0]


def test_one_state_forks_into_two_continuations():
    gamma_q, gamma_k, v = draw_responsibilities()
    state = gma_ref.write_memory(gamma_k[:, :3], v[:, :3])
    before = [array.copy() for array in state]
    forks = [gma_ref.update_memory(state, gamma_k[:, 3:], sign * v[:, 3:]) for sign in (1, -1)]
    for array, old in zip(state, before, strict=True):
        assert_array_equal(array, old)
    for sign, fork in zip((1, -1), forks, strict=True):
        values = np.concatenate([v[:, :3], sign * v[:, 3:]], axis=1)
        expected = oracles.read(gamma_q, *oracles.write(gamma_k, values, everyone(v)), eps=1e-6)
        assert_allclose(gma_ref.read_memory(gamma_q, fork), expected, **EXACT)


def test_update_refuses_values_of_another_width():
    memory = gma_ref.write_memory(np.ones((3, 1)), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"v must have shape .* with d_v = 2 as in memory\.V_tilde, got"):
        gma_ref.update_memory(memory, np.ones((1, 1)), np.ones((1, 3)))
