"""What leaves the responsibilities unchanged, and what that says of the gradients (B10)."""

import pytest
import torch
from numpy.testing import assert_allclose

from gma_ref import pytorch as gmt
from tests.examples import draw_problem
from tests.pytorch.problems import both_modes, every_implementation, leaves

MASK = torch.tensor([True, False, True, True, False, True, True])
every_mask = pytest.mark.parametrize("mask", [None, MASK], ids=["", "masked"])


def draw_leaves(seed=0, **sizes):
    """Return q, k, v, mu, variance and log_prior with gradients, and an upstream gradient."""
    (q, k, v, mu, omega, alpha), upstream = draw_problem(seed, N=7, heads=(), **sizes)
    mixture = gmt.GaussianMixture.from_unconstrained(*(torch.tensor(array) for array in (mu, omega, alpha)))
    parameters = (getattr(mixture, name) for name in mixture.AXES)
    return leaves([q, k, v, *parameters]), torch.tensor(upstream)


def attend(tensors, **options):
    return gmt.gaussian_mixture_attention(*tensors[:3], gmt.GaussianMixture(*tensors[3:]), **options)


def differentiate(tensors, upstream, **options):
    output = attend(tensors, **options)
    return output.detach(), torch.autograd.grad(output, tensors, upstream)


def total(tensor, width):
    """Sum over all axes but those of the given width."""
    return tensor.reshape(-1, width).sum(dim=0)


@every_implementation
@both_modes
@every_mask
def test_moving_everything_changes_nothing(mask, causal, implementation):
    tensors, upstream = draw_leaves()
    options = {"causal": causal, "key_mask": mask, "implementation": implementation}
    output, (by_q, by_k, _, by_mu, *_) = differentiate(tensors, upstream, **options)
    assert by_mu.abs().max() > 1e-3
    assert_allclose(total(by_q, 3) + total(by_k, 3) + total(by_mu, 3), 0, atol=1e-13)
    q, k, v, mu, *others = (tensor.detach() for tensor in tensors)
    shift = torch.tensor([3.0, -1, 0.5], dtype=torch.float64)
    assert_allclose(attend([q + shift, k + shift, v, mu + shift, *others], **options), output, rtol=1e-10)


@every_implementation
@both_modes
@every_mask
def test_stretching_a_coordinate_changes_nothing(mask, causal, implementation):
    tensors, upstream = draw_leaves()
    options = {"causal": causal, "key_mask": mask, "implementation": implementation}
    output, found = differentiate(tensors, upstream, **options)
    q, k, v, mu, variance, log_prior = (tensor.detach() for tensor in tensors)
    by_q, by_k, _, by_mu, by_variance, _ = found
    sums = [total(x * by, 3) for x, by in ((q, by_q), (k, by_k), (mu, by_mu), (2 * variance, by_variance))]
    assert sums[3].abs().max() > 1e-3
    assert_allclose(sum(sums), 0, atol=1e-13)
    scale = torch.tensor([3.0, -0.5, 10], dtype=torch.float64)
    stretched = [q * scale, k * scale, v, mu * scale, variance * scale.square(), log_prior]
    assert_allclose(attend(stretched, **options), output, rtol=1e-10)


@every_implementation
@both_modes
def test_priors_matter_up_to_a_factor(causal, implementation):
    tensors, upstream = draw_leaves()
    options = {"causal": causal, "implementation": implementation}
    output, found = differentiate(tensors, upstream, **options)
    assert found[5].abs().max() > 1e-3
    assert_allclose(found[5].sum(), 0, atol=1e-13)
    *others, log_prior = (tensor.detach() for tensor in tensors)
    assert_allclose(attend([*others, log_prior + 7], **options), output, rtol=1e-10)


