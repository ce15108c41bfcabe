"""Padding has no gradient and gives none, whatever it holds; nor has a query that nobody asks about."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests.examples import draw_problem, draw_responsibilities

NAMES = ("q", "k", "v", "mu", "omega", "alpha")
both_modes = pytest.mark.parametrize("causal", [False, True])
anything = pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf, 1e300])
MASK = np.array([True, False, True, True, False, True])


@both_modes
@anything
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_a_padded_batch_has_the_gradients_of_the_batch_without_padding(eps, held, causal):
    arrays, upstream = draw_problem(N=9)
    mask = np.arange(9) < np.array([[6], [4]])  # two sequences, of six and of four tokens
    arrays = [np.where(mask[..., None], a, held) for a in arrays[:3]] + arrays[3:]
    upstream = np.where(mask[..., None], upstream, 0)
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, key_mask=mask, causal=causal, eps=eps)
    for b, length in enumerate((6, 4)):
        alone = [a[b, :length] for a in arrays[:3]] + [a[b] for a in arrays[3:]]
        expected = gma_ref.gaussian_mixture_attention_vjp(*alone, upstream[b, :length], causal=causal, eps=eps)
        for name in NAMES:
            gradient = found[name][b]
            if name in "qkv":
                assert_array_equal(gradient[length:], 0)
                gradient = gradient[:length]
            assert_allclose(gradient, expected[name], rtol=1e-10, atol=1e-13)


@anything
def test_causally_padding_at_the_end_needs_no_mask(held):
    arrays, upstream = draw_problem()
    upstream[:, 4:] = 0
    alone = [a[:, :4] for a in arrays[:3]] + arrays[3:]
    expected = gma_ref.gaussian_mixture_attention_vjp(*alone, upstream[:, :4], causal=True)
    for array in arrays[:3]:
        array[:, 4:] = held
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=True)
    for name in NAMES:
        gradient = found[name]
        if name in "qkv":
            assert_array_equal(gradient[:, 4:], 0)
            gradient = gradient[:, :4]
        assert_allclose(gradient, expected[name], rtol=1e-10, atol=1e-13)


@both_modes
def test_masked_keys_have_no_gradient_whatever_queries_and_upstream_hold(causal):
    arrays, upstream = draw_problem()
    arrays[0][:, 3] = np.nan
    upstream[1, 5] = np.nan
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, key_mask=MASK, causal=causal)
    for name in ("k", "v"):
        assert_array_equal(found[name][:, ~MASK], 0)
        assert np.isnan(found[name]).any()  # the others have none that is a number


@pytest.mark.parametrize("held", [np.nan, np.inf, 1e300])
def test_masked_keys_of_a_write_have_no_gradient_whatever_the_memory_s_holds(held):
    _, gamma_k, v = draw_responsibilities()
    memory_bar = gma_ref.Memory(np.full((2, 4, 5), held), np.full((2, 4), held))
    with np.errstate(invalid="ignore", over="ignore"):  # those of the other keys are not finite
        for gradient in gma_ref.write_memory_vjp(gamma_k, v, memory_bar, MASK):
            assert_array_equal(gradient[:, ~MASK], 0)


@anything
def test_a_query_that_nobody_asks_about_leaves_the_memory_alone(held):
    gamma_q, gamma_k, v = draw_responsibilities()
    memory = gma_ref.write_memory(gamma_k, v)
    upstream = np.random.default_rng(1).normal(size=(2, 6, 5))
    upstream[:, [1, 4]] = 0
    expected = gma_ref.read_memory_vjp(gamma_q, memory, upstream)
    gamma_q[:, [1, 4]] = held
    gamma_q_bar, memory_bar = gma_ref.read_memory_vjp(gamma_q, memory, upstream)
    assert_array_equal(gamma_q_bar, expected[0])
    for found, other in zip(memory_bar, expected[1], strict=True):
        assert_array_equal(found, other)


@anything
def test_a_token_without_gradients_leaves_the_projections_alone(held):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2, 5, 4)), [rng.normal(size=(4, width)) for width in (3, 3, 2)]
    bars = [rng.normal(size=(2, 5, width)) for width in (3, 3, 2)]
    for bar in bars:
        bar[:, 3:] = 0
    expected = gma_ref.project_vjp(x, *weights, *bars)
    x[:, 3:] = held
    for name, gradient in gma_ref.project_vjp(x, *weights, *bars).items():
        assert_array_equal(gradient, expected[name])


@both_modes
def test_a_broadcast_query_is_asked_by_some_and_not_by_others(causal):
    # one set of queries, keys and values, read in two ways
    arrays, _ = draw_problem(batch=())
    upstream = np.random.default_rng(1).normal(size=(2, 6, 5))
    upstream[0, 3:], upstream[1, :2] = 0, 0
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=causal)
    parts = [gma_ref.gaussian_mixture_attention_vjp(*arrays, part, causal=causal) for part in upstream]
    for name in NAMES:
        assert_allclose(found[name], parts[0][name] + parts[1][name], rtol=1e-10, atol=1e-13)


def test_a_nan_query_has_a_row_of_nan_even_where_no_key_reaches_it():
    mixture = gma_ref.GaussianMixture([[0.0], [1]], [[1.0], [1]], np.log([0.5, 0.5]))
    q = [[0.1], [np.nan]]
    output = gma_ref.gaussian_mixture_attention(q, q, q, mixture, key_mask=[False, False])
    assert_array_equal(output, [[0], [np.nan]])
