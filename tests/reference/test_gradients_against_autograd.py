"""The backward pass by hand against PyTorch's autograd, and against differences in 50 digits."""

from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

import gma_ref
from tests import autograd
from tests.examples import draw_problem

NAMES = ("q", "k", "v", "mu", "omega", "alpha")


def check(arrays, upstream, rtol=1e-9, atol=1e-12, **options):
    """Compare the six gradients with autograd's."""
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, **options)
    assert list(found) == list(NAMES)
    with np.errstate(all="ignore"):
        expected = autograd.gradients(arrays, upstream, **options)
    for name, array, other in zip(NAMES, arrays, expected, strict=True):
        assert found[name].shape == array.shape
        assert_allclose(
            found[name], other, rtol=rtol, atol=atol * max(1, np.abs(upstream).max(initial=0)), err_msg=name
        )


@st.composite
def problems(draw):
    """Arrays whose leading axes broadcast in every way, an upstream gradient, a mask and the mode."""
    N, K, d_r, d_v = (draw(st.integers(1, high)) for high in (6, 4, 3, 3))
    causal = draw(st.booleans())
    N_k = N if causal else draw(st.integers(0, 6))
    batch = draw(st.sampled_from([(), (2,), (2, 3)]))

    def leading():
        """Drop leading axes, or shrink them to 1."""
        kept = batch[draw(st.integers(0, len(batch))) :]
        return tuple(1 if draw(st.booleans()) else size for size in kept)

    shapes = [(N, d_r), (N_k, d_r), (N_k, d_v), (K, d_r), (K, d_r), (K,), (N, d_v)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    *arrays, upstream = (rng.normal(size=leading() + shape) for shape in shapes)
    options = {"causal": causal, "eps": draw(st.sampled_from([0.0, 1e-6, 0.3]))}
    options["eps_sigma"] = draw(st.sampled_from([0.0, 1e-6, 0.1]))
    keys = arrays[1].shape[:-1]
    shape = draw(st.sampled_from([(N_k,), keys]))
    options["key_mask"] = draw(st.none() | hnp.arrays(np.bool_, shape))
    return arrays, upstream, options


@given(problems())
def test_gradients_are_those_of_autograd(problem):
    arrays, upstream, options = problem
    check(arrays, upstream, **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [1, 2, 15, 16, 17, 63, 65, 127])
def test_gradients_of_any_length_are_those_of_autograd(N, causal):
    for K, d_r, d_v in ((1, 2, 3), (2, 3, 1), (3, 1, 2), (17, 2, 3), (24, 5, 2)):
        arrays, upstream = draw_problem(N, N=N, K=K, d_r=d_r, d_v=d_v, batch=())
        check(arrays, upstream, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("B", "N", "H"), [(2, 5, 3), (2, 4, 4)])
def test_gradients_of_heads_with_their_own_or_a_shared_mixture_are_those_of_autograd(B, N, H, causal):
    for heads in ((H,), (), (B, 1)):
        arrays, upstream = draw_problem(N=N, batch=(B, H), heads=heads)
        mask = np.random.default_rng(1).random((B, 1, N)) < 0.7
        check(arrays, upstream, causal=causal, key_mask=mask)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_gradients_are_the_differences_of_the_loss(eps, causal):
    arrays, upstream = draw_problem(N=3, K=2, d_r=2, d_v=2, batch=())
    found = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=causal, eps=eps)
    with mpmath.workdps(50):
        exact = [to_mpmath(array) for array in arrays]
        step = mpmath.mpf(10) ** -15
        for a, name in enumerate(NAMES):
            for index in np.ndindex(exact[a].shape):
                losses = []
                for sign in (1, -1):
                    moved = [array.copy() for array in exact]
                    moved[a][index] += sign * step
                    losses.append(loss(*moved, upstream, causal=causal, eps=eps))
                difference = float((losses[0] - losses[1]) / (2 * step))
                assert_allclose(found[name][index], difference, rtol=1e-11, atol=1e-15, err_msg=name)


def to_mpmath(array):
    return np.vectorize(lambda number: mpmath.mpf(float(number)), otypes=[object])(array)


def loss(q, k, v, mu, omega, alpha, upstream, *, causal, eps):
    """⟨G, O⟩ with 50 digits, as the sums are written in Eqs. (3) and (10)."""
    variance = [[mpmath.log(1 + mpmath.exp(w)) + mpmath.mpf(1e-6) for w in row] for row in omega]
    K = len(mu)

    def responsibilities(x):
        weights = []
        for c in range(K):
            terms = [
                (a - b) ** 2 / s + mpmath.log(2 * mpmath.pi * s) for a, b, s in zip(x, mu[c], variance[c], strict=True)
            ]
            weights.append(mpmath.exp(alpha[c] - sum(terms) / 2))
        return [weight / sum(weights) for weight in weights]

    gamma_q, gamma_k = [responsibilities(x) for x in q], [responsibilities(x) for x in k]
    total = 0
    for i, c in product(range(len(q)), range(v.shape[1])):
        keys = range(i + 1 if causal else len(k))
        row = [sum(a * b for a, b in zip(gamma_q[i], gamma_k[j], strict=True)) for j in keys]
        total += upstream[i, c] * sum(row[j] * v[j, c] for j in keys) / (sum(row) + mpmath.mpf(eps))
    return total
