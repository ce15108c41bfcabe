"""Optimisers try to beat every bound of stability; SciPy checks Lambert's function."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import optimize, special

import gma_ref
from gma_ref.reference.global_stability import steepest_slope
from gma_ref.reference.numerics import lambert_w

RADIUS = 2.0


@st.composite
def mixtures(draw, K=None, kinds=("any", "isotropic", "equal", "nested")):
    """Mixtures in which components cross, are isotropic, have equal covariances, or lie within one another."""
    K, d = draw(st.integers(2, 4)) if K is None else K, draw(st.integers(1, 3))
    kind = draw(st.sampled_from(kinds))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    mu = rng.normal(size=(K, d)) * draw(st.sampled_from([0.3, 1.0, 3.0]))
    shape = {"any": (K, d), "isotropic": (K, 1), "equal": (1, d), "nested": (K, d)}[kind]
    variance = np.broadcast_to(np.exp(rng.normal(size=shape)), (K, d)).copy()
    if kind == "nested":
        variance = np.cumsum(variance, axis=0)
    alpha = rng.normal(size=K) * draw(st.sampled_from([0.1, 1.0, 4.0]))
    return gma_ref.GaussianMixture(mu, variance, special.log_softmax(alpha))


def norms(jacobian):
    """Return the three norms that L2-L4 bound, for Jacobians (..., K, d)."""
    K = jacobian.shape[-2]
    signs = np.array(np.meshgrid(*[[-1, 1]] * K)).reshape(K, -1).T  # ‖Jv‖₁ = max over signs of ⟨s, Jv⟩
    return {
        "component": np.linalg.norm(jacobian, axis=-1).max(axis=-1),
        "l1": np.linalg.norm(signs @ jacobian, axis=-1).max(axis=-1),
        "l2": np.linalg.norm(jacobian, 2, axis=(-2, -1)),
    }


def greatest(function, mixture, radius, rounds=2):
    """Maximise a function of one vector in a ball, from the best of many starts."""
    d = mixture.routing_dim
    rng = np.random.default_rng(0)
    # starts: anywhere, and between two means
    between = [mixture.mu[k] + t * (mixture.mu[j] - mixture.mu[k]) for k in range(len(mixture.mu))
               for j in range(k) for t in (0.25, 0.5, 0.75)]  # fmt: skip
    starts = np.concatenate([rng.normal(size=(150, d)) * radius / 2, between])

    def inside(x):
        return x * min(1, radius / max(np.linalg.norm(x), 1e-300))

    values = [function(inside(x)) for x in starts]
    best = max(values)
    for start in np.argsort(values)[-rounds:]:
        done = optimize.minimize(
            lambda x: -function(inside(x)), starts[start], method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 200 * d},
        )  # fmt: skip
        best = max(best, -done.fun)
    return best


def jacobian_at(x, mixture):
    """Return the Jacobian at one vector, by the definition."""
    log_joint = mixture.log_prior - 0.5 * (np.log(mixture.variance) + (x - mixture.mu) ** 2 / mixture.variance).sum(-1)
    gamma = special.softmax(log_joint)
    u = -(x - mixture.mu) / mixture.variance
    return gamma[:, None] * (u - gamma @ u)


@settings(max_examples=12)
@given(mixtures())
def test_no_point_of_the_ball_beats_a_bound(mixture):
    bounds = gma_ref.lipschitz_bounds(mixture, RADIUS)
    for name in ("component", "l1", "l2"):
        found = greatest(lambda x, name=name: norms(jacobian_at(x, mixture))[name], mixture, RADIUS, rounds=1)
        assert found <= bounds[name] * (1 + 1e-12)
        if name == "l2":
            assert found <= bounds["l2_sharp"] * (1 + 1e-12)


@given(mixtures(), st.integers(0, 2**32))
def test_no_two_points_of_the_ball_beat_a_bound(mixture, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 300, mixture.routing_dim))
    x, y = (RADIUS * z / np.maximum(1, np.linalg.norm(z, axis=-1, keepdims=True)) for z in (x, y))
    y[:150] = x[:150] + 1e-3 * (y[:150] - x[:150])
    apart = np.linalg.norm(x - y, axis=-1)
    change = gma_ref.responsibilities(x, mixture) - gma_ref.responsibilities(y, mixture)
    bounds = gma_ref.lipschitz_bounds(mixture, RADIUS)
    assert (np.abs(change).max(axis=-1) <= bounds["component"] * apart * (1 + 1e-9)).all()
    assert (np.abs(change).sum(axis=-1) <= bounds["l1"] * apart * (1 + 1e-9)).all()
    assert (np.linalg.norm(change, axis=-1) <= bounds["l2_sharp"] * apart * (1 + 1e-9)).all()


@settings(max_examples=12)
@given(mixtures(kinds=("equal",)))
def test_bounds_with_the_true_difference_hold(mixture):
    pull = mixture.mu / mixture.variance
    D = max(np.linalg.norm(a - b) for a, b in combinations(pull, 2))
    found = {name: greatest(lambda x, name=name: norms(jacobian_at(x, mixture))[name], mixture, 50.0, rounds=1)
             for name in ("component", "l1", "l2")}  # fmt: skip
    limits = {"component": D / 4, "l1": D / 2, "l2": D / math.sqrt(8)}
    for name, limit in limits.items():
        assert found[name] <= limit * (1 + 1e-12)


@settings(max_examples=12)
@given(mixtures(K=2, kinds=("equal",)))
def test_two_components_reach_more_than_99_percent(mixture):
    # wherever the priors put the tie, the optimiser finds it
    D = np.linalg.norm((mixture.mu[0] - mixture.mu[1]) / mixture.variance[0])
    for name, limit in {"component": D / 4, "l1": D / 2, "l2": D / math.sqrt(8)}.items():
        assert greatest(lambda x, name=name: norms(jacobian_at(x, mixture))[name], mixture, 1e4) >= 0.99 * limit


# All of space: B6


@settings(max_examples=12)
@given(mixtures(K=2, kinds=("isotropic", "nested")))
def test_constant_of_two_comparable_components_is_exact(mixture):
    exact = gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"]
    assert np.isfinite(exact)
    found = greatest(lambda x: np.linalg.norm(jacobian_at(x, mixture), 2), mixture, 1e4, rounds=3)
    assert found <= exact * (1 + 1e-9)
    assert along_the_steepest_coordinate(mixture) >= (1 - 1e-9) * exact
    assert exact <= gma_ref.background_bound(mixture) * (1 + 1e-9)


def along_the_steepest_coordinate(mixture):
    """Maximise the Jacobian over the line on which the scores differ by a parabola of the largest curvature."""
    P = 1 / mixture.variance
    curvature = P[0] - P[1]
    centre = (P[0] * mixture.mu[0] - P[1] * mixture.mu[1]) / curvature
    m = np.abs(curvature).argmax()

    def fall(t):
        x = centre.copy()
        x[m] += np.exp(t)
        return -np.linalg.norm(jacobian_at(x, mixture), 2)

    grid = np.linspace(-12, 12, 2001)
    t = grid[np.argmin([fall(t) for t in grid])]
    return -optimize.minimize_scalar(fall, bounds=(t - 0.02, t + 0.02), method="bounded", options={"xatol": 1e-12}).fun


@settings(max_examples=12)
@given(mixtures(kinds=("isotropic", "equal", "nested")))
def test_no_point_of_space_beats_a_global_bound(mixture):
    bound, other = gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"], gma_ref.background_bound(mixture)
    assert np.isfinite([bound, other]).all()
    for radius in (2.0, 20.0, 200.0):
        found = greatest(lambda x: np.linalg.norm(jacobian_at(x, mixture), 2), mixture, radius, rounds=1)
        assert found <= min(bound, other) * (1 + 1e-9)


@pytest.mark.parametrize("c", [-1e6, -100.0, -3.0, -0.1, 0.0, 0.1, 3.0, 100.0])
def test_steepest_slope_is_the_greatest(c):
    def fall(delta):
        return -math.sqrt(2 * 1.7 * (delta - c)) / (4 * math.cosh(delta / 2) ** 2)

    done = optimize.minimize_scalar(fall, bounds=(max(c, 0), max(c, 0) + 3), method="bounded", options={"xatol": 1e-12})
    assert_allclose(steepest_slope(1.7, c), -done.fun, rtol=1e-12)
    # the closed form of B6 lies above
    assert steepest_slope(1.7, c) <= math.sqrt(1.7) * (math.sqrt(2 * max(-c, 0)) / 4 + 0.2783)


@pytest.mark.parametrize("c", [710.0, 1400.0, 1500.0, 1e5, 1e300])
def test_steepest_slope_far_out_is_that_of_the_exponential(c):
    # σ'(δ) → e^-δ, and the slope is greatest at δ = c + 1/2
    assert_allclose(steepest_slope(1.7, c), math.sqrt(1.7) * math.exp(-c - 0.5), rtol=1e-10, atol=5e-324)


@pytest.mark.parametrize("c", [-1e10, -1e100, -1e300])
def test_steepest_slope_from_far_below_is_that_at_zero(c):
    assert_allclose(steepest_slope(1.7, c), math.sqrt(2 * 1.7) * math.sqrt(-c) / 4, rtol=1e-9)


# The read: B1, B2


def read_jacobian(q, k, v, parameters, eps):
    """Return ∂o/∂q for one query, (d_v, d_r), a row of the backward pass for each entry of the output."""
    rows = [
        gma_ref.gaussian_mixture_attention_vjp(q, k, v, *parameters, row[None], eps=eps)["q"][0]
        for row in np.eye(v.shape[1])
    ]
    return np.array(rows)


def parameters_of(mixture):
    omega = np.log(np.expm1(mixture.variance - 1e-6))
    return mixture.mu, omega, mixture.log_prior


def diameter(points):
    return max((np.linalg.norm(a - b) for a, b in combinations(points, 2)), default=0)


@settings(max_examples=12)
@given(mixtures(), st.integers(0, 2**32), st.sampled_from([0.0, 1e-6, 0.5]))
def test_the_read_changes_no_faster_than_its_slots_differ(mixture, seed, eps):
    rng = np.random.default_rng(seed)
    d = mixture.routing_dim
    k, v = rng.normal(size=(5, d)), rng.normal(size=(5, 3))
    means = gma_ref.slot_means(gma_ref.write_memory(gma_ref.responsibilities(k, mixture), v), eps)
    for q in rng.normal(size=(3, 1, d)):
        u = -(q - mixture.mu) / mixture.variance
        D = diameter(u)
        slope = np.linalg.norm(read_jacobian(q, k, v, parameters_of(mixture), eps), 2)
        assert slope <= D / 4 * diameter(means) * (1 + 1e-7) + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_the_read_of_two_slots_reaches_its_bound(seed):
    rng = np.random.default_rng(seed)
    mu, variance = rng.normal(size=(2, 3)), np.exp(rng.normal(size=3))
    mixture = gma_ref.GaussianMixture(mu, [variance, variance], np.log([0.3, 0.7]))
    k, v, eps = rng.normal(size=(5, 3)), rng.normal(size=(5, 4)), 1e-6
    memory = gma_ref.write_memory(gma_ref.responsibilities(k, mixture), v)
    pull = (mu[0] - mu[1]) / variance
    # move the query along the pull until both slots weigh the same: γ₁(Z₁ + ε) = γ₂(Z₂ + ε)
    middle = mu.mean(axis=0)
    offset = np.log(0.3 / 0.7) + np.log(memory.Z[0] + eps) - np.log(memory.Z[1] + eps)
    q = (middle - offset * pull / (pull @ pull))[None]
    slope = np.linalg.norm(read_jacobian(q, k, v, parameters_of(mixture), eps), 2)
    bound = np.linalg.norm(pull) / 4 * diameter(gma_ref.slot_means(memory, eps))
    assert 0.99 * bound <= slope <= bound * (1 + 1e-9)


@settings(max_examples=12)
@given(mixtures(), st.integers(0, 2**32), st.booleans())
def test_a_key_moves_an_output_by_no_more_than_its_weight_allows(mixture, seed, causal):
    # B2: ‖∂o_i/∂k_j‖ ≤ D A_ij ‖V_j − o_i‖
    rng = np.random.default_rng(seed)
    d = mixture.routing_dim
    q, k, v = rng.normal(size=(4, d)), rng.normal(size=(4, d)), rng.normal(size=(4, 3))
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
    gamma_q, gamma_k = (gma_ref.responsibilities(x, mixture) for x in (q, k))
    weights = gma_ref.attention_weights(gamma_q, gamma_k, causal=causal)
    for i in range(4):
        rows = []
        for c in range(3):
            upstream = np.zeros((4, 3))
            upstream[i, c] = 1
            options = {"causal": causal}
            rows.append(
                gma_ref.gaussian_mixture_attention_vjp(q, k, v, *parameters_of(mixture), upstream, **options)["k"]
            )
        for j in range(4):
            D = diameter(-(k[j] - mixture.mu) / mixture.variance)
            slope = np.linalg.norm(np.array(rows)[:, j], 2)
            assert slope <= D * weights[i, j] * np.linalg.norm(v[j] - output[i]) * (1 + 1e-6) + 1e-12


# Lambert's function


def test_lambert_w_is_that_of_scipy():
    z = np.array([0, 1e-300, 1e-8, 0.1, 1 / math.e, 1, math.e, 10, 1e3, 1e10])
    assert_allclose(lambert_w(z), special.lambertw(z).real, rtol=1e-14)
