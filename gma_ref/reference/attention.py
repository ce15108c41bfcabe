"""Attention, bidirectional and causal: Eqs. (1), (4), (7)-(11), (8b)-(10b)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .checks import accepts
from .memory import Memory, keep, read_memory, write_memory
from .mixture import GaussianMixture, responsibilities
from .numerics import softmax

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy import ndarray as Array


@accepts(q="N_q d_k", k="N_k d_k", v="N_k d_v", result_dtype_of="v")
def scaled_dot_product_attention(
    q: Float[Array, "... N_q d_k"],
    k: Float[Array, "... N_k d_k"],
    v: Float[Array, "... N_k d_v"],
    *,
    causal: bool = False,
) -> Float[Array, "... N_q d_v"]:
    r"""Scaled dot-product attention, Eq. (1), the form that GMA is compared with.

    .. math:: \operatorname{softmax}(Q K^\top / \sqrt{d_k})\,V

    Parameters
    ----------
    q : array_like, (..., N_q, d_k)
    k : array_like, (..., N_k, d_k)
    v : array_like, (..., N_k, d_v)
    causal : bool
        Token i sees tokens j ≤ i only; needs N_q = N_k.

    Returns
    -------
    ndarray, (..., N_q, d_v)
        In the floating dtype of `v`. Without keys, zeros.

    Notes
    -----
    Makes the N_q × N_k matrix of weights: this is what costs N². Source: Vaswani et al. (2017); Eq. (1) of Huang &
    Raza (2026).
    """
    scale = np.sqrt(np.array(max(q.shape[-1], 1), q.dtype))
    similarity = q @ np.swapaxes(k, -1, -2) / scale
    if not causal:
        return softmax(similarity) @ v
    batch = np.broadcast_shapes(similarity.shape[:-2], v.shape[:-2])
    shape = (*batch, q.shape[-2], v.shape[-1])
    output = np.zeros(shape, np.result_type(similarity, v))
    for i in range(q.shape[-2]):
        # row by row: in one product, 0 times a later NaN would be NaN
        weights = softmax(similarity[..., i, None, : i + 1])
        output[..., i, None, :] = weights @ v[..., : i + 1, :]
    return output


@accepts(x="N d_model", w_q="d_model d_r", w_k="d_model d_r", w_v="d_model d_v")
def project(
    x: Float[Array, "... N d_model"],
    w_q: Float[Array, "... d_model d_r"],
    w_k: Float[Array, "... d_model d_r"],
    w_v: Float[Array, "... d_model d_v"],
) -> tuple[Float[Array, "... N d_r"], Float[Array, "... N d_r"], Float[Array, "... N d_v"]]:
    r"""Project tokens to queries, keys and values, Eq. (4).

    .. math:: Q_X = X W_Q, \quad K_X = X W_K, \quad V_X = X W_V

    Parameters
    ----------
    x : array_like, (..., N, d_model)
        Token representations.
    w_q, w_k : array_like, (..., d_model, d_r)
    w_v : array_like, (..., d_model, d_v)
        One set per head is ``(H, d_model, width)``, with `x` as ``(..., 1, N, d_model)``.

    Returns
    -------
    q, k : ndarray, (..., N, d_r)
    v : ndarray, (..., N, d_v)

    Notes
    -----
    Source: Huang & Raza (2026), Eq. (4).
    """
    return x @ w_q, x @ w_k, x @ w_v


@accepts(gamma_q="N_q K", gamma_k="N_k K")
def affinity(gamma_q: Float[Array, "... N_q K"], gamma_k: Float[Array, "... N_k K"]) -> Float[Array, "... N_q N_k"]:
    r"""Overlap of each query's responsibilities with each key's, Eq. (11).

    .. math:: \tilde A = \Gamma^Q(\Gamma^K)^\top, \qquad \tilde A_{ij} = \langle\gamma^Q_i,\gamma^K_j\rangle

    Parameters
    ----------
    gamma_q : array_like, (..., N_q, K)
    gamma_k : array_like, (..., N_k, K)

    Returns
    -------
    ndarray, (..., N_q, N_k)
        Between 0 and 1; the probability that query and key have drawn the same component.

    Notes
    -----
    For interpretation: it has N_q · N_k entries. Source: Huang & Raza (2026), Eq. (11).
    """
    return gamma_q @ np.swapaxes(gamma_k, -1, -2)


@accepts(gamma_q="N_q K", gamma_k="N_k K", key_mask="gamma_k")
def attention_weights(
    gamma_q: Float[Array, "... N_q K"],
    gamma_k: Float[Array, "... N_k K"],
    *,
    causal: bool = False,
    eps: float = 1e-6,
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> Float[Array, "... N_q N_k"]:
    r"""Return the weights that GMA implies, Eq. (9), and causally (9b).

    .. math:: A_{ij} = \tilde A_{ij} / \bigl(\textstyle\sum_\ell \tilde A_{i\ell} + \epsilon\bigr)

    The sum runs over all keys that take part; causally over :math:`\ell \le i`, and :math:`A_{ij} = 0` for j > i.

    Parameters
    ----------
    gamma_q : array_like, (..., N_q, K)
    gamma_k : array_like, (..., N_k, K)
    causal : bool
        Needs N_q = N_k.
    eps : float
        Added to the denominator; finite and at least 0.
    key_mask : array_like of bool, (N_k,) or one axis fewer than `gamma_k`, optional
        True: this key takes part.

    Returns
    -------
    ndarray, (..., N_q, N_k)
        Rows sum to d'/(d' + ε) with d' the row sum of the affinity; a row that no key reaches is 0.

    Notes
    -----
    For interpretation: it has N_q · N_k entries, and GMA never makes it. Source: Huang & Raza (2026), Eq. (9); the
    number (9b) is inferred.
    """
    weights = affinity(gamma_q, keep(key_mask, gamma_k))
    if causal:
        past = np.tri(*weights.shape[-2:], dtype=bool)
        weights = np.where(past, weights, 0)
    total = weights.sum(axis=-1, keepdims=True) + eps
    unreached = np.zeros_like(weights)
    return np.divide(weights, total, out=unreached, where=total != 0)


@accepts(q="N_q d_r", k="N_k d_r", v="N_k d_v", mixture=GaussianMixture, key_mask="k", result_dtype_of="v")
def gaussian_mixture_attention(
    q: Float[Array, "... N_q d_r"],
    k: Float[Array, "... N_k d_r"],
    v: Float[Array, "... N_k d_v"],
    mixture: GaussianMixture,
    *,
    causal: bool = False,
    eps: float = 1e-6,
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> Float[Array, "... N_q d_v"]:
    r"""Gaussian Mixture Attention: Eq. (7), or causally Eq. (8b).

    .. math::
        O = \frac{\Gamma^Q (\Gamma^K)^\top V_X}{\Gamma^Q (\Gamma^K)^\top \mathbf 1_N + \epsilon}, \qquad
        \Gamma^Q = \Gamma(Q_X), \quad \Gamma^K = \Gamma(K_X)

    Parameters
    ----------
    q : array_like, (..., N_q, d_r)
        Queries :math:`Q_X`.
    k : array_like, (..., N_k, d_r)
        Keys :math:`K_X`, routed by the same mixture.
    v : array_like, (..., N_k, d_v)
        Values :math:`V_X`.
    mixture : GaussianMixture
        One for all heads, or one per head as ``(H, K, d_r)``; leading axes broadcast.
    causal : bool
        Token i reads what tokens j ≤ i wrote; needs N_q = N_k.
    eps : float
        Added to the denominator; finite and at least 0.
    key_mask : array_like of bool, (N_k,) or one axis fewer than `k`, optional
        True: this key takes part, as in PyTorch's SDPA. Masked keys write nothing, even where they hold NaN.

    Returns
    -------
    ndarray, (..., N_q, d_v)
        In the floating dtype of `v`; sums are taken in float32 at least. A row that no key reaches is 0; a query that
        holds NaN has a row of NaN in any case.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    Linear in N in time and memory: no array of size N² or N·K·d_v is made. Causally, changing a token changes no
    earlier output by a bit. The output is `attention_weights` times `v`, Eqs. (10) and (10b). Source: Huang & Raza
    (2026), Eqs. (7) and (8b).
    """
    gamma_q = responsibilities(q, mixture)
    k = keep(key_mask, k, mixture.mu[..., :1, :])  # any finite point will do
    gamma_k = keep(key_mask, responsibilities(k, mixture))
    v = keep(key_mask, v)
    if causal:
        return causal_read(gamma_q, gamma_k, v, eps)
    return read_memory(gamma_q, write_memory(gamma_k, v), eps)


def causal_read(gamma_q, gamma_k, v, eps):
    r"""Causal output, Eq. (8b), as a recurrence: write token i, then read for token i.

    .. math::
        o_i = \frac{\sum_k \gamma^Q_{i,k}\tilde V^{(i)}_k}{\sum_k \gamma^Q_{i,k} Z^{(i)}_k + \epsilon}
    """
    (N, K), d_v = gamma_k.shape[-2:], v.shape[-1]
    arrays = gamma_q, gamma_k, v
    batch = np.broadcast_shapes(*(array.shape[:-2] for array in arrays))
    dtype = np.result_type(*arrays)
    V_tilde, Z = (np.zeros((*batch, *s), dtype) for s in ((K, d_v), (K,)))
    output = np.empty((*batch, N, d_v), dtype)
    for i in range(N):
        V_tilde += gamma_k[..., i, :, None] * v[..., i, None, :]
        Z += gamma_k[..., i, :]
        query, memory = gamma_q[..., i, None, :], Memory(V_tilde, Z)
        output[..., i, None, :] = read_memory(query, memory, eps)
    return output
