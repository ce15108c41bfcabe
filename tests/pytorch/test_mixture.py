"""The mixture: densities in log space, no cancellation, variances that are variances, and a container of tensors."""

import copy
import dataclasses
import io
import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gma_ref
from gma_ref import pytorch as gmt
from tests.examples import draw_mixture
from tests.pytorch.problems import every_device, every_implementation

every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def mixture_of(mu, sigma, prior, dtype=torch.float64):
    """Return a mixture of components that are equally broad in all directions."""
    mu = torch.tensor(mu, dtype=dtype)
    variance = torch.tensor(sigma, dtype=dtype).square().unsqueeze(-1).expand(mu.shape)
    return gmt.GaussianMixture(mu, variance, torch.tensor(prior, dtype=dtype).log())


def routing(x, mixture, implementation):
    """Return the responsibilities by which an implementation reads: of slots that hold unit vectors, one key each."""
    K = mixture.num_components
    state = gmt.Memory(torch.eye(K, dtype=x.dtype, device=x.device), torch.ones(K, dtype=x.dtype, device=x.device))
    nothing = x[..., :0, :], x.new_zeros(*x.shape[:-2], 0, K)
    options = {"state": state, "eps": 0, "implementation": implementation}
    return gmt.gaussian_mixture_attention(x, *nothing, mixture, **options)


@every_implementation
@every_dtype
def test_responsibilities_of_known_numbers(dtype, implementation):
    halves = [0.5, 0.5]
    table = [
        (mixture_of([[0.0], [0]], [1.0, 2], halves, dtype), [[0.0], [2]], [[2 / 3, 1 / 3], [0.30856, 0.69144]]),
        (mixture_of([[0.0, 0], [0, 0]], [1.0, 2], halves, dtype), [[0.0, 0]], [[0.8, 0.2]]),
        (mixture_of([[0.0], [1], [2]], [1.0, 1, 1], [0, *halves], dtype), [[0.3]], [[0, 0.76852, 0.23148]]),
        (mixture_of([[0.0], [1e4]], [1.0, 1], halves, dtype), [[1e4], [-1e4], [6e3]], [[0, 1], [1, 0], [0, 1]]),
        (mixture_of([[0.0], [1], [2]], [1.0, 1, 1], [0.2, 0.3, 0.5], dtype), [[1e4]], [[0, 0, 1]]),
    ]
    for mixture, x, expected in table:
        found = routing(torch.tensor(x, dtype=dtype), mixture, implementation)
        assert_allclose(found, expected, atol=6e-6)
        assert_allclose(gmt.responsibilities(torch.tensor(x, dtype=dtype), mixture), expected, atol=6e-6)


@every_implementation
@pytest.mark.parametrize("c", [0, 1, 10, 100, 1e3, 1e4])
def test_common_offset_does_not_cancel(c, implementation):
    # float32 rounds the inputs; what is compared is what becomes of the rounded ones
    mixture = mixture_of([[c], [c + 0.5]], [0.1, 0.1], [0.5, 0.5], torch.float32)
    x = torch.tensor([[c + 0.2]], dtype=torch.float32)
    exact = exact_responsibilities(x, mixture)
    if c <= 100:
        assert_allclose(exact, [[0.924, 0.076]], atol=1e-3)
    assert_allclose(routing(x, mixture, implementation), exact, rtol=1e-4)


@every_implementation
@pytest.mark.parametrize("gap", [1.0, 100.0, 1e4])
def test_means_that_lie_many_deviations_apart_do_not_cancel(gap, implementation):
    mixture = mixture_of([[0.0], [0.5], [gap], [gap + 0.5]], [0.1] * 4, [0.25] * 4, torch.float32)
    x = torch.tensor([[0.24], [0.3], [gap + 0.25], [gap + 0.2]], dtype=torch.float32)
    assert_allclose(routing(x, mixture, implementation), exact_responsibilities(x, mixture), rtol=1e-3, atol=1e-4)


def exact_responsibilities(x, mixture):
    """Return the responsibilities of the rounded inputs, in float64 by the reference."""
    mu, variance, log_prior = (getattr(mixture, name).double().numpy() for name in mixture.AXES)
    log_prior = log_prior - np.logaddexp.reduce(log_prior)
    return gma_ref.responsibilities(x.double().numpy(), gma_ref.GaussianMixture(mu, variance, log_prior))


