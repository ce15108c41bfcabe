"""Gradients by PyTorch's automatic differentiation of the plainest forward pass: every density, every N × N weight."""

import math

import torch


def attention(q, k, v, mu, omega, alpha, *, causal, eps, eps_sigma, key_mask):
    """Eqs. (14), (15), (16), (3), (9), (10), on tensors."""
    variance = torch.log1p(torch.exp(omega)) + eps_sigma
    log_prior = torch.log_softmax(alpha, dim=-1)

    def responsibilities(x):
        distance = (x[..., :, None, :] - mu[..., None, :, :]) ** 2 / variance[..., None, :, :]
        log_density = -0.5 * (torch.log(2 * math.pi * variance[..., None, :, :]) + distance).sum(dim=-1)
        return torch.softmax(log_prior[..., None, :] + log_density, dim=-1)

    weights = responsibilities(q) @ responsibilities(k).mT
    if causal:
        weights = torch.tril(weights)
    if key_mask is not None:
        weights = weights * torch.as_tensor(key_mask)[..., None, :]
    total = weights.sum(dim=-1, keepdim=True) + eps
    unreached = total == 0
    return weights / torch.where(unreached, 1, total) @ v


def gradients(arrays, upstream, *, causal=False, eps=1e-6, eps_sigma=1e-6, key_mask=None):
    """Return the gradient of ⟨upstream, output⟩ by each of the six arrays, in float64."""
    tensors = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays]
    output = attention(*tensors, causal=causal, eps=eps, eps_sigma=eps_sigma, key_mask=key_mask)
    loss = (torch.tensor(upstream, dtype=torch.float64) * output).sum()
    found = torch.autograd.grad(loss, tensors, allow_unused=True)
    return [torch.zeros_like(t).numpy() if g is None else g.numpy() for t, g in zip(tensors, found, strict=True)]
