"""One token of a causal sequence without gradients, as in decoding, where most of the time goes into starting things.

These are the plain equations, by the program in C where there is one, and no rule beside them: where the results turn
out not to be finite, or no key reaches the token, they are dropped, and a form that has the rules is to be taken.
"""

import math

import torch

from . import native
from .derivatives import none_wanted
from .naive import as_mixture, responsibilities, state_to_continue
from .numerics import compute_dtype

# Sequences × K × width up to which this is faster in PyTorch's operations than to start the blocked form
FEW = 2**19


def is_one_token(q, k, v, mu, variance, log_prior, key_mask, state):
    """Tell whether this is one token on a CPU, of ordinary tensors, without a mask and with no gradient to keep."""
    if not (q.shape[-2] == k.shape[-2] == 1 and key_mask is None and type(q) is torch.Tensor and q.shape == k.shape):
        return False
    return q.device.type == "cpu" and none_wanted(q, k, v, mu, variance, log_prior, *(state or ()))


def one_token_attention(q, k, v, mu, variance, log_prior, *, eps, state):
    r"""Return output, V_tilde and Z, by Eqs. (3), (5b) and (8b), of one query and one key; None if it cannot be done.

    .. math::
        \tilde V' = \tilde V + \gamma^K v^\top, \quad Z' = Z + \gamma^K, \qquad
        o = \frac{\gamma^Q\tilde V'}{\gamma^Q Z' + \epsilon}
    """
    made = native.step(q, k, v, mu, variance, log_prior, state, eps)
    if made is not None or q.numel() * mu.shape[-2] > FEW:
        return made
    dtype = compute_dtype(q, k, v, mu, variance, log_prior)
    mixture = as_mixture(mu, variance, log_prior, dtype)
    start = state_to_continue(state, k.to(dtype), v, mixture)
    sums = start.Z.dtype
    gamma = responsibilities(torch.cat([q, k], dim=-2).to(dtype), mixture).to(sums)
    gamma_q, gamma_k = gamma.split(1, dim=-2)
    V_tilde = start.V_tilde + gamma_k.mT * v.to(sums)
    Z = start.Z + gamma_k[..., 0, :]
    denominator = gamma_q @ Z[..., None] + eps
    output = gamma_q @ V_tilde / denominator
    # whatever is not finite of tokens or memory is in one of the two
    return (output, V_tilde, Z) if math.isfinite(output.sum() + denominator.sum()) else None