@every_implementation
def test_prior_of_zero_has_finite_gradients(implementation):
    alpha = torch.tensor([-torch.inf, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    mu, omega = (torch.randn(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    mixture = gmt.GaussianMixture.from_unconstrained(mu, omega, alpha)
    output = gmt.gaussian_mixture_attention(x, x, x, mixture, causal=True, implementation=implementation)
    for gradient in torch.autograd.grad(output.square().sum(), (x, mu, omega, alpha)):
        assert torch.isfinite(gradient).all()
    mixture = gmt.GaussianMixture.from_unconstrained(mu, omega, alpha)
    by_prior = torch.autograd.grad(routing(x, mixture, implementation)[:, 1].sum(), (mu, omega, alpha))
    assert all(torch.isfinite(gradient).all() for gradient in by_prior)
    assert not by_prior[0][0].any()


@every_dtype
def test_variances_of_any_parameter_are_finite_and_positive(dtype):
    omega = torch.tensor([[-1000.0, -30, 0, 19.9, 20.1, 1000]], dtype=dtype, requires_grad=True)
    mixture = gmt.GaussianMixture.from_unconstrained(torch.zeros(1, 6, dtype=dtype), omega, torch.zeros(1, dtype=dtype))
    assert (mixture.variance > 0).all()
    values, rounding = omega.detach().double().numpy(), 4 * torch.finfo(dtype).eps
    assert_allclose(mixture.variance.detach(), np.logaddexp(0, values) + 1e-6, rtol=rounding)
    (gradient,) = torch.autograd.grad(mixture.variance.sum(), omega)
    assert_allclose(gradient, 1 / (1 + np.exp(-values.clip(-700))), rtol=rounding, atol=1e-30)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_parameters_of_sixteen_bits_give_a_mixture_of_thirty_two(dtype):
    mu, omega = torch.randn(2, 4, 3).to(dtype)
    mixture = gmt.GaussianMixture.from_unconstrained(mu, omega - 20, torch.zeros(4, dtype=dtype))
    assert {getattr(mixture, name).dtype for name in mixture.AXES} == {torch.float32}
    assert (mixture.variance >= 1e-6).all()


# The container


def example(**changes):
    drawn = draw_mixture(np.random.default_rng(0), batch=(2,))
    return gmt.GaussianMixture(*(torch.tensor(getattr(drawn, name)) for name in drawn.AXES))


def saved_and_loaded(mixture):
    file = io.BytesIO()
    torch.save(mixture, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


COPIES = {
    "itself": lambda mixture: mixture,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda mixture: pickle.loads(pickle.dumps(mixture)),
    "save": saved_and_loaded,
    "replace": dataclasses.replace,
    "to": lambda mixture: mixture.to(torch.float64),
}


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES.keys())
def test_mixture_and_its_copies_are_immutable(again):
    original = example()
    mixture = again(original)
    for name in (*mixture.AXES, "anything"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mixture, name, 0)
    for name in mixture.AXES:
        assert torch.equal(getattr(mixture, name), getattr(original, name))


def test_mixture_says_its_sizes_and_moves():
    mixture = example()
    assert (mixture.num_components, mixture.routing_dim) == (4, 3)
    assert repr(mixture) == "GaussianMixture(K=4, d_r=3, mu.shape=(2, 4, 3), torch.float64, cpu)"
    moved = mixture.to("meta", torch.float32)
    assert {getattr(moved, name).device.type for name in moved.AXES} == {"meta"}
    assert {getattr(moved, name).dtype for name in moved.AXES} == {torch.float32}


def test_mixture_keeps_its_tensors_and_what_autograd_knows():
    mu = torch.zeros(2, 1, requires_grad=True)
    mixture = gmt.GaussianMixture(mu, torch.ones(2, 1), torch.full((2,), 0.5).log())
    assert mixture.mu is mu
    assert gmt.responsibilities(torch.ones(3, 1), mixture).requires_grad


def test_functional_transforms_see_through_a_mixture():
    mixture = example()
    x = torch.randn(2, 5, 3, dtype=torch.float64)

    def loss(mixture):
        return gmt.responsibilities(x, mixture).square().sum()

    by = torch.func.grad(loss)(mixture)
    assert isinstance(by, gmt.GaussianMixture)
    tensors = [getattr(mixture, name).clone().requires_grad_() for name in mixture.AXES]
    expected = torch.autograd.grad(loss(gmt.GaussianMixture(*tensors)), tensors)
    for name, gradient in zip(mixture.AXES, expected, strict=True):
        assert_allclose(getattr(by, name), gradient, rtol=1e-12)
    mapped = torch.func.vmap(gmt.responsibilities)(x, mixture)
    assert_allclose(mapped, gmt.responsibilities(x, mixture), rtol=1e-12)


@every_device
def test_memory_selects_reorders_and_moves(device):
    V_tilde, Z = torch.randn(3, 2, 4, 5, device=device), torch.rand(3, 2, 4, device=device)
    memory = gmt.Memory(V_tilde, Z)
    chosen = memory.select(torch.tensor([2, 0, 0, 1], device=device))
    assert isinstance(chosen, gmt.Memory)
    for part, own in zip(chosen, memory, strict=True):
        assert torch.equal(part, torch.stack([own[2], own[0], own[0], own[1]]))
    assert memory.select(torch.tensor([], dtype=torch.int64, device=device)).Z.shape == (0, 2, 4)
    assert memory.to(torch.float64).V_tilde.dtype == torch.float64
    assert pickle.loads(pickle.dumps(memory)).Z.shape == (3, 2, 4)


def test_detached_memory_sends_nothing_back():
    v = torch.randn(6, 5, requires_grad=True)
    gamma = torch.softmax(torch.randn(6, 4, requires_grad=True), dim=-1)
    memory = gmt.write_memory(gamma, v)
    detached = memory.detach()
    assert all(part.requires_grad for part in memory)
    for part, own in zip(detached, memory, strict=True):
        assert not part.requires_grad
        assert torch.equal(part, own)


def test_saved_memory_is_loaded_as_weights_are():
    memory = gmt.Memory(torch.randn(3, 2, 4, 5), torch.rand(3, 2, 4))
    file = io.BytesIO()
    torch.save({"layer 0": memory}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)["layer 0"]
    assert isinstance(loaded, gmt.Memory)
    assert all(torch.equal(one, other) for one, other in zip(loaded, memory, strict=True))
