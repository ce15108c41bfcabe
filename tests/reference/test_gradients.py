"""The backward pass by hand: Eqs. (17)-(19), G1-G6, on exact cases, and where numbers are extreme."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from gma_ref.reference.memory_gradients import routing_vjp
from tests import oracles
from tests.examples import (
    draw_problem,
    draw_responsibilities,
    every_case,
    every_causal_case,
    key_mask_of,
)

both_modes = pytest.mark.parametrize("causal", [False, True])
NAMES = ("q", "k", "v", "mu", "omega", "alpha")
PARAMETERS = ("mu", "omega", "alpha")
MASK = np.array([True, False, True, True, False, True])


def vjp_of(case, mode):
    given = case.inputs
    arrays = [getattr(given, name) for name in NAMES]
    options = {"eps": given.eps, "eps_sigma": given.eps_sigma, "key_mask": key_mask_of(case)}
    upstream = getattr(case, mode).upstream
    return gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=mode == "causal", **options)


def check_case(case, mode):
    found, exact = vjp_of(case, mode), vars(getattr(case, mode).gradients)
    assert set(found) == set(exact)
    for name, gradient in exact.items():
        # entry by entry; what is 0 but for rounding, as with identical components, may be off by a few roundings
        assert_allclose(found[name], gradient, rtol=1e-9, atol=1e-15 * (np.abs(gradient).max() < 1e-15), err_msg=name)


@every_case
def test_gradients_are_the_exact_ones(case):
    check_case(case, "bidirectional")
    if hasattr(case, "causal"):
        check_without_the_last_token(case)


def check_without_the_last_token(case):
    """A last token without an upstream gradient is as good as none, causally, whatever it holds."""
    given, mask = case.inputs, key_mask_of(case)
    tokens, others = [given.q * 1.0, given.k * 1.0, given.v * 1.0], [given.mu, given.omega, given.alpha]
    upstream = case.causal.upstream * 1.0
    for array, held in zip((*tokens, upstream), (np.nan, np.nan, np.nan, 0), strict=True):
        array[..., -1, :] = held
    options = {"eps": given.eps, "eps_sigma": given.eps_sigma, "causal": True}
    found = vjp([*tokens, *others], upstream, key_mask=mask, **options)
    shorter = [array[..., :-1, :] for array in (*tokens, upstream)]
    mask = None if mask is None else mask[..., :-1]
    expected = vjp([*shorter[:3], *others], shorter[3], key_mask=mask, **options)
    for name in NAMES:
        gradient = found[name][..., :-1, :] if name in "qkv" else found[name]
        assert_allclose(gradient, expected[name], rtol=1e-9, atol=1e-15, err_msg=name)


@every_causal_case
def test_causal_gradients_are_the_exact_ones(case):
    check_case(case, "causal")


# The softmax: Eqs. (17), (17b), (18)


def shifted(function, x, index, step):
    """Central difference of a function in one entry of its array."""
    moved = [x.copy(), x.copy()]
    moved[0][index] += step
    moved[1][index] -= step
    return (function(moved[0]) - function(moved[1])) / (2 * step)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_softmax_jacobian_is_the_change_of_the_softmax(batch):
    s = np.random.default_rng(0).normal(size=(*batch, 2, 4))
    jacobian = gma_ref.softmax_jacobian(oracles.softmax(s))
    assert jacobian.shape == (*batch, 2, 4, 4)
    for index in np.ndindex(s.shape):
        change = shifted(oracles.softmax, s, index, 1e-5)
        assert_allclose(jacobian[index[:-1]][:, index[-1]], change[index[:-1]], rtol=1e-8, atol=1e-10)


def test_self_sensitivity_is_largest_at_one_half_and_vanishes_at_certainty():
    gamma = np.array([[[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]]])
    jacobian = gma_ref.softmax_jacobian(gamma)
    assert_array_equal(np.diagonal(jacobian, axis1=-2, axis2=-1), [[[0.25, 0.25], [0, 0], [0.1875, 0.1875]]])
    p = np.linspace(0, 1, 101)
    own = gma_ref.softmax_jacobian(np.stack([p, 1 - p], axis=-1))[:, 0, 0]
    assert own.argmax() == 50
    assert_allclose(own, 0.25 - (p - 0.5) ** 2, atol=1e-16)  # the sigmoid's parabola


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_score_gradient_is_the_jacobian_times_the_upstream_gradient(batch):
    rng = np.random.default_rng(0)
    gamma, g = draw_responsibilities(batch=batch)[0], rng.normal(size=(*batch, 6, 4))
    delta = gma_ref.score_gradient(gamma, g)
    for index in np.ndindex(gamma.shape):
        row, k = index[:-1], index[-1]
        expected = sum(gamma[(*row, j)] * ((j == k) - gamma[index]) * g[(*row, j)] for j in range(4))
        assert_allclose(delta[index], expected, rtol=1e-12, atol=1e-15)
    assert_allclose(delta.sum(axis=-1), 0, atol=1e-16)


def test_score_gradient_near_certainty_keeps_its_digits():
    # γ = (1 − 2e-30, 1e-30, 1e-30): the first entry is the small difference of two numbers near 1
    delta = gma_ref.score_gradient([[1.0, 1e-30, 1e-30]], [[3.0, 5.0, 6.0]])
    assert_allclose(delta, [[-5e-30, 2e-30, 3e-30]], rtol=1e-14)


# The scores: Eq. (19), G1-G5


@pytest.mark.parametrize("eps_sigma", [1e-6, 0.3])
def test_score_jacobians_are_the_changes_of_the_scores(eps_sigma):
    (x, _, _, mu, omega, alpha), _ = draw_problem(N=2, K=3, batch=(2, 1))
    alpha += 500  # whose exponential does not fit
    arrays = {"x": x, "mu": mu, "omega": omega, "alpha": alpha}
    jacobians = gma_ref.score_jacobians(**arrays, eps_sigma=eps_sigma)

    def scores(x, mu, omega, alpha):
        log_prior = np.log(oracles.softmax(alpha))
        return oracles.scores(x, mu, np.log1p(np.exp(omega)) + eps_sigma, log_prior)

    for name, array in arrays.items():
        for b, one, *rest in np.ndindex(array.shape):
            index = b, one, *rest
            change = shifted(lambda moved, name=name: scores(**arrays | {name: moved}), array, index, 1e-5)[b, 0]
            expected = np.zeros((2, 3))
            if name == "x":
                expected[rest[0]] = jacobians[name][b, 0, rest[0], :, rest[1]]
            elif name == "alpha":
                expected[:] = jacobians[name][b, 0, :, rest[0]]
            else:
                expected[:, rest[0]] = jacobians[name][b, 0, :, rest[0], rest[1]]
            assert_allclose(change, expected, rtol=1e-8, atol=1e-9, err_msg=name)


def test_responsibilities_answer_to_a_mean_as_the_two_jacobians_say():
    # G2: through the mean of its own component, and of another's
    (x, _, _, mu, omega, alpha), _ = draw_problem(N=2, K=3)
    variance, log_prior = np.log1p(np.exp(omega)) + 1e-6, np.log(oracles.softmax(alpha))
    gamma = oracles.responsibilities(x, mu, variance, log_prior)
    by_score = gma_ref.softmax_jacobian(gamma)
    for b, k, m in np.ndindex(mu.shape):
        pull = (x[b, :, m] - mu[b, k, m]) / variance[b, k, m]
        change = shifted(
            lambda moved: oracles.responsibilities(x, moved, variance, log_prior), mu, (b, k, m), step=1e-5
        )[b]
        assert_allclose(by_score[b, :, :, k] * pull[:, None], change, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(
    ("heads", "summed"),
    [((3, 1, 2), ()), ((), (0, 1, 2)), ((2,), (0, 1)), ((1,), (0, 1, 2)), ((3, 1, 1), (2,))],
    ids=str,
)
def test_score_vjp_sums_the_jacobians(heads, summed):
    (x, _, _, mu, omega, alpha), _ = draw_problem(heads=heads)  # x is shared by the first axes
    delta = np.random.default_rng(0).normal(size=(3, 1, 2, 6, 4))
    delta -= delta.mean(axis=-1, keepdims=True)  # rows sum to 0, as those of Eq. (18) do
    found = gma_ref.score_vjp(x, mu, omega, delta, 0.1)
    distance, variance = x[..., :, None, :] - mu[..., None, :, :], np.log1p(np.exp(omega))[..., None, :, :] + 0.1
    by_mu = np.broadcast_to(distance / variance, (3, 1, 2, 6, 4, 3))
    by_variance = (distance**2 / variance - 1) / (2 * variance)
    by_omega = np.broadcast_to(by_variance / (1 + np.exp(-omega))[..., None, :, :], by_mu.shape)
    assert_allclose(found["x"], -np.einsum("azbik,azbikm->bim", delta, by_mu), rtol=1e-11, atol=1e-13)
    for name, jacobian in {"mu": by_mu, "omega": by_omega}.items():
        expected = np.einsum("azbik,azbikm->azbkm", delta, jacobian).sum(axis=summed).reshape(mu.shape)
        assert_allclose(found[name], expected, rtol=1e-11, atol=1e-13)
    by_alpha = np.broadcast_to(np.eye(4) - oracles.softmax(alpha[..., None, :]), (3, 1, 2, 4, 4))
    assert_allclose(found["alpha"], np.einsum("azbik,azbkj->azbj", delta, by_alpha), rtol=1e-11, atol=1e-13)


# The read and the write, backwards: G6


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
def test_read_backwards_is_the_change_of_the_read(eps):
    gamma_q, gamma_k, v = draw_responsibilities()
    upstream = np.random.default_rng(1).normal(size=v.shape)
    memory = oracles.write(gamma_k, v, np.ones(6, bool))
    gamma_q_bar, memory_bar = gma_ref.read_memory_vjp(gamma_q, gma_ref.Memory(*memory), upstream, eps)
    inputs = [gamma_q, *memory]
    for a, found in enumerate([gamma_q_bar, *memory_bar]):
        check_change(
            lambda moved, a=a: (upstream * oracles.read(*inputs[:a], moved, *inputs[a + 1 :], eps=eps)).sum(),
            inputs[a],
            found,
        )


@pytest.mark.parametrize("mask", [np.ones(6, bool), MASK], ids=["all", "masked"])
def test_write_backwards_is_the_change_of_the_write(mask):
    _, gamma_k, v = draw_responsibilities()
    rng = np.random.default_rng(1)
    bars = rng.normal(size=(2, 4, 5)), rng.normal(size=(2, 4))
    found = gma_ref.write_memory_vjp(gamma_k, v, gma_ref.Memory(*bars), mask)
    inputs = [gamma_k, v]
    for a in (0, 1):

        def loss(moved, a=a):
            memory = oracles.write(*inputs[:a], moved, *inputs[a + 1 :], mask)
            return sum((bar * part).sum() for bar, part in zip(bars, memory, strict=True))

        check_change(loss, inputs[a], found[a])


def check_change(loss, array, found):
    assert found.shape == array.shape
    for index in np.ndindex(array.shape):
        assert_allclose(found[index], shifted(loss, array, index, 1e-5), rtol=1e-7, atol=1e-8)


@both_modes
@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
def test_gradients_that_reach_the_scores_are_g6_followed_by_eq_18(eps, causal):
    gamma_q, gamma_k, v = draw_responsibilities()
    upstream = np.random.default_rng(1).normal(size=v.shape)
    delta_q, delta_k, by_v = routing_vjp(gamma_q, gamma_k, v, upstream, causal=causal, eps=eps)
    gamma_q_bar, gamma_k_bar, v_bar = np.zeros_like(gamma_q), np.zeros_like(gamma_k), np.zeros_like(v)
    for i in range(6):  # query i alone, and the memory that it reads
        seen = np.arange(6) <= i if causal else np.ones(6, bool)
        memory = gma_ref.Memory(*oracles.write(gamma_k, v, seen))
        row = slice(i, i + 1)
        gamma_q_bar[:, row], memory_bar = gma_ref.read_memory_vjp(gamma_q[:, row], memory, upstream[:, row], eps)
        from_i = gma_ref.write_memory_vjp(gamma_k, v, memory_bar, seen)
        gamma_k_bar += from_i[0]
        v_bar += from_i[1]
    assert_allclose(delta_q, gma_ref.score_gradient(gamma_q, gamma_q_bar), rtol=1e-10, atol=1e-13)
    assert_allclose(delta_k, gma_ref.score_gradient(gamma_k, gamma_k_bar), rtol=1e-10, atol=1e-13)
    assert_allclose(by_v, v_bar, rtol=1e-11)


def test_score_gradients_are_bounded_where_those_of_the_responsibilities_are_not():
    # B2: a query on a slot that no key wrote to
    gamma_q, gamma_k, v = np.array([[1.0, 1e-9]]), np.array([[1e-9, 1.0]]), np.array([[1.0]])
    memory = gma_ref.write_memory(gamma_k, v)
    assert np.abs(gma_ref.read_memory_vjp(gamma_q, memory, [[1.0]])[0]).max() > 9e5
    delta_q, _, _ = routing_vjp(gamma_q, gamma_k, v, np.ones((1, 1)), causal=False, eps=1e-6)
    assert np.abs(delta_q).max() < 2e-3


# Projections: G5


def test_project_backwards_is_the_change_of_the_projections():
    rng = np.random.default_rng(0)
    x, w_q, w_k, w_v = (rng.normal(size=shape) for shape in ((1, 3, 4), (2, 4, 2), (4, 2), (2, 4, 5)))
    bars = [rng.normal(size=(2, 3, width)) for width in (2, 2, 5)]
    found = gma_ref.project_vjp(x, w_q, w_k, w_v, *bars)
    arrays = {"x": x, "w_q": w_q, "w_k": w_k, "w_v": w_v}
    assert list(found) == list(arrays)
    for name, array in arrays.items():

        def loss(moved, name=name):
            x, *weights = (arrays | {name: moved}).values()
            return sum((bar * oracles.product(x, w)).sum() for bar, w in zip(bars, weights, strict=True))

        check_change(loss, array, found[name])


# What must be zero, and what must be finite


def vjp(arrays, upstream, **options):
    return gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, **options)


@both_modes
@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_masked_keys_get_no_gradient_and_give_none(eps, held, causal):
    arrays, upstream = draw_problem()
    options = {"causal": causal, "eps": eps, "key_mask": MASK}
    clean = vjp(arrays, upstream, **options)
    assert_array_equal(clean["k"][:, ~MASK], 0)
    assert_array_equal(clean["v"][:, ~MASK], 0)
    arrays[1][:, ~MASK] = held
    arrays[2][:, ~MASK] = held
    for name, gradient in vjp(arrays, upstream, **options).items():
        assert_array_equal(gradient, clean[name])


@both_modes
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_rows_that_no_key_reaches_get_no_gradient(eps, causal):
    arrays, upstream = draw_problem()
    mask = np.array([[True] * 6, [False] * 6])
    found = vjp(arrays, upstream, causal=causal, eps=eps, key_mask=mask)
    for name in NAMES:
        assert_array_equal(found[name][1], 0)
    alone = vjp([array[0] for array in arrays], upstream[0], causal=causal, eps=eps)
    for name in NAMES:
        assert_allclose(found[name][0], alone[name], rtol=1e-12)
    late = vjp(arrays, upstream, causal=causal, eps=eps, key_mask=np.arange(6) >= 3)
    assert (late["q"][:, :3] == 0).all() == causal


@both_modes
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_query_on_an_unwritten_slot_gets_a_finite_gradient(eps, causal):
    # responsibilities fall to 1e-300 and below: the denominator is that small, or 0
    for distance, side in product((5, 20, 26.2, 26.5, 27, 30, 1e3, 1e160), ([1, 1, 1], [1, -1, 1], [1, 1, -1])):
        q, x = np.array([[-distance], [distance], [-distance]]), distance * np.array(side)[:, None]
        mu, zeros = np.array([[-distance], [distance]]), np.zeros((2, 1))
        arrays = [q, x, np.array([[1.0], [-2], [3]]), mu, zeros, np.zeros(2)]
        found = vjp(arrays, np.array([[1.0], [2], [3]]), causal=causal, eps=eps)
        for name in NAMES:
            assert np.isfinite(found[name]).all(), (name, distance)
        assert np.abs(found["v"]).max() <= 6  # Σ|G|: no weight exceeds 1
        assert np.abs(found["alpha"]).max() <= 6 * 6 * 2  # score gradients are bounded by ⟨G, V − o⟩


@both_modes
def test_float32_keeps_its_range_without_eps(causal):
    # denominators of 1e-40, whose inverse float32 cannot hold
    q, x = np.float32([[-10]]), np.float32([[10]])
    mu, zeros = np.float32([[-10], [10]]), np.zeros((2, 1), np.float32)
    variance_of_2 = zeros + np.float32(np.log(np.expm1(2.17)))
    arrays = [q, x, np.ones((1, 1), np.float32), mu, variance_of_2, np.zeros(2, np.float32)]
    found = vjp(arrays, np.ones((1, 1), np.float32), causal=causal, eps=0)
    assert_array_equal(found["v"], 1)
    for name in NAMES:
        assert np.isfinite(found[name]).all(), name


@both_modes
def test_component_of_prior_zero_gets_no_gradient(causal):
    arrays, upstream = draw_problem()
    arrays[5][:, 2] = -np.inf
    found = vjp(arrays, upstream, causal=causal)
    for name in PARAMETERS:
        assert_array_equal(found[name][:, 2], 0)
    without = [*arrays[:3], *(np.delete(array, 2, axis=1) for array in arrays[3:])]
    for name, gradient in vjp(without, upstream, causal=causal).items():
        whole = np.delete(found[name], 2, axis=1) if name in PARAMETERS else found[name]
        assert_allclose(whole, gradient, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("omega", [-1000.0, -700.0, 700.0, 1000.0, 1e300])
@pytest.mark.parametrize("alpha", [0.0, 1e3, 1e308])
def test_extreme_parameters_give_finite_gradients(omega, alpha):
    arrays, upstream = draw_problem()
    arrays[4][:, 1, :] = omega
    arrays[5][:, 0], arrays[5][:, 1] = alpha, -alpha
    for gradient in vjp(arrays, upstream).values():
        assert np.isfinite(gradient).all()
    arrays[4][...] = max(omega, -700)
    for gradient in vjp(arrays, upstream, eps_sigma=0).values():
        assert np.isfinite(gradient).all()


@both_modes
@pytest.mark.parametrize("batch", [(0, 3), (3,), ()], ids=str)
@pytest.mark.parametrize(("N", "N_k"), [(0, 0), (1, 1), (0, 4), (4, 0)])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_smallest_inputs_have_gradients_of_their_shapes(eps, N, N_k, batch, causal):
    for K, d_v in ((1, 2), (4, 2), (4, 0)):
        arrays, upstream = draw_problem(N=N, N_k=N_k, K=K, d_v=d_v, batch=batch, heads=())
        if causal and N_k != N:
            with pytest.raises(ValueError, match="causal=True must get as many queries as keys"):
                vjp(arrays, upstream, causal=True)
            continue
        found = vjp(arrays, upstream, causal=causal, eps=eps)
        for name, array in zip(NAMES, arrays, strict=True):
            assert found[name].shape == array.shape
            assert np.isfinite(found[name]).all()
        if K == 1 or N == 0 or N_k == 0:  # every output is a mean of values, wherever the queries are
            for name in ("q", "k", *PARAMETERS):
                assert_array_equal(found[name], 0)


@both_modes
def test_constant_values_have_no_gradient_but_their_own(causal):
    # V ≡ 1 makes O ≡ 1 at ε = 0, through numerator and denominator alike
    arrays, upstream = draw_problem()
    arrays[2][...] = 1
    found = vjp(arrays, upstream, causal=causal, eps=0)
    for name in NAMES:
        assert (np.abs(found[name]).max() < 1e-13) == (name != "v")


@both_modes
def test_gradients_share_no_memory_with_their_inputs_and_change_none(causal):
    arrays, upstream = draw_problem()
    for array in (*arrays, upstream):
        array.flags.writeable = False
    for gradient in vjp(arrays, upstream, causal=causal).values():
        assert gradient.flags.writeable
        assert not any(np.shares_memory(gradient, array) for array in (*arrays, upstream))


@both_modes
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble])
@pytest.mark.usefixtures("without_shape_checks")
def test_each_gradient_has_the_dtype_of_its_argument(dtype, causal):
    arrays, upstream = draw_problem()
    exact = vjp(arrays, upstream, causal=causal)
    tolerance = {np.float16: 2e-2, np.float32: 1e-4}.get(dtype, 1e-12)
    for own in range(6):
        mixed = [array.astype(dtype) if a == own else array for a, array in enumerate(arrays)]
        for a, (name, gradient) in enumerate(vjp(mixed, upstream, causal=causal).items()):
            assert gradient.dtype == (dtype if a == own else np.float64)
            assert_allclose(gradient, exact[name], rtol=tolerance, atol=tolerance)
    found = vjp([array.astype(dtype) for array in arrays], upstream.astype(dtype), causal=causal)
    assert {gradient.dtype for gradient in found.values()} == {np.dtype(dtype)}
    for name, gradient in found.items():
        assert_allclose(gradient, exact[name], rtol=5 * tolerance, atol=5 * tolerance)
