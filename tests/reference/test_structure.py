"""The structure of memory and weights: S1-S5, slot means, effective rank."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests import oracles
from tests.examples import draw, draw_responsibilities

MASK = np.array([True, False, True, True, False, True])
both_modes = pytest.mark.parametrize("causal", [False, True])
every_eps = pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
masks = pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])


def rank(matrix):
    return np.linalg.matrix_rank(matrix, tol=1e-10)


# S1-S4: the weights


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@both_modes
@every_eps
@masks
def test_rows_of_the_weights_sum_to_less_than_one_by_eps(mask, eps, causal, batch):
    gamma_q, gamma_k, _ = draw_responsibilities(batch=batch)
    overlap = oracles.affinity(gamma_q, gamma_k)
    assert ((overlap >= 0) & (overlap <= 1)).all()
    seen = np.tri(6, dtype=bool) if causal else np.ones((6, 6), bool)
    reached = np.where(seen if mask is None else seen & mask, overlap, 0).sum(axis=-1)
    weights = gma_ref.attention_weights(gamma_q, gamma_k, causal=causal, eps=eps, key_mask=mask)
    assert (weights >= 0).all()
    assert_allclose(weights.sum(axis=-1), reached / (reached + eps), rtol=1e-13)


@both_modes
def test_outputs_stay_between_the_values_and_zero(causal):
    q, k, v, mixture = draw()
    for eps in (0.0, 1e-6, 0.5):
        output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=eps)
        corners = np.concatenate([v, np.zeros((2, 1, 5))] if eps else [v], axis=1)
        directions = np.random.default_rng(0).normal(size=(5, 200))
        assert ((output @ directions).max(axis=1) <= (corners @ directions).max(axis=1) + 1e-12).all()


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@masks
@every_eps
def test_weights_are_of_low_rank_and_causally_in_blocks(eps, mask, batch):
    # the factors themselves: K columns on the left, K rows on the right
    gamma_q, gamma_k, _ = draw_responsibilities(K=2, batch=batch)
    key_factor = gamma_k if mask is None else np.where(mask[:, None], gamma_k, 0)
    for causal in (False, True):
        mass = np.cumsum(key_factor, axis=-2) if causal else key_factor.sum(axis=-2, keepdims=True)
        query_factor = gamma_q / ((gamma_q * mass).sum(axis=-1, keepdims=True) + eps)
        weights = gma_ref.attention_weights(gamma_q, gamma_k, causal=causal, eps=eps, key_mask=mask)
        for t in range(1, 6) if causal else [0]:
            block = weights[..., t:, :t] if causal else weights
            seen = key_factor[..., :t, :] if causal else key_factor
            assert_allclose(block, np.einsum("...ik,...jk->...ij", query_factor[..., t:, :], seen), rtol=1e-12)
            assert (rank(block) <= 2).all()


@pytest.mark.parametrize("K", [1, 2, 5])
@masks
def test_bidirectional_rank_is_at_most_the_number_of_components(mask, K):
    gamma_q, gamma_k, v = draw_responsibilities(N=9, N_k=6, K=K, d_v=7, batch=())
    overlap = gma_ref.affinity(gamma_q, gamma_k if mask is None else np.where(mask[:, None], gamma_k, 0))
    expected = min(K, 6 if mask is None else mask.sum())
    assert rank(overlap) == expected
    for eps in (0.0, 1e-6, 0.5):  # a positive scaling of the rows
        weights = gma_ref.attention_weights(gamma_q, gamma_k, eps=eps, key_mask=mask)
        assert rank(weights) == expected
        assert rank(weights @ v) <= expected
        assert 1 <= gma_ref.effective_rank(weights) <= expected + 1e-9


def test_fewer_tokens_than_components_bound_the_rank_too():
    gamma_q, gamma_k, _ = draw_responsibilities(N=3, N_k=8, K=6, batch=())
    assert rank(gma_ref.affinity(gamma_q, gamma_k)) == 3
    assert rank(gma_ref.affinity(gamma_k, gamma_q)) == 3


@pytest.mark.parametrize("K", [1, 2, 3])
def test_causal_weights_have_full_rank_and_blocks_of_low_rank(K):
    gamma_q, gamma_k, _ = draw_responsibilities(N=12, K=K, batch=())
    for eps in (0.0, 1e-6, 0.5):
        weights = gma_ref.attention_weights(gamma_q, gamma_k, causal=True, eps=eps)
        assert (np.diag(weights) > 0).all()
        assert_array_equal(weights, np.tril(weights))
        assert rank(weights) == 12
        for t in range(11):
            assert rank(weights[t + 1 :, : t + 1]) == min(K, t + 1, 11 - t)
            assert rank(weights[t:, : t + 1]) == min(K, t + 1, 12 - t)  # with the diagonal
    # a masked key is a column of zeros: the rank falls by one for each
    mask = np.arange(12) % 3 > 0
    masked = gma_ref.attention_weights(gamma_q, gamma_k, causal=True, key_mask=mask)
    assert rank(masked) <= mask.sum()
    if K > 1:
        assert rank(masked) == mask.sum()


@masks
def test_slots_share_out_the_keys(mask):
    _, gamma_k, v = draw_responsibilities()
    takes_part = np.ones(6, bool) if mask is None else mask
    memory = gma_ref.write_memory(gamma_k, v, mask)
    assert_allclose(memory.Z.sum(axis=-1), takes_part.sum(), rtol=1e-14)
    assert_allclose(memory.V_tilde.sum(axis=-2), v[:, takes_part].sum(axis=-2), rtol=1e-12)  # and their values
    prefixes = gma_ref.prefix_memory(gamma_k, v, mask)
    expected = np.broadcast_to(np.cumsum(takes_part), (2, 6))
    assert_allclose(prefixes.Z.sum(axis=-1), expected, rtol=1e-14)


# S5: slot means


@every_eps
@masks
def test_slot_means_are_means_with_eps_keys_of_value_zero(mask, eps):
    _, gamma_k, v = draw_responsibilities()
    means = gma_ref.slot_means(gma_ref.write_memory(gamma_k, v, mask), eps)
    for b, k, c in np.ndindex(means.shape):
        keys = np.flatnonzero(np.ones(6) if mask is None else mask)
        weights = [*gamma_k[b, keys, k], eps]
        expected = np.average([*v[b, keys, c], 0], weights=weights)
        assert_allclose(means[b, k, c], expected, rtol=1e-12)


@both_modes
@every_eps
@masks
def test_outputs_are_mixtures_of_slot_means(mask, eps, causal):
    q, k, v, mixture = draw()
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    memory = (gma_ref.prefix_memory if causal else gma_ref.write_memory)(gamma_k, v, mask)
    means = gma_ref.slot_means(memory, eps)
    weights = gamma_q * (memory.Z if causal else memory.Z[:, None]) + gamma_q * eps
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = np.einsum("bik,bikc->bic" if causal else "bik,bkc->bic", weights, means)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=eps, key_mask=mask)
    assert_allclose(output, mixed, rtol=1e-11, atol=1e-14)


def test_an_empty_slot_has_the_mean_zero():
    memory = gma_ref.Memory(np.array([[0.0, 0], [4, 6]]), np.array([0.0, 2]))
    assert_array_equal(gma_ref.slot_means(memory, eps=0), [[0, 0], [2, 3]])
    assert_allclose(gma_ref.slot_means(memory, eps=0.5), [[0, 0], [1.6, 2.4]])
    tiny = gma_ref.Memory(np.array([[3e-310]]), np.array([1e-310]))
    assert_allclose(gma_ref.slot_means(tiny, eps=0), 3, rtol=1e-10)


# Effective rank


def test_effective_rank_counts_equal_singular_values():
    rng = np.random.default_rng(0)
    for r in range(1, 5):
        left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0][:, :r] for n in (5, 7))
        assert_allclose(gma_ref.effective_rank(3.7 * left @ right.T), r, rtol=1e-6)
    assert_allclose(gma_ref.effective_rank(np.diag([2.0, 1.0])), np.exp(np.log(3) - 2 / 3 * np.log(2)), rtol=1e-12)


def test_effective_rank_is_the_exponential_of_the_entropy():
    matrices = np.random.default_rng(0).normal(size=(3, 2, 4, 6))
    found = gma_ref.effective_rank(matrices)
    for b in np.ndindex(3, 2):
        # singular values from the eigenvalues of A Aᵀ
        singular = np.sqrt(np.linalg.eigvalsh(matrices[b] @ matrices[b].T))
        share = singular / singular.sum()
        assert_allclose(found[b], np.prod(share**-share), rtol=1e-10)
        assert_allclose(gma_ref.effective_rank(matrices[b[0]]), found[b[0]], rtol=1e-12)
    assert_allclose(gma_ref.effective_rank(1e-200 * matrices), found, rtol=1e-10)
    assert_allclose(gma_ref.effective_rank(np.swapaxes(matrices, -1, -2)), found, rtol=1e-10)


def test_matrix_of_nothing_has_effective_rank_zero():
    assert gma_ref.effective_rank(np.zeros((3, 4))) == 0
    assert gma_ref.effective_rank(np.zeros((0, 4))) == 0
    assert_array_equal(gma_ref.effective_rank(np.zeros((2, 0, 4))), [0, 0])
    assert gma_ref.effective_rank(np.zeros((0, 3, 4))).shape == (0,)
    assert_allclose(gma_ref.effective_rank(np.stack([np.zeros((3, 3)), np.eye(3)])), [0, 3])


def test_unused_and_equal_components_lower_the_effective_rank():
    # S4: at most K, and less where a component is unused or two are alike
    gamma_q, gamma_k, _ = draw_responsibilities(N=40, N_k=50, K=4, batch=())
    whole = gma_ref.effective_rank(gma_ref.affinity(gamma_q, gamma_k))
    assert 1 < whole < 4
    alike = [
        np.stack([g[:, 0], g[:, 1], g[:, 2:].mean(axis=1), g[:, 2:].mean(axis=1)], axis=1) for g in (gamma_q, gamma_k)
    ]
    assert rank(gma_ref.affinity(*alike)) == 3
    assert gma_ref.effective_rank(gma_ref.affinity(*alike)) < whole


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_effective_rank_of_numbers_that_are_none_is_refused(value):
    with pytest.raises(ValueError, match=f"^matrix must be finite, got {value}$"):
        gma_ref.effective_rank([[1.0, value]])


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e308, np.finfo(float).max])
def test_effective_rank_does_not_depend_on_the_unit(size):
    assert_allclose(gma_ref.effective_rank(size * np.eye(4)), 4, rtol=1e-12)
    assert_allclose(gma_ref.effective_rank(np.full((3, 5), size)), 1, rtol=1e-12)
