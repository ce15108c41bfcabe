"""Slow and plainly correct forms, in float64, of everything that is timed: a fast call is compared with them first.

Each gives the outputs at some rows (positions) only, so that a call on 65,536 tokens can be checked too. They share no
code with what they check.
"""

import math

import torch
from torch.nn import functional

__all__ = ["favor", "gaussian_mixture", "gaussian_mixture_layer", "linear", "selective_state_space", "softmax"]


def attend(weights, v, rows, causal, eps=0.0):
    """Return weighted means of the values, with weights (..., R, N) that are not normalised yet."""
    if causal:
        weights = torch.where(torch.arange(v.shape[-2], device=v.device) <= rows[:, None], weights, 0)
    return weights @ v / (weights.sum(dim=-1, keepdim=True) + eps)


def softmax(q, k, v, rows, causal):
    """Dot-product attention, Eq. (1)."""
    scores = q[..., rows, :] @ k.mT / math.sqrt(q.shape[-1])
    seen = torch.arange(k.shape[-2], device=k.device) <= rows[:, None]
    scores = torch.where(seen, scores, -torch.inf) if causal else scores
    return attend(torch.exp(scores - scores.amax(dim=-1, keepdim=True)), v, rows, causal)


def gaussian_mixture(q, k, v, mu, variance, log_prior, rows, causal, eps=1e-6):
    """GMA by its implied weights, Eqs. (9) and (9b), with the densities in float64."""

    def responsibilities(x):
        # the square multiplied out: float64 has the digits for it, and N×K×d_r numbers would be too many
        squares = x**2 @ (1 / variance).mT - 2 * x @ (mu / variance).mT + (mu**2 / variance).sum(dim=-1)[..., None, :]
        log_density = -0.5 * (torch.log(2 * math.pi * variance).sum(dim=-1)[..., None, :] + squares)
        return torch.softmax(log_prior[..., None, :] + log_density, dim=-1)

    return attend(responsibilities(q[..., rows, :]) @ responsibilities(k).mT, v, rows, causal, eps)


def gaussian_mixture_layer(x, parameters, rows, causal, heads):
    """GMA with its projections, Eqs. (4), (14) and (15), from the layer's parameters by name."""
    q, k, v = (
        (x @ parameters[f"{w}.weight"].T).unflatten(-1, (heads, -1)).transpose(1, 2) for w in ("w_q", "w_k", "w_v")
    )
    variance = torch.log1p(torch.exp(parameters["mixture.omega"])) + 1e-6
    log_prior = torch.log_softmax(parameters["mixture.alpha"], dim=-1)
    output = gaussian_mixture(q, k, v, parameters["mixture.mu"], variance, log_prior, rows, causal)
    return output.transpose(1, 2).flatten(-2) @ parameters["w_o.weight"].T


def linear(q, k, v, rows, causal):
    """Linear attention with the features elu + 1, written out."""

    def features(x):
        return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))

    return attend(features(q[..., rows, :]) @ features(k).mT, v, rows, causal, 1e-6)


def favor(q, k, v, directions, rows, causal, eps=0.0):
    """FAVOR+ with given directions, its exponents as in the published code; ε is added to each sum over the keys."""

    def exponents(x):
        y = x / x.shape[-1] ** 0.25
        return torch.einsum("...nd,md->...nm", y, directions), 0.5 * y.square().sum(dim=-1, keepdim=True)

    (of_q, half_q), (of_k, half_k) = exponents(q[..., rows, :]), exponents(k)
    largest = of_k.flatten(-2).amax(dim=-1)[..., None, None].detach()
    phi_q = torch.exp(of_q - half_q - of_q.amax(dim=-1, keepdim=True).detach()) + 1e-4
    phi_k = torch.exp(of_k - half_k - largest) + 1e-4
    eps = eps * phi_q.sum(dim=-1, keepdim=True) * len(directions) ** -0.5
    return attend(phi_q @ phi_k.mT / len(directions), v, rows, causal, eps)


def selective_state_space(x, parameters, rows):
    """Mamba's block, one token after the other: (B, R, d_model) for rows of the beginning.

    `parameters` are the block's, by name. Source: Gu & Dao (2023), Algorithm 2 and Eq. (2).
    """
    get = parameters.__getitem__
    x = x[:, : int(rows.max()) + 1]
    u, gate = (x @ get("in_proj.weight").T).chunk(2, dim=-1)
    taps = get("conv1d.weight")[:, 0]
    padded = functional.pad(u, (0, 0, taps.shape[1] - 1, 0))
    windows = padded.unfold(1, taps.shape[1], 1)
    u = functional.silu((windows * taps).sum(dim=-1) + get("conv1d.bias"))
    rank = get("dt_proj.weight").shape[1]
    delta, into, out_of = (u @ get("x_proj.weight").T).tensor_split(
        [rank, (rank + get("x_proj.weight").shape[0]) // 2], -1
    )
    delta = functional.softplus(delta @ get("dt_proj.weight").T + get("dt_proj.bias"))
    decay = -torch.exp(get("A_log"))
    state, read = x.new_zeros(len(x), *decay.shape), []
    for t in range(x.shape[1]):
        state = torch.exp(delta[:, t, :, None] * decay) * state + (delta * u)[:, t, :, None] * into[:, t, None, :]
        read.append((state * out_of[:, t, None, :]).sum(dim=-1))
    y = torch.stack(read, dim=1) + get("D") * u
    return ((y * functional.silu(gate)) @ get("out_proj.weight").T)[:, rows]
