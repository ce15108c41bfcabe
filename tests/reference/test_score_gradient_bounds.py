"""No routing makes the gradients that reach scores and values larger than the theorem on (B2) says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gma_ref
from gma_ref.reference.memory_gradients import routing_vjp
from gma_ref.reference.numerics import softmax


@pytest.mark.parametrize("causal", [False, True])
def test_no_routing_beats_the_bounds(causal):
    rng = np.random.default_rng(0)
    largest = np.zeros(3)
    for _ in range(300):
        N, K = rng.integers(1, 6), rng.integers(2, 5)
        spread, eps = 10.0 ** rng.uniform(-2, 1), 10.0 ** rng.uniform(-12, 0)
        gamma_q, gamma_k = softmax(rng.normal(size=(2, N, K)) / spread)
        v, G = rng.normal(size=(2, N, 2))
        delta_q, delta_k, by_v = routing_vjp(gamma_q, gamma_k, v, G, causal=causal, eps=eps)
        A = gma_ref.attention_weights(gamma_q, gamma_k, causal=causal, eps=eps)
        sizes, points = np.linalg.norm(G, axis=1), np.vstack([v, [[0, 0]]])
        widest = np.linalg.norm(points[:, None] - points, axis=-1).max()
        apart = np.linalg.norm(v - (A @ v)[:, None], axis=-1)
        by_key = (A * apart * sizes[:, None]).sum(axis=0)
        assert (by_key <= widest * sizes.sum() + 1e-12).all()
        bounds = widest * sizes / 4, by_key, A.T @ sizes
        found = np.abs(delta_q).max(axis=1), np.abs(delta_k).max(axis=1), np.linalg.norm(by_v, axis=1)
        for place, (size, bound) in enumerate(zip(found, bounds, strict=True)):
            assert (size <= bound + 1e-12).all()
            largest[place] = max(largest[place], (size / (bound + 1e-12)).max())
    assert (largest > 0.7).all()  # the attack comes close


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-9])
def test_bound_of_a_query_is_approached_as_eps_shrinks(eps):
    half, values, G = np.array([[0.5, 0.5]]), np.array([[1.0], [-1.0]]), np.array([[3.0]])
    delta, _, _ = routing_vjp(half, np.eye(2), values, G, causal=False, eps=eps)
    assert_allclose(np.abs(delta), 2 * 3 / 4 / (1 + eps))
