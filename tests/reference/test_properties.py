"""Properties that hold for any input, on inputs that hypothesis chooses."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

import gma_ref

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


def arrays(*shape, low=-3, high=3):
    return hnp.arrays(np.float64, shape, elements=st.floats(low, high, width=32))


@st.composite
def mixtures(draw, K, d_r):
    mu, omega = draw(arrays(K, d_r)), draw(arrays(K, d_r))
    alpha = draw(arrays(K, low=-5, high=5))
    return gma_ref.GaussianMixture.from_unconstrained(mu, omega, alpha)


@st.composite
def problems(draw, causal=None):
    """A sequence, a mixture, a mask and the mode."""
    N, K, d_r, d_v = (draw(st.integers(1, high)) for high in (6, 4, 3, 3))
    causal = draw(st.booleans()) if causal is None else causal
    N_k = N if causal else draw(st.integers(1, 6))
    q, k, v = draw(arrays(N, d_r)), draw(arrays(N_k, d_r)), draw(arrays(N_k, d_v))
    options = {"causal": causal, "key_mask": draw(st.none() | hnp.arrays(np.bool_, (N_k,)))}
    options["eps"] = draw(st.sampled_from([0.0, 1e-6, 0.3]))
    return (q, k, v, draw(mixtures(K, d_r))), options


def routings(q, k, mixture):
    return gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)


@given(problems())
def test_responsibilities_sum_to_one(problem):
    (q, k, _, mixture), _ = problem
    for gamma in routings(q, k, mixture):
        assert (gamma >= 0).all()
        assert_allclose(gamma.sum(axis=-1), 1, rtol=1e-14)


@given(problems())
def test_slots_hold_the_number_of_keys_that_take_part(problem):
    (_, k, v, mixture), options = problem
    gamma_k = gma_ref.responsibilities(k, mixture)
    takes_part = np.ones(len(k), bool) if options["key_mask"] is None else options["key_mask"]
    memory = gma_ref.write_memory(gamma_k, v, options["key_mask"])
    assert_allclose(memory.Z.sum(), takes_part.sum(), rtol=1e-13)
    prefixes = gma_ref.prefix_memory(gamma_k, v, options["key_mask"])
    assert_allclose(prefixes.Z.sum(axis=-1), np.cumsum(takes_part), rtol=1e-13)


@given(problems())
def test_output_is_the_weights_times_the_values(problem):
    (q, k, v, mixture), options = problem
    weights = gma_ref.attention_weights(*routings(q, k, mixture), **options)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, **options)
    assert_allclose(output, np.einsum("ij,jc->ic", weights, v), **CLOSE)


@given(problems())
def test_outputs_stay_in_the_hull_of_the_values_and_zero(problem):
    (q, k, v, mixture), options = problem
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, **options)
    mask, causal = options["key_mask"], options["causal"]
    for i, row in enumerate(output):
        seen = np.arange(len(v)) <= i if causal else np.ones(len(v), bool)
        seen = v[seen if mask is None else seen & mask]
        for direction in np.concatenate([np.eye(v.shape[1]), -np.eye(v.shape[1]), np.ones((1, v.shape[1]))]):
            assert row @ direction <= max([0, *(seen @ direction)]) + 1e-12
    weights = gma_ref.attention_weights(*routings(q, k, mixture), **options)
    assert (weights >= 0).all()
    assert (weights.sum(axis=-1) <= 1 + 1e-12).all()


@given(problems(causal=False), st.randoms(use_true_random=False))
def test_order_of_the_keys_does_not_matter(problem, random):
    (q, k, v, mixture), options = problem
    order = random.sample(range(len(k)), len(k))
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, **options)
    if options["key_mask"] is not None:
        options = options | {"key_mask": options["key_mask"][order]}
    again = gma_ref.gaussian_mixture_attention(q, k[order], v[order], mixture, **options)
    assert_allclose(again, output, **CLOSE)


@given(problems(), st.randoms(use_true_random=False))
def test_order_of_the_components_does_not_matter(problem, random):
    (q, k, v, mixture), options = problem
    order = random.sample(range(mixture.num_components), mixture.num_components)
    permuted = gma_ref.GaussianMixture(mixture.mu[order], mixture.variance[order], mixture.log_prior[order])
    assert_allclose(gma_ref.responsibilities(q, permuted), gma_ref.responsibilities(q, mixture)[:, order], rtol=1e-12)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, **options)
    assert_allclose(gma_ref.gaussian_mixture_attention(q, k, v, permuted, **options), output, **CLOSE)


@given(problems(), st.data())
def test_units_and_origin_of_the_routing_vectors_do_not_matter(problem, data):
    # x → a x + b with a ≠ 0 in each coordinate, and with it μ → a μ + b, σ → |a| σ
    (q, k, v, mixture), options = problem
    d_r = mixture.routing_dim
    size, sign = data.draw(arrays(d_r, low=0.25, high=4)), data.draw(hnp.arrays(np.bool_, d_r))
    a, b = np.where(sign, size, -size), data.draw(arrays(d_r))
    mapped = gma_ref.GaussianMixture(a * mixture.mu + b, a**2 * mixture.variance, mixture.log_prior)
    gamma = gma_ref.responsibilities(q, mixture)
    assert_allclose(gma_ref.responsibilities(a * q + b, mapped), gamma, rtol=1e-9, atol=1e-11)
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, **options)
    again = gma_ref.gaussian_mixture_attention(a * q + b, a * k + b, v, mapped, **options)
    assert_allclose(again, output, rtol=1e-7, atol=1e-8)


@given(problems(), st.floats(-100, 100), arrays(4))
def test_constant_added_to_alpha_does_not_matter(problem, constant, alpha):
    (q, _, _, mixture), _ = problem
    parameters = mixture.mu, np.ones_like(mixture.mu)
    alpha = alpha[: mixture.num_components]
    one, other = (gma_ref.GaussianMixture.from_unconstrained(*parameters, free) for free in (alpha, alpha + constant))
    assert_allclose(gma_ref.responsibilities(q, other), gma_ref.responsibilities(q, one), rtol=1e-11)


@given(problems(), st.integers(2, 4))
def test_splitting_a_component_divides_its_affinity(problem, parts):
    (q, k, _, mixture), _ = problem
    arrays = [np.concatenate([a[:1]] * parts + [a[1:]]) for a in (mixture.mu, mixture.variance, mixture.log_prior)]
    arrays[2][:parts] -= np.log(parts)
    split = gma_ref.GaussianMixture(*arrays)
    gamma_q, gamma_k = routings(q, k, mixture)
    first = gamma_q[:, :1] * gamma_k[:, :1].T
    expected = gma_ref.affinity(gamma_q, gamma_k) - first + first / parts
    assert_allclose(gma_ref.affinity(*routings(q, k, split)), expected, rtol=1e-10, atol=1e-15)


@given(problems(causal=True))
def test_batch_is_a_loop_over_its_entries(problem):
    (q, k, v, mixture), options = problem
    heads = [gma_ref.GaussianMixture(mixture.mu + shift, mixture.variance, mixture.log_prior) for shift in (0, 1)]
    stacked = gma_ref.GaussianMixture(*(np.stack([getattr(h, name) for h in heads]) for name in mixture.AXES))
    batch = [np.stack([[array, 2 * array]] * 2) for array in (q, k, v)]  # (2, 2, N, width), one mixture per head
    for causal in (False, True):
        options = options | {"causal": causal}
        output = gma_ref.gaussian_mixture_attention(*batch, stacked, **options)
        for b in range(2):
            for h in range(2):
                alone = gma_ref.gaussian_mixture_attention(*(array[b, h] for array in batch), heads[h], **options)
                assert_allclose(output[b, h], alone, **CLOSE)


@given(problems(causal=True), st.lists(st.integers(0, 6), max_size=4))
def test_pieces_make_the_whole(problem, cuts):
    (q, k, v, mixture), options = problem
    mask = np.ones(len(k), bool) if options["key_mask"] is None else options["key_mask"]
    gamma_q, gamma_k = routings(q, k, mixture)
    state = gma_ref.write_memory(gamma_k[:0], v[:0])
    cuts = [0, *sorted(min(cut, len(k)) for cut in cuts), len(k)]
    for start, stop in pairwise(cuts):
        state = gma_ref.update_memory(state, gamma_k[start:stop], v[start:stop], mask[start:stop])
        if stop:  # a read here is the causal output of the last token
            output = gma_ref.read_memory(gamma_q[stop - 1 : stop], state, options["eps"])
            whole = gma_ref.gaussian_mixture_attention(q, k, v, mixture, **options)
            assert_allclose(output, whole[stop - 1 : stop], **CLOSE)
    expected = gma_ref.write_memory(gamma_k, v, mask)
    assert_allclose(state.V_tilde, expected.V_tilde, **CLOSE)
    assert_allclose(state.Z, expected.Z, **CLOSE)
