"""One token without gradients takes a short path, in PyTorch or in C, and gives what the whole sequence gives."""

import itertools

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import gma_ref
from gma_ref import pytorch as gmt
from gma_ref.pytorch import implementations, native, one_token
from tests.examples import draw_problem
from tests.pytorch.blocked_examples import from_unconstrained
from tests.pytorch.test_native import cache, needs_compiler, no_compiler, steps  # noqa: F401  fixtures

BAD = [np.nan, np.inf, -np.inf]
SIZES = [(1, 1, 1), (5, 3, 7), (64, 64, 64), (17, 130, 33), (3, 16, 1)]  # K, d_r, d_v


@pytest.fixture(params=["eager", pytest.param("in C", marks=needs_compiler)])
def short(request, monkeypatch):
    """List the calls that take the short path, in eager mode or in C, with whether the latter gave a result."""
    request.getfixturevalue("steps" if request.param == "in C" else "no_compiler")
    calls = []

    def watched(*arguments):
        made = native.step(*arguments)
        calls.append(made is not None)
        return made

    monkeypatch.setattr(one_token, "native", type("Watched", (), {"step": staticmethod(watched)}))
    return calls


def problem(N=4, dtype=torch.float32, batch=(2,), **sizes):
    """Return arrays, and as tensors q, k, v and a mixture."""
    arrays, _ = draw_problem(N=N, batch=batch, **sizes)
    q, k, v, *parameters = (torch.tensor(array, dtype=dtype) for array in arrays)
    return arrays, (q, k, v, gmt.GaussianMixture(*from_unconstrained(*parameters)))


def step_by_step(q, k, v, mixture, state=None, **options):
    """Return the outputs of a causal sequence, token by token, and the last state."""
    outputs = []
    for t in range(q.shape[-2]):
        tokens = (tensor[..., t : t + 1, :] for tensor in (q, k, v))
        output, state = gmt.gaussian_mixture_attention(
            *tokens, mixture, causal=True, state=state, return_state=True, **options
        )
        outputs.append(output)
    return torch.cat(outputs, dim=-2), state


def reference(arrays, **options):
    """Return the output of the reference; what holds infinity may be subtracted from itself."""
    with np.errstate(invalid="ignore", over="ignore"):
        mixture = gma_ref.GaussianMixture.from_unconstrained(*arrays[3:])
        return gma_ref.gaussian_mixture_attention(*arrays[:3], mixture, causal=True, **options)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("eps", [0.0, 1e-6, 3.0])
def test_steps_give_the_sequence(short, size, eps):
    arrays, given = problem(**dict(zip(("K", "d_r", "d_v"), size, strict=True)))
    output, state = step_by_step(*given, eps=eps)
    np.testing.assert_allclose(output, reference(arrays, eps=eps), rtol=2e-4, atol=1e-5)
    whole = gmt.gaussian_mixture_attention(*given, causal=True, eps=eps, return_state=True, implementation="naive")
    torch.testing.assert_close((output, state), whole, rtol=2e-4, atol=1e-5)
    assert len(short) == 4


@needs_compiler
def test_the_program_takes_the_step(steps, short):  # noqa: F811
    _, given = problem()
    step_by_step(*given)
    assert short == [native.built() is not None] * 4


@pytest.mark.parametrize("held", BAD)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["q", "k", "v"])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_what_is_not_finite_is_felt_as_in_the_reference(short, which, held, eps):
    for at in (0, 1, 3):
        arrays, _ = problem(K=6, d_r=2)
        arrays[3][...] *= 30  # so that some responsibilities are 0 in float32
        arrays[which][1, ..., at, 1] = held
        given = [torch.tensor(array, dtype=torch.float32) for array in arrays]
        given = *given[:3], gmt.GaussianMixture(*from_unconstrained(*given[3:]))
        found, state = step_by_step(*given, eps=eps)
        whole = gmt.gaussian_mixture_attention(*given, causal=True, eps=eps, return_state=True, implementation="naive")
        torch.testing.assert_close((found, state), whole, rtol=1e-3, atol=1e-4, equal_nan=True)
        if which < 2:
            np.testing.assert_array_equal(np.isnan(found.numpy()), np.isnan(reference(arrays, eps=eps)))


@pytest.mark.parametrize("held", BAD)
@pytest.mark.parametrize("part", [0, 1], ids=["V_tilde", "Z"])
def test_a_state_that_is_not_finite_is_felt_as_in_the_naive_form(short, part, held):
    _, (q, k, v, mixture) = problem(N=1)
    state = gmt.write_memory(gmt.responsibilities(k, mixture), v)
    state[part].view(-1)[5] = held
    options = {"causal": True, "state": state, "return_state": True}
    found, expected = (
        gmt.gaussian_mixture_attention(q, k, v, mixture, **options, implementation=name) for name in ("auto", "naive")
    )
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert not torch.isfinite(found[0]).all()
    assert len(short) == 1


@pytest.mark.parametrize("mask", [True, False])
def test_a_mask_is_obeyed(short, mask):
    _, (q, k, v, mixture) = problem(N=1)
    v[0] = np.nan
    state = gmt.write_memory(gmt.responsibilities(k, mixture), torch.ones_like(v))
    options = {"causal": True, "state": state, "key_mask": torch.tensor([mask])}
    output = gmt.gaussian_mixture_attention(q, k, v, mixture, **options)
    assert torch.isfinite(output[0]).all() == (not mask)


