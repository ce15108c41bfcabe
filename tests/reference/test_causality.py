"""Causality is exact: what comes after a token changes nothing before it, not by a bit, not even as NaN."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gma_ref
from tests.examples import draw

N = 19
LONG = 150  # enough for BLAS to work in blocks
LATER = [1e3, 0.0, np.nan, np.inf, -np.inf]


def attention(q, k, v, mixture, mask):
    return (gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=True, key_mask=mask),)


def dot_product(q, k, v, mixture, mask):
    return (gma_ref.scaled_dot_product_attention(q, k, v, causal=True),)


def prefixes(q, k, v, mixture, mask):
    V_tilde, Z = gma_ref.prefix_memory(gma_ref.responsibilities(k, mixture), v, mask)
    return V_tilde.reshape(*Z.shape[:2], -1), Z


def weights(q, k, v, mixture, mask):
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    return (gma_ref.attention_weights(gamma_q, gamma_k, causal=True, key_mask=mask),)


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [attention, dot_product, prefixes, weights])
def test_later_tokens_change_no_earlier_result_by_a_bit(function, dtype, masked):
    q, k, v, mixture = draw(N=N, d_v=4)
    q, k, v = (array.astype(dtype) for array in (q, k, v))
    mask = np.arange(N) % 3 > 0 if masked else None
    check(function, q, k, v, mixture, mask, range(N))


@pytest.mark.parametrize("function", [attention, dot_product, prefixes, weights])
def test_later_tokens_change_no_earlier_result_of_a_long_sequence(function):
    check(function, *draw(N=LONG, d_v=4), None, [0, 1, 62, 63, 64, 127, 128, 148])


def check(function, q, k, v, mixture, mask, positions):
    results = function(q, k, v, mixture, mask)
    for t in positions:
        for later in LATER:
            changed = [array.copy() for array in (q, k, v)]
            for array in changed:
                array[:, t + 1 :] = later
            with np.errstate(invalid="ignore"):  # inf − inf, where a token holds infinity
                again = function(*changed, mixture, mask)
            for result, other in zip(results, again, strict=True):
                assert_array_equal(result[:, : t + 1], other[:, : t + 1])


@pytest.mark.parametrize("which", ["q", "k", "v"])
@pytest.mark.parametrize("held", [np.nan, np.inf])
@pytest.mark.parametrize("function", [attention, dot_product])
def test_one_non_finite_token_is_felt_only_where_it_is_read(function, held, which):
    q, k, v, mixture = draw(N=N, d_v=4)
    results = function(q, k, v, mixture, None)[0]
    {"q": q, "k": k, "v": v}[which][:, 7] = held
    with np.errstate(invalid="ignore"):
        again = function(q, k, v, mixture, None)[0]
    felt = np.zeros(N, bool)
    felt[7 : 8 if which == "q" else None] = True
    assert_array_equal(results[:, ~felt], again[:, ~felt])
    if np.isnan(held):
        assert np.isnan(again[:, felt]).all()


def test_a_causal_output_ends_with_the_bidirectional_one():
    q, k, v, mixture = draw(N=N)
    causal = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=True)
    np.testing.assert_allclose(causal[:, -1], gma_ref.gaussian_mixture_attention(q, k, v, mixture)[:, -1], rtol=1e-12)


def test_masked_causal_outputs_do_not_depend_on_later_masks():
    q, k, v, mixture = draw(N=N)
    mask = np.arange(N) % 3 > 0
    results = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=True, key_mask=mask)
    for t in range(N):
        other = np.where(np.arange(N) > t, ~mask, mask)
        again = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=True, key_mask=other)
        assert_array_equal(results[:, : t + 1], again[:, : t + 1])
