"""Gaussian Mixture Attention as the equations are written, for teaching, comparison and higher derivatives."""

from inspect import unwrap

import torch

from . import memory
from .mixture import log_density, unflatten
from .nonfinite import finite_rows, give_back, rest_of_tokens, split
from .numerics import compute_dtype, keep
from .state import Memory

# without their checks, which the arguments have passed: of a short sequence these would take most of the time
log_density = unwrap(log_density)
write_memory, prefix_memory, read_memory = map(unwrap, (memory.write_memory, memory.prefix_memory, memory.read_memory))


def naive_attention(q, k, v, mu, variance, log_prior, *, causal, eps, key_mask, state):
    r"""Return output, V_tilde and Z by Eqs. (3), (5) and (7), and causally by the prefix tensor of Eqs. (5b) and (8b).

    .. math::
        O = \frac{\Gamma^Q\tilde V}{\Gamma^Q Z + \epsilon}, \qquad
        o_i = \frac{\sum_k \gamma^Q_{i,k}\tilde V^{(i)}_k}{\sum_k \gamma^Q_{i,k} Z^{(i)}_k + \epsilon}

    The arguments are those of `gaussian_mixture_attention`, checked, with the tensors of the mixture one by one. All
    is made of PyTorch's differentiable operations: derivatives of any order and `torch.func` work.
    """
    dtype = compute_dtype(q, k, v, mu, variance, log_prior)
    q, k, v = (tensor.to(dtype) for tensor in (q, k, v))
    mixture = as_mixture(mu, variance, log_prior, dtype)
    start = state_to_continue(state, k, v, mixture)
    sums = start.Z.dtype

    asks, writes = finite_rows(q), finite_rows(k)
    lost = ~writes if key_mask is None else ~writes & key_mask
    takes_part = writes if key_mask is None else writes & key_mask
    somewhere = mixture.mu[..., :1, :]  # any finite point will do for a row that is not finite
    gamma_q = responsibilities(keep(asks, q, somewhere), mixture).to(sums)
    gamma_k = keep(takes_part, responsibilities(keep(takes_part, k, somewhere), mixture)).to(sums)
    v, rest_v = split(keep(key_mask, v.to(sums)))
    (V_tilde, rest_V_tilde), (Z, rest_Z) = split(start.V_tilde), split(start.Z)

    # what keys and state that are not finite make of a denominator: 0, or not finite either
    spoilt = torch.where(lost, torch.nan, rest_Z.new_zeros(()))
    spoilt = (spoilt.cumsum(-1) if causal else spoilt.sum(-1, keepdim=True)) + rest_Z.sum(-1, keepdim=True)

    written = write_memory(gamma_k, v)
    after = Memory(V_tilde + written.V_tilde, Z + written.Z)
    if causal:
        prefixes = prefix_memory(gamma_k, v)
        prefixes = Memory(V_tilde[..., None, :, :] + prefixes.V_tilde, Z[..., None, :] + prefixes.Z)
        output = read_memory(gamma_q[..., None, :], prefixes, eps)[..., 0, :]
        reached = (gamma_q * prefixes.Z).sum(dim=-1) + eps + spoilt != 0
    else:
        output = read_memory(gamma_q, after, eps)
        reached = (gamma_q @ after.Z[..., None])[..., 0] + eps + spoilt != 0

    # what is not finite goes to the outputs that see it, and to the memory
    seen = rest_of_tokens(rest_v, lost, causal) + rest_V_tilde.sum(dim=-2, keepdim=True) + spoilt[..., None]
    output = give_back(output, keep(asks, keep(reached, seen), torch.nan))
    V_tilde = give_back(after.V_tilde, rest_V_tilde + rest_of_tokens(rest_v, lost, causal=False))
    Z = give_back(after.Z, torch.where(lost.any(dim=-1, keepdim=True), torch.nan, rest_Z))
    return output, V_tilde, Z


def responsibilities(x, mixture):
    """Return the softmax of the scores, Eqs. (3) and (16)."""
    return torch.softmax(mixture.log_prior[..., None, :] + log_density(x, mixture), dim=-1)


def as_mixture(mu, variance, log_prior, dtype):
    """Return a mixture of tensors that have been checked."""
    return unflatten([tensor.to(dtype) for tensor in (mu, variance, log_prior)])


def state_to_continue(state, k, v, mixture):
    """Return the state, in its own dtype if that is wide enough for the sums; without one, an empty memory."""
    if state is None:
        K, d_v = mixture.num_components, v.shape[-1]
        return Memory(k.new_zeros(K, d_v), k.new_zeros(K))
    return state.to(compute_dtype(k, *state))
