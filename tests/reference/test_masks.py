"""Key masks: True means that a key takes part; masked keys write nothing, whatever they hold."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests import oracles
from tests.examples import draw, draw_responsibilities

ONE = gma_ref.GaussianMixture([[0.0]], [[1.0]], [0.0])  # one component: every output is a mean
MASK = np.array([True, False, True, True, False, True])
both_modes = pytest.mark.parametrize("causal", [False, True])


@both_modes
def test_true_keeps_a_key_in_values_and_in_the_normaliser(causal):
    x, v = np.zeros((4, 1)), np.array([[1.0], [2], [3], [4]])
    mask = np.array([True, True, False, False])
    before = [array.copy() for array in (x, v, mask)]
    output = gma_ref.gaussian_mixture_attention(x, x, v, ONE, causal=causal, eps=0, key_mask=mask)
    assert_array_equal(output[:, 0], [1, 1.5, 1.5, 1.5] if causal else 1.5)
    for array, old in zip((x, v, mask), before, strict=True):
        assert_array_equal(array, old)


@both_modes
def test_masked_attention_is_the_slow_loop(causal):
    q, k, v, mixture = draw()
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, key_mask=MASK)
    expected = oracles.gaussian_mixture_attention(q, k, v, mixture, causal=causal, takes_part=MASK)
    assert_allclose(output, expected, rtol=1e-11)


@both_modes
@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf])
def test_masked_keys_write_nothing_whatever_they_hold(held, causal):
    q, k, v, mixture = draw()
    clean = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, key_mask=MASK)
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    start = gma_ref.write_memory(gamma_k, v)
    results = [
        gma_ref.write_memory(gamma_k, v, MASK),
        gma_ref.prefix_memory(gamma_k, v, MASK),
        gma_ref.update_memory(start, gamma_k, v, MASK),
        (gma_ref.attention_weights(gamma_q, gamma_k, causal=causal, key_mask=MASK),),
    ]
    for array in (k, v, gamma_k):
        array[:, ~MASK] = held
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, key_mask=MASK)
    assert_array_equal(output, clean)
    again = [
        gma_ref.write_memory(gamma_k, v, MASK),
        gma_ref.prefix_memory(gamma_k, v, MASK),
        gma_ref.update_memory(start, gamma_k, v, MASK),
        (gma_ref.attention_weights(gamma_q, gamma_k, causal=causal, key_mask=MASK),),
    ]
    for result, old in zip(again, results, strict=True):
        for array, old_array in zip(result, old, strict=True):
            assert_array_equal(array, old_array)


def test_masking_a_key_is_leaving_it_out():
    q, k, v, mixture = draw()
    masked = gma_ref.gaussian_mixture_attention(q, k, v, mixture, key_mask=MASK)
    assert_allclose(masked, gma_ref.gaussian_mixture_attention(q, k[:, MASK], v[:, MASK], mixture), rtol=1e-13)


def test_padding_a_block_with_zeros_is_not_neutral_without_a_mask():
    # a key of zeros has responsibilities, like any other: only the mask keeps it out of the normaliser
    _, k, v, mixture = draw()
    k, v = (np.concatenate([array, np.zeros_like(array)], axis=1) for array in (k, v))
    gamma_k = gma_ref.responsibilities(k, mixture)
    assert_allclose(gma_ref.write_memory(gamma_k, v).Z.sum(axis=-1), 12, rtol=1e-14)
    masked = gma_ref.write_memory(gamma_k, v, np.arange(12) < 6)
    assert_allclose(masked.Z.sum(axis=-1), 6, rtol=1e-14)
    assert_allclose(masked.Z, gma_ref.write_memory(gamma_k[:, :6], v[:, :6]).Z, rtol=1e-14)


@both_modes
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_sequence_with_every_key_masked_reads_zero(eps, causal):
    q, k, v, mixture = draw()
    mask = np.array([[True] * 6, [False] * 6])
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=eps, key_mask=mask)
    assert_array_equal(output[1], 0)
    alone = gma_ref.gaussian_mixture_attention(q[0], k[0], v[0], mixture_of_batch(mixture, 0), causal=causal, eps=eps)
    assert_allclose(output[0], alone, rtol=1e-13)
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    weights = gma_ref.attention_weights(gamma_q, gamma_k, causal=causal, eps=eps, key_mask=mask)
    assert_array_equal(weights[1], 0)


def mixture_of_batch(mixture, b):
    return gma_ref.GaussianMixture(mixture.mu[b], mixture.variance[b], mixture.log_prior[b])


def test_causal_rows_before_the_first_key_are_zero():
    q, k, v, mixture = draw()
    mask = np.arange(6) >= 3
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=True, eps=0, key_mask=mask)
    assert_array_equal(output[:, :3], 0)
    assert_allclose(output[:, 3], v[:, 3], rtol=1e-14)


# Which masks are accepted

TAKING_A_MASK = {
    "gaussian_mixture_attention": lambda q, k, v, mixture, mask: gma_ref.gaussian_mixture_attention(
        q, k, v, mixture, key_mask=mask
    ),
    "attention_weights": lambda q, k, v, mixture, mask: gma_ref.attention_weights(
        gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture), key_mask=mask
    ),
    "write_memory": lambda q, k, v, mixture, mask: gma_ref.write_memory(gma_ref.responsibilities(k, mixture), v, mask),
    "prefix_memory": lambda q, k, v, mixture, mask: gma_ref.prefix_memory(
        gma_ref.responsibilities(k, mixture), v, mask
    ),
    "update_memory": lambda q, k, v, mixture, mask: gma_ref.update_memory(
        gma_ref.write_memory(gma_ref.responsibilities(k, mixture), v), gma_ref.responsibilities(k, mixture), v, mask
    ),
}
TAKING_A_MASK["gaussian_mixture_attention_vjp"] = lambda q, k, v, mixture, mask: tuple(
    gma_ref.gaussian_mixture_attention_vjp(
        q, k, v, mixture.mu, mixture.mu, mixture.log_prior, v, key_mask=mask
    ).values()
)[:3]
TAKING_A_MASK["write_memory_vjp"] = lambda q, k, v, mixture, mask: gma_ref.write_memory_vjp(
    gma_ref.responsibilities(k, mixture), v, gma_ref.write_memory(gma_ref.responsibilities(k, mixture), v), mask
)
every_function = pytest.mark.parametrize("call", TAKING_A_MASK.values(), ids=TAKING_A_MASK.keys())


@every_function
@pytest.mark.parametrize(
    "mask",
    [np.ones(6), np.ones(6, int), np.zeros(6, np.float32), np.full(6, -np.inf), [1, 1, 1, 0, 0, 0], ["True"] * 6],
    ids=["float", "int", "float32", "additive", "list of int", "list of str"],
)
def test_masks_that_are_not_boolean_are_refused(call, mask):
    with pytest.raises(TypeError, match=r"key_mask must be boolean \(True: this key takes part\), got dtype"):
        call(*draw(), mask)


@every_function
@pytest.mark.parametrize("H", [1, 2, 3])
def test_mask_per_batch_does_not_broadcast_against_heads(call, H):
    B, N = 2, 6
    q, k, v, mixture = draw(batch=(B, H), heads=(H,))
    expected = f"key_mask must have shape (6,), or 3 axes that broadcast to (2, {H}, 6), since "
    given = r".* has shape .*; got shape \(2, 6\) \(for a mask per batch, try key_mask\[:, None\]\)$"
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}{given}"):
        call(q, k, v, mixture, np.ones((B, N), bool))
    mask = np.random.default_rng(0).random((B, N)) < 0.6
    result = call(q, k, v, mixture, mask[:, None])
    everywhere = call(q, k, v, mixture, np.broadcast_to(mask[:, None], (B, H, N)))
    for array, other in zip(as_tuple(result), as_tuple(everywhere), strict=True):
        assert array.shape[:2] == (B, H)
        assert_array_equal(array, other)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


@every_function
@pytest.mark.parametrize("shape", [(), (5,), (1,), (2, 1, 6), (2, 5), (3, 6), (2, 6, 1)], ids=str)
def test_masks_of_another_shape_are_refused(call, shape):
    with pytest.raises(ValueError, match="key_mask must have shape"):
        call(*draw(), np.ones(shape, bool))


@every_function
def test_mask_of_the_keys_alone_holds_for_every_batch(call):
    q, k, v, mixture = draw(batch=(2, 3))
    result = call(q, k, v, mixture, MASK)
    for shape in ((1, 1, 6), (2, 1, 6), (1, 3, 6), (2, 3, 6)):
        other = call(q, k, v, mixture, np.broadcast_to(MASK, shape))
        for array, again in zip(as_tuple(result), as_tuple(other), strict=True):
            assert_array_equal(array, again)


def test_mask_may_be_a_list():
    _, gamma_k, v = draw_responsibilities()
    from_list = gma_ref.write_memory(gamma_k, v, MASK.tolist())
    assert_array_equal(from_list.V_tilde, gma_ref.write_memory(gamma_k, v, MASK).V_tilde)


@pytest.mark.parametrize("num_queries", [5, 7])
def test_causal_attention_needs_as_many_queries_as_keys(num_queries):
    q, k, v, mixture = draw(N=num_queries, N_k=6)
    message = f"causal=True must get as many queries as keys, got {num_queries} queries and 6 keys"
    with pytest.raises(ValueError, match=message):
        gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=True)
    with pytest.raises(ValueError, match=message):
        gma_ref.scaled_dot_product_attention(q, k, v, causal=True)
    with pytest.raises(ValueError, match=message):
        gma_ref.attention_weights(np.ones((2, num_queries, 4)), np.ones((2, 6, 4)), causal=True)
    assert gma_ref.gaussian_mixture_attention(q, k, v, mixture).shape == (2, num_queries, 5)