@every_implementation
@both_modes
@every_mask
def test_output_is_linear_in_the_values(mask, causal, implementation):
    tensors, upstream = draw_leaves()
    output, found = differentiate(tensors, upstream, causal=causal, key_mask=mask, implementation=implementation)
    assert_allclose((tensors[2].detach() * found[2]).sum(), (upstream * output).sum(), rtol=1e-12)


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_size_of_a_query_routing_matters_by_eps_alone(eps):
    tensors, upstream = draw_leaves()
    q, k, v = (tensor.detach() for tensor in tensors[:3])
    mixture = gmt.GaussianMixture(*(tensor.detach() for tensor in tensors[3:]))
    gamma_q = gmt.responsibilities(q, mixture).requires_grad_()
    memory = gmt.write_memory(gmt.responsibilities(k, mixture), v)
    output = gmt.read_memory(gamma_q, memory, eps)
    (by,) = torch.autograd.grad(output, gamma_q, upstream)
    denominator = (gamma_q @ memory.Z[..., None])[..., 0] + eps
    expected = eps * (upstream * output).sum(dim=-1) / denominator
    assert_allclose((gamma_q * by).sum(dim=-1).detach(), expected.detach(), rtol=1e-7, atol=1e-14)


@every_implementation
@both_modes
def test_order_of_the_components_does_not_matter(causal, implementation):
    tensors, upstream = draw_leaves()
    options = {"causal": causal, "implementation": implementation}
    output, found = differentiate(tensors, upstream, **options)
    order = torch.tensor([2, 0, 3, 1])
    mixed = [tensor.detach()[order].requires_grad_() for tensor in tensors[3:]]
    again, others = differentiate([*tensors[:3], *mixed], upstream, **options)
    assert_allclose(again, output, rtol=1e-12)
    for one, other in zip(found[:3], others[:3], strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-13)
    for one, other in zip(found[3:], others[3:], strict=True):
        assert_allclose(one[order], other, rtol=1e-9, atol=1e-13)


@every_implementation
def test_order_of_the_keys_does_not_matter(implementation):
    tensors, upstream = draw_leaves()
    order = torch.tensor([4, 2, 0, 6, 3, 1, 5])
    output, found = differentiate(tensors, upstream, key_mask=MASK, implementation=implementation)
    mixed = [tensor.detach()[:, order].requires_grad_() for tensor in tensors[1:3]]
    arguments = [tensors[0], *mixed, *tensors[3:]]
    again, others = differentiate(arguments, upstream, key_mask=MASK[order], implementation=implementation)
    assert_allclose(again, output, rtol=1e-12)
    for name, (one, other) in enumerate(zip(found, others, strict=True)):
        assert_allclose(one[:, order] if name in (1, 2) else one, other, rtol=1e-9, atol=1e-13)


@every_implementation
@both_modes
def test_identical_components_get_identical_gradients(causal, implementation):
    tensors, upstream = draw_leaves()
    twice = [torch.cat([tensor.detach(), tensor.detach()[:1]]).requires_grad_() for tensor in tensors[3:]]
    _, found = differentiate([*tensors[:3], *twice], upstream, causal=causal, implementation=implementation)
    for gradient in found[3:]:
        assert_allclose(gradient[0], gradient[-1], rtol=1e-12, atol=1e-15)


def test_splitting_a_component_divides_its_affinity():
    # γ = (1) becomes (1/m, ..., 1/m): the overlap of two tokens shrinks to m (1/m)²
    tensors, _ = draw_leaves()
    q, k = (tensor.detach() for tensor in tensors[:2])
    mu, variance, log_prior = (tensor.detach()[:1] for tensor in tensors[3:])
    for m in (1, 2, 5):
        parts = gmt.GaussianMixture(
            mu.expand(m, -1), variance.expand(m, -1), log_prior.expand(m) - log_prior.exp().log()
        )
        overlap = gmt.affinity(gmt.responsibilities(q, parts), gmt.responsibilities(k, parts))
        assert_allclose(overlap, 1 / m, rtol=1e-12)
