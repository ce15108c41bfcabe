"""What the invariances of attention say about its gradients, and which tokens they can reach (B10)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests import oracles
from tests.examples import draw_problem

NAMES = ("q", "k", "v", "mu", "omega", "alpha")
every_way = pytest.mark.parametrize(
    ("causal", "eps", "masked"), [(c, e, m) for c in (False, True) for e in (0.0, 1e-6, 0.3) for m in (False, True)]
)


def problem(causal, eps, masked):
    arrays, upstream = draw_problem(batch=(2, 3), heads=(3,))
    mask = np.array([True, False, True, True, False, True]) if masked else None
    options = {"causal": causal, "eps": eps, "key_mask": mask}
    return arrays, upstream, options, gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, **options)


def output(arrays, options):
    q, k, v, mu, omega, alpha = arrays
    mixture = gma_ref.GaussianMixture(mu, np.log1p(np.exp(omega)) + 1e-6, np.log(oracles.softmax(alpha)))
    takes_part = np.ones(6, bool) if options["key_mask"] is None else options["key_mask"]
    return oracles.gaussian_mixture_attention(
        q, k, v, mixture, causal=options["causal"], eps=options["eps"], takes_part=takes_part
    )


@every_way
def test_moving_all_vectors_and_means_together_changes_nothing(causal, eps, masked):
    _, _, _, found = problem(causal, eps, masked)
    from_tokens = found["q"].sum(axis=(0, 2)) + found["k"].sum(axis=(0, 2))
    assert np.abs(from_tokens).max() > 1e-2
    assert_allclose(from_tokens + found["mu"].sum(axis=1), 0, atol=1e-13)


@every_way
def test_another_unit_for_a_coordinate_changes_nothing(causal, eps, masked):
    # per coordinate: Σ x ∂x + Σ μ ∂μ + 2 Σ σ² ∂σ² = 0, with ∂ω = sigmoid(ω) ∂σ²
    (q, k, _, mu, omega, _), _, _, found = problem(causal, eps, masked)
    by_variance = found["omega"] * (1 + np.exp(-omega))
    terms = (q * found["q"]).sum(axis=(0, 2)) + (k * found["k"]).sum(axis=(0, 2)) + (mu * found["mu"]).sum(axis=1)
    variance = np.log1p(np.exp(omega)) + 1e-6
    assert np.abs(terms).max() > 1e-2
    assert_allclose(terms + 2 * (variance * by_variance).sum(axis=1), 0, atol=1e-12)


@every_way
def test_a_constant_added_to_alpha_changes_nothing(causal, eps, masked):
    _, _, _, found = problem(causal, eps, masked)
    assert np.abs(found["alpha"]).max() > 1e-2
    assert_allclose(found["alpha"].sum(axis=-1), 0, atol=1e-14)


@every_way
def test_values_and_their_gradient_multiply_to_the_loss(causal, eps, masked):
    arrays, upstream, options, found = problem(causal, eps, masked)
    loss = (upstream * output(arrays, options)).sum(axis=(-2, -1))
    assert_allclose((arrays[2] * found["v"]).sum(axis=(-2, -1)), loss, rtol=1e-11)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.3])
def test_responsibilities_of_a_query_and_their_gradient_multiply_to_the_share_of_eps(eps):
    # Σ_k γ_ik ∂L/∂γ_ik = ε ⟨G_i, O_i⟩ / D_i: scaling a row of Γ^Q changes the output only through ε
    rng = np.random.default_rng(0)
    gamma_q, gamma_k = rng.dirichlet(np.ones(4), size=(2, 2, 6))
    v, upstream = rng.normal(size=(2, 2, 6, 5))
    memory = gma_ref.Memory(*oracles.write(gamma_k, v, np.ones(6, bool)))
    gamma_q_bar, _ = gma_ref.read_memory_vjp(gamma_q, memory, upstream, eps)
    D = (gamma_q * memory.Z[:, None]).sum(axis=-1) + eps
    loss = (upstream * oracles.read(gamma_q, *memory, eps=eps)).sum(axis=-1)
    assert_allclose((gamma_q * gamma_q_bar).sum(axis=-1), eps * loss / D, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("causal", [False, True])
def test_identical_components_get_identical_gradients(causal):
    arrays, upstream = draw_problem()
    for array in arrays[3:]:
        array[:, 1] = array[:, 3]
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=causal)
    for name in ("mu", "omega", "alpha"):
        assert_allclose(found[name][:, 1], found[name][:, 3], rtol=1e-12, atol=1e-15)


# Causality


@pytest.mark.parametrize("t", range(6))
def test_no_gradient_flows_from_an_output_to_a_later_token(t):
    arrays, upstream = draw_problem()
    upstream[:, t + 1 :] = 0
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=True)
    for name in ("q", "k", "v"):
        assert_array_equal(found[name][:, t + 1 :], 0)
        assert (found[name][:, : t + 1] != 0).any()
    changed = [array.copy() for array in arrays]
    for array in changed[:3]:
        array[:, t + 1 :] = 1e3
    again = gma_ref.gaussian_mixture_attention_vjp(*changed, upstream, causal=True)
    cut = [array[:, : t + 1] for array in arrays[:3]] + arrays[3:]
    alone = gma_ref.gaussian_mixture_attention_vjp(*cut, upstream[:, : t + 1], causal=True)
    for name in NAMES:
        assert_array_equal(again[name], found[name])
        one = found[name][:, : t + 1] if name in ("q", "k", "v") else found[name]
        assert_allclose(alone[name], one, rtol=1e-12, atol=1e-15)


def test_no_gradient_flows_from_a_later_output_to_a_query():
    arrays, upstream = draw_problem()
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=True)
    for t in range(5):
        later = upstream.copy()
        later[:, t + 1 :] = np.nan
        again = gma_ref.gaussian_mixture_attention_vjp(*arrays, later, causal=True)
        assert_array_equal(again["q"][:, : t + 1], found["q"][:, : t + 1])
        assert np.isnan(again["v"]).all()


def test_last_output_has_the_gradients_of_the_bidirectional_one():
    arrays, upstream = draw_problem()
    upstream[:, :-1] = 0
    causal = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=True)
    for name, gradient in gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream).items():
        assert_allclose(causal[name], gradient, rtol=1e-11, atol=1e-15)
