"""Which numbers come in, in which they are summed, and in which the answer comes out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from tests.examples import draw, draw_responsibilities

ONE = gma_ref.GaussianMixture([[0.0]], [[1.0]], [0.0])  # one component: every output is a mean
DTYPES = [np.float16, np.float32, np.float64, np.longdouble]
both_modes = pytest.mark.parametrize("causal", [False, True])


def in_dtype(mixture, dtype):
    # priors in float16 would not sum to 1 closely enough to be accepted
    dtypes = dtype, dtype, np.promote_types(dtype, np.float32)
    arrays = zip(mixture.AXES, dtypes, strict=True)
    return gma_ref.GaussianMixture(*(getattr(mixture, name).astype(dtype) for name, dtype in arrays))


@both_modes
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("without_shape_checks")
def test_attention_has_the_dtype_of_its_values(dtype, causal):
    q, k, v, mixture = draw()
    exact = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
    similar = gma_ref.scaled_dot_product_attention(q, k, v, causal=causal)
    tolerance = {np.float16: 2e-3, np.float32: 1e-5}.get(dtype, 1e-12)
    for others in (np.float64, dtype):
        q, k, v = q.astype(others), k.astype(others), v.astype(dtype)
        output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
        assert output.dtype == dtype
        assert_allclose(output, exact, rtol=tolerance, atol=tolerance)
        output = gma_ref.scaled_dot_product_attention(q, k, v, causal=causal)
        assert output.dtype == dtype
        assert_allclose(output, similar, rtol=tolerance, atol=tolerance)


@both_modes
@pytest.mark.usefixtures("without_shape_checks")
def test_long_doubles_keep_their_digits(causal):
    q, k, v, mixture = draw(d_v=5)
    v = v.astype(np.longdouble)
    smallest = np.finfo(np.longdouble).eps
    v[..., 1] = v[..., 0] + 4 * np.abs(v).max() * smallest  # closer than float64 can tell
    output = gma_ref.gaussian_mixture_attention(q, k, v, in_dtype(mixture, np.longdouble), causal=causal)
    assert (output[..., 1] != output[..., 0]).all()
    output = gma_ref.scaled_dot_product_attention(q, k, v, causal=causal)
    assert (output[..., 1] != output[..., 0]).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_scores_and_sums_are_in_float32_at_least(dtype):
    q, k, v, mixture = draw()
    q, k, v, mixture = q.astype(dtype), k.astype(dtype), v.astype(dtype), in_dtype(mixture, dtype)
    assert {getattr(mixture, name).dtype for name in mixture.AXES} == {np.dtype(np.float32)}
    gamma = gma_ref.responsibilities(q, mixture).astype(dtype)
    memory = gma_ref.write_memory(gamma, v)
    results = [gma_ref.log_density(q, mixture), gma_ref.scores(q, mixture), gma_ref.responsibilities(q, mixture)]
    results += [*memory, *gma_ref.prefix_memory(gamma, v), *gma_ref.update_memory(memory, gamma, v)]
    results += [gma_ref.read_memory(gamma, memory), gma_ref.affinity(gamma, gamma)]
    results += [gma_ref.attention_weights(gamma, gamma), *gma_ref.project(q, *[np.ones((3, 2), dtype)] * 3)]
    assert {result.dtype for result in results} == {np.dtype(np.float32)}


@both_modes
def test_sums_over_keys_are_not_kept_in_16_bits(causal):
    # a mean of 3,000 zeros and 1,096 ones; a running sum in float16 stops at 2,048
    x = np.zeros((4096, 1), np.float16)
    v = (np.arange(4096) >= 3000).astype(np.float16)[:, None]
    output = gma_ref.gaussian_mixture_attention(x, x, v, ONE, causal=causal)
    assert output.dtype == np.float16
    assert_allclose(output[-1], 0.2676, atol=2e-4)


def test_float16_mixture_becomes_float32_before_it_is_used():
    half = np.float16([[0.1], [0.3]])
    mixture = gma_ref.GaussianMixture(half, half, np.log(np.float32([0.5, 0.5])))
    gamma = gma_ref.responsibilities(np.float16([[0.2]]), mixture)
    exact = gma_ref.responsibilities(np.float64(np.float16([[0.2]])), in_dtype(mixture, np.float64))
    assert_allclose(gamma, exact, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, np.uint64, "list", "nested lists of float"])
def test_integers_and_lists_become_float64(kind):
    q, k, v = [[0, 1, 2]], [[1, 2, 3], [3, 0, 1]], [[1, 2], [3, 4]]
    mu, variance = [[0, 1, 2], [2, 1, 0]], [[1, 1, 2], [2, 1, 1]]
    log_prior = np.log([0.5, 0.5])
    expected = gma_ref.gaussian_mixture_attention(
        *map(np.float64, (q, k, v)), gma_ref.GaussianMixture(*map(np.float64, (mu, variance)), log_prior)
    )
    if isinstance(kind, type):
        q, k, v, mu, variance = (np.array(a, kind) for a in (q, k, v, mu, variance))
    elif kind != "list":
        q, k, v = (np.array(a, float).tolist() for a in (q, k, v))
    mixture = gma_ref.GaussianMixture(mu, variance, list(log_prior))
    output = gma_ref.gaussian_mixture_attention(q, k, v, mixture)
    assert output.dtype == mixture.mu.dtype == np.float64
    assert_array_equal(output, expected)


# Memory layout, and whose memory it is


@both_modes
def test_transposed_sliced_expanded_and_read_only_inputs_equal_their_contiguous_twins(causal):
    q, k, v, mixture = draw()
    expected = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal)
    same = gma_ref.scaled_dot_product_attention(q, k, v, causal=causal)
    layouts = {
        "transposed": lambda a: np.swapaxes(np.ascontiguousarray(np.swapaxes(a, 1, 2)), 1, 2),
        "sliced": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        "reversed": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
        "Fortran": np.asfortranarray,
        "read-only": lambda a: np.broadcast_to(a, a.shape),
        "unaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
    }
    for change in layouts.values():
        changed = [change(array) for array in (q, k, v)]
        twin = gma_ref.GaussianMixture(change(mixture.mu), change(mixture.variance), mixture.log_prior)
        assert_allclose(gma_ref.gaussian_mixture_attention(*changed, twin, causal=causal), expected, rtol=1e-13)
        assert_allclose(gma_ref.scaled_dot_product_attention(*changed, causal=causal), same, rtol=1e-13)


@both_modes
def test_inputs_that_broadcast_equal_their_expanded_twins(causal):
    q, k, v, mixture = draw(batch=(2, 3), heads=())
    mask = np.arange(6) % 2 == 0
    shared = (q[0, :1], k[0], v[:, :1])  # (1, N, d_r), (3, N, d_r), (2, 1, N, d_v)
    output = gma_ref.gaussian_mixture_attention(*shared, mixture, causal=causal, key_mask=mask)
    expanded = [np.broadcast_to(array, (2, 3, *array.shape[-2:])).copy() for array in shared]
    assert output.shape == (2, 3, 6, 5)
    expected = gma_ref.gaussian_mixture_attention(*expanded, mixture, causal=causal, key_mask=mask)
    assert_allclose(output, expected, rtol=1e-13)
    dot = gma_ref.scaled_dot_product_attention(*shared, causal=causal)
    assert_allclose(dot, gma_ref.scaled_dot_product_attention(*expanded, causal=causal), rtol=1e-13)
    gamma_k = gma_ref.responsibilities(shared[1], mixture)
    for function in (gma_ref.write_memory, gma_ref.prefix_memory):
        for array, other in zip(
            function(gamma_k, shared[2]), function(np.broadcast_to(gamma_k, (2, 3, 6, 4)), expanded[2]), strict=True
        ):
            assert array.shape == other.shape
            assert_allclose(array, other, rtol=1e-13)


def every_result(q, k, v, mixture, mask):
    gamma_q, gamma_k = gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture)
    yield [q, mixture], [gma_ref.log_density(q, mixture), gma_ref.scores(q, mixture), gamma_q]
    for causal in (False, True):
        yield (
            [q, k, v, mixture, mask],
            [gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal, key_mask=mask)],
        )
        yield [q, k, v], [gma_ref.scaled_dot_product_attention(q, k, v, causal=causal)]
        weights = gma_ref.attention_weights(gamma_q, gamma_k, causal=causal, key_mask=mask)
        yield [gamma_q, gamma_k, mask], [weights, gma_ref.affinity(gamma_q, gamma_k)]
    memory = gma_ref.write_memory(gamma_k, v, mask)
    yield [gamma_k, v, mask], [*memory, *gma_ref.prefix_memory(gamma_k, v, mask)]
    yield [*memory, gamma_k, v, mask], [*gma_ref.update_memory(memory, gamma_k, v, mask)]
    yield [gamma_q, *memory], [gma_ref.read_memory(gamma_q, memory)]
    w = np.eye(3)
    yield [q, w], [*gma_ref.project(q, w, w, w)]
    empty = gma_ref.update_memory(memory, gamma_k[:, :0], v[:, :0])
    yield [*memory], [*empty]


def arrays_in(values):
    for value in values:
        if isinstance(value, gma_ref.GaussianMixture):
            yield from (getattr(value, name) for name in value.AXES)
        elif value is not None:
            yield value


@pytest.mark.parametrize("mask", [None, np.arange(6) != 2], ids=["all", "masked"])
def test_results_share_no_memory_with_inputs(mask):
    for inputs, results in every_result(*draw(), mask):
        for result in results:
            assert result.flags.writeable
            assert not any(np.shares_memory(result, array) for array in arrays_in(inputs))


@pytest.mark.parametrize("mask", [None, np.arange(6) != 2], ids=["all", "masked"])
def test_inputs_are_unchanged_bit_for_bit(mask):
    inputs = [*draw(), mask]
    before = [array.tobytes() for array in arrays_in(inputs)]
    for array in arrays_in(inputs):
        array.flags.writeable = False  # and writing in place would raise
    for given, _ in every_result(*inputs):
        for array in arrays_in(given):
            array.flags.writeable = False
    assert [array.tobytes() for array in arrays_in(inputs)] == before


def test_memories_are_updated_into_new_arrays():
    _, gamma_k, v = draw_responsibilities()
    memory = gma_ref.write_memory(gamma_k, v)
    before = [array.tobytes() for array in memory]
    for array in memory:
        array.flags.writeable = False
    gma_ref.update_memory(memory, gamma_k, v)
    assert [array.tobytes() for array in memory] == before


@pytest.mark.usefixtures("without_shape_checks")
def test_long_doubles_reach_the_linear_algebra_of_numpy():
    x, _, _, _ = draw(N=7, batch=())
    long = x.astype(np.longdouble)
    assert_allclose(gma_ref.effective_rank(long), gma_ref.effective_rank(x), rtol=1e-12)
    ones, mu = np.ones((7, 1)), np.zeros((1, 3))
    assert_allclose(gma_ref.batch_mahalanobis(long, ones, mu), gma_ref.batch_mahalanobis(x, ones, mu), rtol=1e-12)
