"""Calls of the blocked form for the tests: on NumPy arrays, beside the reference."""

import numpy as np
import torch

import gma_ref
from gma_ref.pytorch import blocked_pieces
from gma_ref.pytorch.blocked import blocked_attention
from tests.examples import draw_problem

NAMES = ("q", "k", "v", "mu", "omega", "alpha")


def make_blocks_small(monkeypatch, block=8, chunk=4, rows=16):
    """Let a few tokens be many blocks, chunks and tiles."""
    for name, size in {"BLOCK": block, "CHUNK": chunk, "ROWS": rows}.items():
        monkeypatch.setattr(blocked_pieces, name, size)


def tensors(arrays, dtype=torch.float64, requires_grad=False):
    """Return arrays as tensors."""
    return [torch.tensor(a, dtype=dtype, requires_grad=requires_grad) for a in arrays]


def from_unconstrained(mu, omega, alpha, eps_sigma=1e-6):
    """Eqs. (14) and (15)."""
    return mu, torch.nn.functional.softplus(omega) + eps_sigma, torch.log_softmax(alpha, dim=-1)


def attend(
    q, k, v, mu, omega, alpha, *, causal=False, eps=1e-6, eps_sigma=1e-6, key_mask=None, state=None, program="eager"
):
    """Return output and memory of the blocked form, from tensors of what is trained."""
    mixture = from_unconstrained(mu, omega, alpha, eps_sigma)
    key_mask = None if key_mask is None else torch.as_tensor(key_mask)
    options = {"causal": causal, "eps": eps, "key_mask": key_mask, "state": state, "program": program}
    return blocked_attention(q, k, v, *mixture, **options)


def gradients(arrays, upstream, **options):
    """Return the gradient of ⟨upstream, output⟩ by each array, as a dict of arrays."""
    given = tensors(arrays, requires_grad=True)
    output = attend(*given, **options)[0]
    found = torch.autograd.grad(output, given, torch.tensor(upstream))
    return dict(zip(NAMES, (g.numpy() for g in found), strict=True))


def reference(arrays, eps_sigma=1e-6, **options):
    """Return the output of the reference."""
    mixture = gma_ref.GaussianMixture.from_unconstrained(*arrays[3:], eps_sigma)
    return gma_ref.gaussian_mixture_attention(*arrays[:3], mixture, **options)


def assert_is_the_reference(arrays, upstream, **options):
    """Compare output and gradients, the latter relative to the largest of each kind."""
    output = attend(*tensors(arrays), **options)[0].numpy()
    np.testing.assert_allclose(output, reference(arrays, **options), rtol=1e-10, atol=1e-12)
    expected = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, **options)
    for name, found in gradients(arrays, upstream, **options).items():
        size = np.abs(expected[name]).max(initial=1e-6)
        np.testing.assert_allclose(found, expected[name], rtol=1e-9, atol=1e-9 * size, err_msg=name)


def draw_mask(shape, seed=0):
    """Return a mask that keeps about two keys of three."""
    return np.random.default_rng(seed).random(shape) < 0.67


__all__ = [
    "NAMES",
    "assert_is_the_reference",
    "attend",
    "draw_mask",
    "draw_problem",
    "from_unconstrained",
    "gradients",
    "make_blocks_small",
    "reference",
    "tensors",
]
