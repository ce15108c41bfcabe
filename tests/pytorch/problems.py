"""Problems for the PyTorch room, in NumPy for the reference and in tensors for the implementations."""

import numpy as np
import pytest
import torch

import gma_ref
from gma_ref import pytorch as gmt
from gma_ref.pytorch.implementations import KNOWN

NAMES = ("q", "k", "v", "mu", "omega", "alpha")
IMPLEMENTATIONS = tuple(name for name in KNOWN if name != "native")  # float32 alone; it has tests of its own
every_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
both_modes = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
needs_cuda = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]
every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])


def leaves(arrays, dtype=torch.float64, device="cpu"):
    """Return the arrays as tensors that require gradients."""
    return [torch.tensor(np.asarray(a), dtype=dtype, device=device, requires_grad=True) for a in arrays]


def as_mask(key_mask, device="cpu"):
    return None if key_mask is None else torch.tensor(key_mask, device=device)


def attend(tensors, *, eps_sigma=1e-6, **options):
    """Return what `gaussian_mixture_attention` makes of q, k, v, mu, omega and alpha."""
    q, k, v, *parameters = tensors
    mixture = gmt.GaussianMixture.from_unconstrained(*parameters, eps_sigma)
    return gmt.gaussian_mixture_attention(q, k, v, mixture, **options)


def gradients(output, upstream, tensors):
    """Return the gradient of ⟨upstream, output⟩ by each tensor, as arrays by name."""
    upstream = torch.as_tensor(upstream, dtype=output.dtype, device=output.device)
    found = torch.autograd.grad(output, tensors, upstream, allow_unused=True, retain_graph=True)
    found = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found, strict=True)]
    return {name: g.double().cpu().numpy() for name, g in zip(NAMES, found, strict=True)}


def run(arrays, upstream, *, key_mask=None, dtype=torch.float64, device="cpu", **options):
    """Return output and gradients by an implementation."""
    tensors = leaves(arrays, dtype, device)
    output = attend(tensors, key_mask=as_mask(key_mask, device), **options)
    return output.detach().double().cpu().numpy(), gradients(output, upstream, tensors)


def run_reference(arrays, upstream, *, causal=False, eps=1e-6, eps_sigma=1e-6, key_mask=None):
    """Return output and gradients by the reference."""
    q, k, v, *parameters = arrays
    options = {"causal": causal, "eps": eps, "key_mask": key_mask}
    with np.errstate(invalid="ignore"):  # inf − inf, where a token holds infinity
        mixture = gma_ref.GaussianMixture.from_unconstrained(*parameters, eps_sigma)
        output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, **options)
        back = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, eps_sigma=eps_sigma, **options)
    return output, back


def assert_same(found, expected, rtol=1e-10, scale=1e-10):
    """Compare gradients by name, each to a part of itself and of its largest entry."""
    assert set(found) == set(expected)
    for name, exact in expected.items():
        assert found[name].shape == np.shape(exact), name
        finite = np.abs(exact[np.isfinite(exact)])
        atol = scale * finite.max(initial=0) + 1e-14
        np.testing.assert_allclose(found[name], exact, rtol=rtol, atol=atol, err_msg=name)
