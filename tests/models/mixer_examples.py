"""The mixers as the tests make them, and each written out with its N × N weights, which share no code with them."""

import importlib.util
import math

import numpy as np
import pytest
import torch

import gma_ref
from gma_ref.models.mixers import MIXERS, make_mixer

WIDTH, HEADS = 12, 3
HERE = [
    pytest.param(name, marks=pytest.mark.skipif(missing, reason="mambapy is an extra"))
    for name in MIXERS
    for missing in [name == "mamba" and importlib.util.find_spec("mambapy") is None]
]
ATTENTIONS = ["softmax", "gma", "linear", "favor"]


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def make(name, seed=0, dtype=torch.float64, **options):
    """Return a mixer whose parameters have been moved from where they start, so that no term is left out."""
    options = {"num_heads": HEADS, "num_components": 5, "num_features": 7} | options
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mixer = make_mixer(name, WIDTH, **options).to(dtype)
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter += 0.1 * torch.randn(parameter.shape).to(dtype)
    return mixer


def in_pieces(module, x, lengths, key_mask=None):
    """Return the outputs of sequences taken piece by piece, and the state at their end."""
    outputs, start, state = [], 0, None
    for length in lengths:
        part = slice(start, start + length)
        mask = None if key_mask is None else key_mask[:, part]
        y, state = module(x[:, part], key_mask=mask, state=state, return_state=True)
        outputs.append(y)
        start += length
    return torch.cat(outputs, dim=1), state


def by_steps(module, x, state=None):
    """Return the outputs of sequences taken token by token, and the state at their end."""
    outputs = []
    for x_t in x.unbind(dim=1):
        y, state = module.step(x_t, state)
        outputs.append(y)
    return torch.stack(outputs, dim=1), state


def written_out(name, mixer, x, key_mask=None, feature_eps=1e-6):
    """Return what a mixer of attention gives, from its weights: all pairs of tokens, in NumPy, head by head."""
    x = np.asarray(x.detach())
    batch, tokens, _ = x.shape
    taking_part = np.ones((batch, tokens), dtype=bool) if key_mask is None else np.asarray(key_mask)
    x = np.where(taking_part[..., None], x, 0)
    projected = x @ mixer.w_qkv.weight.detach().numpy().T
    if mixer.convolution is not None:
        projected = convolved(projected, mixer.convolution.weight.detach().numpy(), mixer.causal)
    outputs = np.zeros_like(x)
    d = WIDTH // HEADS
    for b in range(batch):
        for h in range(HEADS):
            q, k, v = (projected[b, :, part * WIDTH + h * d : part * WIDTH + (h + 1) * d] for part in range(3))
            if mixer.qk_norm:
                q, k = (vectors / np.sqrt((vectors**2).mean(axis=-1, keepdims=True)) for vectors in (q, k))
            weights = pairs(name, mixer, h, q, k, feature_eps) * taking_part[b]
            weights = np.tril(weights) if mixer.causal else weights
            outputs[b, :, h * d : (h + 1) * d] = weights @ v / (weights.sum(axis=-1, keepdims=True) + 1e-300)
    return outputs @ mixer.w_o.weight.detach().numpy().T


def pairs(name, mixer, head, q, k, feature_eps):
    """Return the weights of all pairs, not normalised."""
    d = q.shape[-1]
    if name == "softmax":
        return np.exp(q @ k.T / math.sqrt(d))
    if name == "linear":
        phi_q, phi_k = (np.where(vectors > 0, vectors + 1, np.exp(vectors)) for vectors in (q, k))
        return phi_q @ phi_k.T
    if name == "favor":
        w = mixer.directions.detach().numpy()
        phi_k = np.exp(k @ w.T / d**0.25 - (k**2).sum(axis=-1, keepdims=True) / (2 * d**0.5)) + feature_eps
        of_q = q @ w.T / d**0.25
        half = (q**2).sum(axis=-1, keepdims=True) / (2 * d**0.5)
        return (np.exp(of_q - half - of_q.max(axis=-1, keepdims=True)) + feature_eps) @ phi_k.T
    learned = mixer.mixture
    mu, omega, alpha = (parameter.detach().numpy() for parameter in (learned.mu, learned.omega, learned.alpha))
    own = (head,) if mu.ndim == 3 else ()
    mixture = gma_ref.GaussianMixture.from_unconstrained(mu[own], omega[own], alpha[own])
    return gma_ref.affinity(gma_ref.responsibilities(q, mixture), gma_ref.responsibilities(k, mixture))


def convolved(tokens, weight, causal):
    """Return the sums over neighbours, one token and one neighbour at a time, through SiLU."""
    count, width = tokens.shape[1], weight.shape[1]
    left = width - 1 if causal else (width - 1) // 2
    sums = np.zeros_like(tokens)
    for i in range(count):
        for t in range(width):
            if 0 <= i + t - left < count:
                sums[:, i] += weight[:, t] * tokens[:, i + t - left]
    return sums / (1 + np.exp(-sums))