@pytest.mark.parametrize(
    "variance", [1e-45, 1e-38, 1e-20, 1e20, 3e38, 0.0, -1.0, np.inf, np.nan], ids=lambda v: f"{v:g}"
)
@pytest.mark.parametrize("everywhere", [False, True], ids=["one", "all"])
def test_odd_variances_give_what_the_naive_form_gives(short, variance, everywhere):
    _, (q, k, v, mixture) = problem(N=1, K=3, d_r=5)
    parameters = mixture.mu, mixture.variance.clone(), mixture.log_prior
    parameters[1][..., slice(None) if everywhere else 2] = variance
    mixture = gmt.GaussianMixture(*parameters)
    found, expected = (
        gmt.gaussian_mixture_attention(q, k, v, mixture, return_state=True, implementation=name)
        for name in ("auto", "naive")
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("far", [1e10, 1e18, 1e25, 3e38])
def test_far_tokens_give_what_the_naive_form_gives(short, far):
    _, (q, k, v, mixture) = problem(N=1, K=3, d_r=5)
    for which, of_which in itertools.product((q, k), (slice(None), slice(1))):
        which[..., of_which] += far
        found, expected = (
            gmt.gaussian_mixture_attention(q, k, v, mixture, return_state=True, implementation=name)
            for name in ("auto", "naive")
        )
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_priors_of_0_count_for_nothing(short):
    x = torch.tensor([[0.3]])
    mixture = gmt.GaussianMixture(torch.tensor([[0.0], [1], [2]]), torch.ones(3, 1), torch.tensor([0, 0.5, 0.5]).log())
    _, state = gmt.gaussian_mixture_attention(x, x, x, mixture, causal=True, return_state=True)
    torch.testing.assert_close(state.Z, torch.tensor([0, 0.76852, 0.23148]), rtol=1e-4, atol=0)
    assert len(short) == 1


def test_layouts_do_not_matter(short):
    _, (q, k, v, mixture) = problem(N=1, d_r=4, d_v=4, batch=(2, 3), heads=(3,))
    expected = gmt.gaussian_mixture_attention(q, k, v, mixture, implementation="naive")
    turned = [tensor.transpose(0, 1).contiguous().transpose(0, 1) for tensor in (q, k, v)]
    strided = [torch.stack([tensor, tensor], dim=-1)[..., 0] for tensor in (q, k, v)]
    for given in (turned, strided):
        torch.testing.assert_close(gmt.gaussian_mixture_attention(*given, mixture), expected, rtol=1e-4, atol=1e-5)
    shared = gmt.GaussianMixture(mixture.mu[0], mixture.variance[0], mixture.log_prior[0])
    for heads in (q, q[0, 0], q[0, :1]):
        found = gmt.gaussian_mixture_attention(heads, heads, heads, shared)
        right = gmt.gaussian_mixture_attention(heads, heads, heads, shared, implementation="naive")
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)
    broadcast = gmt.gaussian_mixture_attention(q[0, 0], k, v, mixture)
    right = gmt.gaussian_mixture_attention(q[0, 0], k, v, mixture, implementation="naive")
    torch.testing.assert_close(broadcast, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("state_dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_are_those_of_the_naive_form(short, dtype, state_dtype):
    _, (q, k, v, mixture) = problem(N=1, dtype=dtype)
    state = gmt.write_memory(gmt.responsibilities(k, mixture), v).to(state_dtype)
    found, expected = (
        gmt.gaussian_mixture_attention(q, k, v, mixture, state=state, return_state=True, implementation=name)
        for name in ("auto", "naive")
    )
    for one, other in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-5)


def test_the_state_is_left_as_it_was(short):
    _, (q, k, v, mixture) = problem(N=1)
    state = gmt.write_memory(gmt.responsibilities(k, mixture), v)
    before = [tensor.clone() for tensor in state]
    _, after = gmt.gaussian_mixture_attention(q, k, v, mixture, state=state, return_state=True)
    assert all(torch.equal(*pair) for pair in zip(state, before, strict=True))
    assert not any(torch.equal(*pair) for pair in zip(state, after, strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the loading of functorch
def test_who_wants_a_derivative_gets_it(short):
    _, (q, k, v, mixture) = problem(N=1, dtype=torch.float64)
    q, k, v, mixture = q.float(), k.float(), v.float(), mixture.to(torch.float32)

    def by(name):
        return lambda q: gmt.gaussian_mixture_attention(q, k, v, mixture, implementation=name)

    direction = torch.ones_like(q)
    for derivative in (
        lambda f: torch.autograd.functional.vjp(f, q, v)[1],
        lambda f: torch.func.jvp(f, (q,), (direction,))[1],
        lambda f: torch.func.grad(lambda q: f(q).sum())(q),
        lambda f: torch.vmap(f)(torch.stack([q, 2 * q])),
        lambda f: dual_derivative(f, q, direction),
    ):
        torch.testing.assert_close(derivative(by("auto")), derivative(by("naive")), rtol=1e-4, atol=1e-6)
    assert not short


def dual_derivative(f, q, direction):
    """Return the derivative in forward mode, without gradients."""
    with torch.no_grad(), forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(q, direction))).tangent


@needs_compiler
def test_native_takes_the_step_too(steps, monkeypatch):  # noqa: F811
    _, (q, k, v, mixture) = problem(N=1)
    taken = []
    step = native.step
    monkeypatch.setattr(implementations.native, "step", lambda *given: taken.append(step(*given)) or taken[-1])
    output = gmt.gaussian_mixture_attention(q, k, v, mixture, implementation="native")
    torch.testing.assert_close(output, taken[0][0], rtol=0, atol=0)
    assert not steps
