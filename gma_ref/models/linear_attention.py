"""Linear attention in a few lines of plain PyTorch, with two kinds of features: elu + 1, and FAVOR+."""

import torch
from torch.nn import functional

__all__ = ["elu_features", "favor_features", "linear_attention", "orthogonal_directions"]

# Tokens: a block stays in a processor's cache, a chunk's weights are formed. They are those of blocked GMA, and were
# the fastest here too, of blocks of 512 to 2,048 and chunks of 64 and 128
_BLOCK, _CHUNK = 512, 64
_LARGEST = 60.0  # exponent of a feature: in float32, sums of many such still have room


def linear_attention(phi_q, phi_k, v, *, causal=False, eps=1e-6, state=None, return_state=False):
    r"""Attention whose weights are products of features, in time that grows with N.

    .. math:: o_i = \frac{\sum_j \langle\phi(q_i),\phi(k_j)\rangle\,v_j}
                         {\sum_j \langle\phi(q_i),\phi(k_j)\rangle + \epsilon}

    Causally the sums run over j ≤ i: blocks one after the other, within each its chunks all at once.

    Parameters
    ----------
    phi_q, phi_k : Tensor, (..., N, m)
        Features of queries and keys, none negative. A key whose features are 0 takes no part.
    v : Tensor, (..., N, d_v)
    causal : bool
    eps : float
        Added to the denominator.
    state : Tensor, (..., m, d_v + 1), optional
        :math:`\sum_j \phi(k_j) [v_j, 1]^\top` over the keys before the first. It is not changed.
    return_state : bool
        Return also the state after all keys.

    Returns
    -------
    output : Tensor, (..., N, d_v)
    state : Tensor, (..., m, d_v + 1)
        If asked for.

    Notes
    -----
    The state carries a column of ones beside the values, so that one product gives numerator and denominator.
    Source: Katharopoulos et al. (2020), Eqs. (5) and (9).
    """
    v = functional.pad(v, (0, 1), value=1.0)
    if not causal:
        written = phi_k.mT @ v
        state = written if state is None else state + written
        summed = phi_q @ state
    else:
        parts = []
        for block in zip(*(tensor.split(_BLOCK, dim=-2) for tensor in (phi_q, phi_k, v)), strict=True):
            part, state = _causal_block(*block, state)
            parts.append(part)
        summed = torch.cat(parts, dim=-2)
    output = summed[..., :-1] / (summed[..., -1:] + eps)
    return (output, state) if return_state else output


def _causal_block(phi_q, phi_k, v, state):
    """Return the causal sums of one block, which continues from a state, and the state after it."""
    tokens = v.shape[-2]
    chunk = max(1, min(_CHUNK, tokens))
    missing = max(1, -(-tokens // chunk)) * chunk - tokens
    # zero features add nothing, so the last chunk may be filled up with them
    filled = (functional.pad(t, (0, 0, 0, missing)) for t in (phi_q, phi_k, v))
    phi_q, phi_k, v = (t.unflatten(-2, (-1, chunk)) for t in filled)
    sums = (phi_k.mT @ v).cumsum(dim=-3)
    if state is not None:
        sums = sums + state.unsqueeze(-3)
    first = torch.zeros_like(sums[..., :1, :, :]) if state is None else state.unsqueeze(-3)
    # taken from the sums after each chunk, what it has written itself would not cancel exactly
    before = torch.cat([first, sums[..., :-1, :, :]], dim=-3)
    summed = phi_q @ before + (phi_q @ phi_k.mT).tril() @ v
    return summed.flatten(-3, -2)[..., :tokens, :], sums[..., -1, :, :]


def elu_features(x):
    """Return elu(x) + 1, entry by entry, exact far below 0 too. Source: Katharopoulos et al. (2020), Eq. (7)."""
    return torch.exp(x.clamp_max(0)) + functional.relu(x)


def orthogonal_directions(count, width, generator=None):
    """Draw directions for FAVOR+: orthogonal within each `width` of them, with the lengths of Gaussian vectors.

    Parameters
    ----------
    count : int
        How many.
    width : int
        Entries of each.
    generator : torch.Generator, optional
        For the random choices; without it PyTorch's own.

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


def favor_features(x, directions, *, query, causal=False, eps=1e-4):
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
        c is a query's own largest :math:`\langle w_r, y\rangle`, or that of all keys: it cancels when the weights are
        normalised, but for ε.
    causal : bool
        Take a c for the keys that depends on no key, since a later one must not change an earlier output. It is 0,
        where a feature has an expectation of 1, unless the directions are so long that an exponent could overflow.
        Gradients then take account of c, too.
    eps : float
        Keeps the features away from 0.

    Returns
    -------
    Tensor, (..., N, m)

    Notes
    -----
    Source: Choromanski et al. (2021), Lemma 1 and the code published with it; the causal c is ours.
    """
    y = x * x.shape[-1] ** -0.25
    exponents = y @ directions.mT
    half = (y * y).sum(-1, keepdim=True) / 2
    if causal and not query:  # ⟨w, y⟩ - |y|²/2 is at most |w|²/2, reached at y = w
        largest = functional.relu(directions.square().sum(dim=-1).amax() / 2 - _LARGEST)
    else:
        largest = exponents.amax(dim=-1 if query else (-1, -2), keepdim=True)
        largest = largest if causal else largest.detach()  # as in the published code, which leaves out what ε does
    return directions.shape[0] ** -0.5 * (torch.exp(exponents - half - largest) + eps)
