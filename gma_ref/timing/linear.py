"""Two linear attentions to compare with, in a few lines of plain PyTorch: elu + 1, and FAVOR+."""

import torch
from torch.nn import functional

__all__ = ["elu_features", "favor_features", "linear_attention", "orthogonal_directions"]

# Tokens: a block stays in a processor's cache, a chunk's weights are formed. They are those of blocked GMA, and were
# the fastest here too, of blocks of 512 to 2,048 and chunks of 64 and 128
_BLOCK, _CHUNK = 512, 64


def linear_attention(phi_q, phi_k, v, *, causal=False, eps=1e-6):
    r"""Attention whose weights are products of features, in time that grows with N.

    .. math:: o_i = \frac{\sum_j \langle\phi(q_i),\phi(k_j)\rangle\,v_j}
                         {\sum_j \langle\phi(q_i),\phi(k_j)\rangle + \epsilon}

    Causally the sums run over j ≤ i: blocks one after the other, within each its chunks all at once.

    Parameters
    ----------
    phi_q, phi_k : Tensor, (..., N, m)
        Features of queries and keys, none negative.
    v : Tensor, (..., N, d_v)
    causal : bool
    eps : float
        Added to the denominator.

    Returns
    -------
    Tensor, (..., N, d_v)

    Notes
    -----
    The state carries a column of ones beside the values, so that one product gives numerator and denominator.
    Source: Katharopoulos et al. (2020), Eqs. (5) and (9).
    """
    v = functional.pad(v, (0, 1), value=1.0)
    if not causal:
        summed = phi_q @ (phi_k.mT @ v)
    else:
        state, parts = 0, []
        for block in zip(*(tensor.split(_BLOCK, dim=-2) for tensor in (phi_q, phi_k, v)), strict=True):
            part, state = _causal_block(*block, state)
            parts.append(part)
        summed = torch.cat(parts, dim=-2)
    return summed[..., :-1] / (summed[..., -1:] + eps)


def _causal_block(phi_q, phi_k, v, state):
    """Return the causal sums of one block, which continues from a state, and the state after it."""
    tokens = v.shape[-2]
    # zero features add nothing, so the last chunk may be filled up with them
    filled = (functional.pad(t, (0, 0, 0, -tokens % _CHUNK)) for t in (phi_q, phi_k, v))
    phi_q, phi_k, v = (t.unflatten(-2, (-1, _CHUNK)) for t in filled)
    written = phi_k.mT @ v
    before = written.cumsum(dim=-3) - written + (state[..., None, :, :] if torch.is_tensor(state) else state)
    summed = phi_q @ before + (phi_q @ phi_k.mT).tril() @ v
    return summed.flatten(-3, -2)[..., :tokens, :], before[..., -1, :, :] + written[..., -1, :, :]


def elu_features(x):
    """Return elu(x) + 1, the features of Katharopoulos et al. (2020), Eq. (7)."""
    return functional.elu(x) + 1


def orthogonal_directions(count, width, generator):
    """Draw directions for FAVOR+: orthogonal within each `width` of them, with the lengths of Gaussian vectors.

    Parameters
    ----------
    count, width : int
        How many, and of what width.
    generator : torch.Generator

    Returns
    -------
    Tensor, (count, width)
        Each row by itself is a standard normal vector.
    """
    blocks = -(-count // width)
    q, r = torch.linalg.qr(torch.randn(blocks, width, width, generator=generator))
    rotations = q * r.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]  # else not every direction is equally likely
    lengths = torch.randn(count, width, generator=generator).norm(dim=-1, keepdim=True)
    return lengths * rotations.flatten(0, 1)[:count]


def favor_features(x, directions, *, query, eps=1e-4):
    r"""Positive random features of FAVOR+, whose products are the softmax kernel on average.

    .. math:: \phi(x)_r = m^{-1/2}\bigl(\exp(\langle w_r, y\rangle - \lVert y\rVert^2/2 - c) + \epsilon\bigr),
              \qquad y = x / d^{1/4}

    Parameters
    ----------
    x : Tensor, (..., N, d)
        Queries or keys.
    directions : Tensor, (m, d)
        The :math:`w_r`, by `orthogonal_directions`.
    query : bool
        c is a query's largest exponent, or that of all keys: it cancels when the weights are normalised, but for ε.
    eps : float
        Keeps the features away from 0.

    Returns
    -------
    Tensor, (..., N, m)

    Notes
    -----
    Source: Choromanski et al. (2021), Lemma 1 and the code published with it.
    """
    y = x * x.shape[-1] ** -0.25
    exponents = y @ directions.mT
    largest = exponents.amax(dim=-1 if query else (-1, -2), keepdim=True).detach()
    return directions.shape[0] ** -0.5 * (torch.exp(exponents - (y * y).sum(-1, keepdim=True) / 2 - largest) + eps)
