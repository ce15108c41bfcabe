"""Attention: Eqs. (1), (4), (7)-(11) and (8b)-(10b), bidirectional and causal."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gma_ref
from gma_ref.reference.attention import causal_read
from tests import oracles
from tests.examples import (
    CASES,
    draw,
    draw_responsibilities,
    every_case,
    every_causal_case,
    key_mask_of,
    mixture_of,
)

EXACT = {"rtol": 1e-12, "atol": 1e-15}


def routings(case):
    mixture = mixture_of(case)
    return gma_ref.responsibilities(case.inputs.q, mixture), gma_ref.responsibilities(case.inputs.k, mixture)


def options(case):
    return {"eps": case.inputs.eps, "key_mask": key_mask_of(case)}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_dot_product_attention_is_the_slow_loop(batch, scale, causal):
    q, k, v, _ = draw(batch=batch)
    expected = oracles.dot_product_attention(scale * q, k, v, causal=causal)
    assert_allclose(gma_ref.scaled_dot_product_attention(scale * q, k, v, causal=causal), expected, rtol=1e-10)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_project_is_three_products(batch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(*batch, 6, 7))
    weights = [rng.normal(size=(*batch, 7, width)) for width in (3, 3, 5)]
    for projected, w in zip(gma_ref.project(x, *weights), weights, strict=True):
        assert_allclose(projected, oracles.product(x, w), rtol=1e-12, atol=1e-14)


@every_case
def test_output_is_the_exact_one(case):
    given = case.inputs
    output = gma_ref.gaussian_mixture_attention(given.q, given.k, given.v, mixture_of(case), **options(case))
    assert_allclose(output, case.bidirectional.output, **EXACT)


@every_causal_case
def test_causal_output_is_the_exact_one(case):
    given = case.inputs
    output = gma_ref.gaussian_mixture_attention(
        given.q, given.k, given.v, mixture_of(case), causal=True, **options(case)
    )
    assert_allclose(output, case.causal.output, **EXACT)


@every_case
@pytest.mark.parametrize("mode", ["bidirectional", "causal"])
def test_weights_are_the_exact_ones(case, mode):
    if not hasattr(case, mode):  # N_q ≠ N_k
        with pytest.raises(ValueError, match="causal=True must get as many queries as keys"):
            gma_ref.attention_weights(*routings(case), causal=True)
        return
    weights = gma_ref.attention_weights(*routings(case), causal=mode == "causal", **options(case))
    assert_allclose(weights, getattr(case, mode).weights, rtol=1e-12)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_affinity_is_the_overlap_of_responsibilities(batch):
    gamma_q, gamma_k, _ = draw_responsibilities(N=3, N_k=7, batch=batch)
    assert_allclose(gma_ref.affinity(gamma_q, gamma_k), oracles.affinity(gamma_q, gamma_k), rtol=1e-12)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
def test_output_is_weights_times_values(eps):
    q, k, v, mixture = draw(N=5, N_k=7)
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    weights = gma_ref.attention_weights(gamma_q, gamma_k, eps=eps)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, eps=eps)
    assert_allclose(output, oracles.combine(weights, v), rtol=1e-11)
    # with the weights A⁰ that have no ε: o_i = d'_i / (d'_i + ε) Σ_j A⁰_ij V_j
    bare = gma_ref.attention_weights(gamma_q, gamma_k, eps=0)
    reached = oracles.affinity(gamma_q, gamma_k).sum(axis=-1, keepdims=True)
    assert_allclose(output, reached / (reached + eps) * oracles.combine(bare, v), rtol=1e-11)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
def test_causal_output_is_weights_times_values(eps):
    q, k, v, mixture = draw()
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    weights = gma_ref.attention_weights(gamma_q, gamma_k, causal=True, eps=eps)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=True, eps=eps)
    assert_allclose(output, oracles.combine(weights, v), rtol=1e-11)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_causal_weights_are_a_normalised_lower_triangle(batch):
    gamma_q, gamma_k, _ = draw_responsibilities(batch=batch)
    triangle = np.tril(oracles.affinity(gamma_q, gamma_k))
    expected = triangle / (triangle.sum(axis=-1, keepdims=True) + 0.1)
    assert_allclose(gma_ref.attention_weights(gamma_q, gamma_k, causal=True, eps=0.1), expected, rtol=1e-12)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_causal_read_reads_a_memory_of_each_prefix(batch):
    gamma_q, gamma_k, v = draw_responsibilities(batch=batch)
    output = causal_read(gamma_q, gamma_k, v, 0.1)
    for i in range(6):
        memory = oracles.write(gamma_k[..., : i + 1, :], v[..., : i + 1, :], np.ones(i + 1, bool))
        expected = oracles.read(gamma_q[..., i : i + 1, :], *memory, eps=0.1)
        assert_allclose(output[..., i : i + 1, :], expected, rtol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [1, 2, 15, 16, 17, 63, 65, 127])
def test_attention_of_any_length_is_the_slow_loop(N, causal):
    for K, d_r, d_v in ((1, 2, 3), (2, 3, 1), (3, 1, 2), (17, 2, 3), (24, 5, 2)):
        q, k, v, mixture = draw(N, N=N, K=K, d_r=d_r, d_v=d_v, batch=())
        output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
        expected = oracles.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
        assert_allclose(output, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
def test_every_path_puts_the_same_eps_in_the_same_place(causal):
    q, k, v, mixture = draw()
    for eps in (0.0, 1e-6, 1.0, 100.0):
        gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
        paths = [gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=eps)]
        paths.append(gma_ref.attention_weights(gamma_q, gamma_k, causal=causal, eps=eps) @ v)
        if causal:
            prefixes = gma_ref.prefix_memory(gamma_k, v)
            paths.append(gma_ref.read_memory(gamma_q[..., None, :], prefixes, eps)[..., 0, :])
            paths.append(causal_read(gamma_q, gamma_k, v, eps))
        else:
            paths.append(gma_ref.read_memory(gamma_q, gma_ref.write_memory(gamma_k, v), eps))
        expected = oracles.gaussian_mixture_attention(q, k, v, mixture, causal=causal, eps=eps)
        for path in paths:
            assert_allclose(path, expected, rtol=1e-11)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
def test_constant_values_are_read_back_shrunk_by_eps(eps, causal):
    # V ≡ 1: o_i = d'_i / (d'_i + ε), with d'_i the affinity that query i has reached
    q, k, v, mixture = draw()
    overlap = oracles.affinity(gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture))
    reached = (np.tril(overlap) if causal else overlap).sum(axis=-1, keepdims=True)
    output = gma_ref.gaussian_mixture_attention(q, k, np.ones_like(v), mixture, causal=causal, eps=eps)
    assert_allclose(output, np.broadcast_to(reached / (reached + eps), output.shape), rtol=1e-12)


def test_two_heads_case_has_a_mixture_for_each_head():
    assert mixture_of(CASES["two_heads"]).mu.shape == (2, 3, 2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("B", "N", "H"), [(2, 5, 3), (2, 4, 4)])
def test_each_head_equals_itself_alone(B, N, H, causal):
    q, k, v, mixture = draw(N=N, batch=(B, H), heads=(H,))
    together = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
    for b in range(B):
        for h in range(H):
            own = gma_ref.GaussianMixture(mixture.mu[h], mixture.variance[h], mixture.log_prior[h])
            alone = gma_ref.gaussian_mixture_attention(q[b, h], k[b, h], v[b, h], own, causal=causal)
            assert_allclose(together[b, h], alone, rtol=1e-12)
            expected = oracles.gaussian_mixture_attention(q[b, h], k[b, h], v[b, h], own, causal=causal)
            assert_allclose(alone, expected, rtol=1e-11)


@pytest.mark.parametrize("causal", [False, True])
def test_one_component_gives_means(causal):
    mixture = gma_ref.GaussianMixture([[0.0]], [[1.0]], [0.0])
    x, v = np.array([[0.3], [-1], [7], [2], [0]]), np.array([[1.0], [2], [3], [4], [5]])
    output = gma_ref.gaussian_mixture_attention(x, x, v, mixture, causal=causal, eps=0)
    assert_allclose(output[:, 0], [1, 1.5, 2, 2.5, 3] if causal else 3, rtol=1e-15)
