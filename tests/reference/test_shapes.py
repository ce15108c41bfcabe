"""The smallest inputs have their mathematical answer: no keys, no queries, no batch, one token, K = 1, K > N."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests import oracles
from tests.examples import draw, draw_responsibilities

both_modes = pytest.mark.parametrize("causal", [False, True])


@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_without_keys_every_output_is_zero(eps):
    q, k, v, mixture = draw(N=3, N_k=0)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, eps=eps)
    assert output.shape == (2, 3, 5)
    assert_array_equal(output, 0)
    assert_array_equal(gma_ref.scaled_dot_product_attention(q, k, v), np.zeros((2, 3, 5)))
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    assert gma_ref.attention_weights(gamma_q, gamma_k, eps=eps).shape == (2, 3, 0)
    V_tilde, Z = gma_ref.write_memory(gamma_k, v)
    assert_array_equal(V_tilde, np.zeros((2, 4, 5)))
    assert_array_equal(Z, np.zeros((2, 4)))
    V_tilde, Z = gma_ref.prefix_memory(gamma_k, v)
    assert (V_tilde.shape, Z.shape) == ((2, 0, 4, 5), (2, 0, 4))


def test_without_queries_there_is_no_output():
    q, k, v, mixture = draw(N=0, N_k=3)
    assert gma_ref.gaussian_mixture_attention(q, k, v, mixture).shape == (2, 0, 5)
    assert gma_ref.scaled_dot_product_attention(q, k, v).shape == (2, 0, 5)
    assert gma_ref.responsibilities(q, mixture).shape == (2, 0, 4)
    gamma_k = gma_ref.responsibilities(k, mixture)
    assert gma_ref.attention_weights(np.ones((2, 0, 4)), gamma_k).shape == (2, 0, 3)


@both_modes
def test_sequence_without_tokens_is_empty(causal):
    q, k, v, mixture = draw(N=0)
    assert gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal).shape == (2, 0, 5)
    assert gma_ref.scaled_dot_product_attention(q, k, v, causal=causal).shape == (2, 0, 5)
    gamma = gma_ref.responsibilities(q, mixture)
    assert gma_ref.attention_weights(gamma, gamma, causal=causal).shape == (2, 0, 0)


@both_modes
@pytest.mark.parametrize("heads", [(0, 3), (3,), ()], ids=str)
def test_batch_of_none_is_empty(heads, causal):
    q, k, v, mixture = draw(batch=(0, 3), heads=heads)
    assert gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal).shape == (0, 3, 6, 5)
    assert gma_ref.scaled_dot_product_attention(q, k, v, causal=causal).shape == (0, 3, 6, 5)
    gamma_k = gma_ref.responsibilities(k, mixture)
    memory = gma_ref.update_memory(gma_ref.write_memory(gamma_k, v), gamma_k, v)
    assert (memory.V_tilde.shape, memory.Z.shape) == ((0, 3, 4, 5), (0, 3, 4))


@both_modes
def test_one_token_reads_its_own_value(causal):
    q, k, v, mixture = draw(N=1)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=0)
    assert_allclose(output, v, rtol=1e-14)
    assert_allclose(gma_ref.scaled_dot_product_attention(q, k, v, causal=causal), v, rtol=1e-14)


@both_modes
@pytest.mark.parametrize(("N", "K", "d_r", "d_v"), [(3, 7, 2, 4), (3, 7, 1, 1), (4, 4, 4, 4), (2, 1, 5, 3)])
def test_any_sizes_go_together(N, K, d_r, d_v, causal):
    q, k, v, mixture = draw(N=N, K=K, d_r=d_r, d_v=d_v)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
    expected = oracles.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
    assert_allclose(output, expected, rtol=1e-11, atol=1e-14)


@both_modes
def test_values_of_no_width_give_outputs_of_no_width(causal):
    q, k, v, mixture = draw(d_v=0)
    assert gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal).shape == (2, 6, 0)


@both_modes
def test_eps_of_zero_is_no_special_case(causal):
    q, k, v, mixture = draw()
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=0)
    expected = oracles.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=0.0)
    assert_allclose(output, expected, rtol=1e-11)


def test_memory_of_parts_that_broadcast_can_be_read():
    gamma_q, gamma_k, v = draw_responsibilities(batch=(3,))
    V_tilde, Z = oracles.write(gamma_k, v, np.ones(6, bool))
    for memory in (gma_ref.Memory(V_tilde[0], Z), gma_ref.Memory(V_tilde, Z[0])):
        expected = oracles.read(gamma_q, *memory, eps=0.1)
        assert_allclose(gma_ref.read_memory(gamma_q, memory, 0.1), expected, rtol=1e-12)
    one_query = gma_ref.read_memory(gamma_q[0], gma_ref.Memory(V_tilde[0], Z), 0.1)
    assert_allclose(one_query, oracles.read(gamma_q[0], V_tilde[0], Z, eps=0.1), rtol=1e-12)
