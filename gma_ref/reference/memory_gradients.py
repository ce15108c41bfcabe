"""The write and the read, backwards (G6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .checks import accepts
from .memory import Memory, keep
from .numerics import ratio, sum_to
from .score_gradients import balanced, score_gradient

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy import ndarray as Array


@accepts(gamma_q="N_q K", memory=Memory, upstream="N_q d_v")
def read_memory_vjp(
    gamma_q: Float[Array, "... N_q K"],
    memory: Memory,
    upstream: Float[Array, "... N_q d_v"],
    eps: float = 1e-6,
) -> tuple[Float[Array, "... N_q K"], Memory]:
    r"""Backward pass of the read, Eq. (7) (G6).

    .. math::
        P = \operatorname{diag}(D)^{-1} G, \quad r_i = -\langle G_i, O_i\rangle / D_i, \quad D = \Gamma^Q Z + \epsilon:
        \qquad
        \frac{\partial L}{\partial\Gamma^Q} = P\tilde V^\top + r Z^\top, \quad
        \frac{\partial L}{\partial\tilde V} = (\Gamma^Q)^\top P, \quad
        \frac{\partial L}{\partial Z} = (\Gamma^Q)^\top r

    Parameters
    ----------
    gamma_q : array_like, (..., N_q, K)
    memory : Memory
    upstream : array_like, (..., N_q, d_v)
        :math:`G = \partial L/\partial O`.
    eps : float
        As in `read_memory`.

    Returns
    -------
    gamma_q_bar : ndarray, (..., N_q, K)
        :math:`\partial L/\partial\Gamma^Q`.
    memory_bar : Memory
        :math:`\partial L/\partial\tilde V` and :math:`\partial L/\partial Z`.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    Results are summed over the axes along which the arguments were broadcast. A row that no key reaches gives 0, and a
    query whose row of G is 0 sends nothing backwards, whatever it holds. Where D is near ε the gradient of the
    responsibilities may reach 1/ε, although that of the scores stays bounded: `gaussian_mixture_attention_vjp` goes to
    the scores directly. Source: this book, from Eq. (7) of Huang & Raza (2026).
    """
    V_tilde, Z = memory
    asking = (upstream != 0).any(axis=-1)
    gamma_q, shape = keep(asking, gamma_q), gamma_q.shape
    D = gamma_q @ Z[..., None] + eps
    output = ratio(gamma_q @ V_tilde, D)
    P = ratio(upstream, D)
    r = -(P * output).sum(axis=-1, keepdims=True)
    gamma_q_T = np.swapaxes(gamma_q, -1, -2)
    V_tilde_T = np.swapaxes(V_tilde, -1, -2)
    gamma_q_bar = P @ V_tilde_T + r * Z[..., None, :]
    V_tilde_bar = sum_to(gamma_q_T @ P, V_tilde.shape)
    Z_bar = sum_to((gamma_q_T @ r)[..., 0], Z.shape)
    return sum_to(gamma_q_bar, shape), Memory(V_tilde_bar, Z_bar)


@accepts(gamma_k="N_k K", v="N_k d_v", memory_bar=Memory, key_mask="gamma_k")
def write_memory_vjp(
    gamma_k: Float[Array, "... N_k K"],
    v: Float[Array, "... N_k d_v"],
    memory_bar: Memory,
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> tuple[Float[Array, "... N_k K"], Float[Array, "... N_k d_v"]]:
    r"""Backward pass of the write, Eq. (5) (G6).

    .. math::
        \frac{\partial L}{\partial\Gamma^K} = V_X \Bigl(\frac{\partial L}{\partial\tilde V}\Bigr)^{\!\top}
        + \mathbf 1_N \Bigl(\frac{\partial L}{\partial Z}\Bigr)^{\!\top}, \qquad
        \frac{\partial L}{\partial V_X} = \Gamma^K \frac{\partial L}{\partial\tilde V}

    Parameters
    ----------
    gamma_k, v, key_mask
        As in `write_memory`.
    memory_bar : Memory
        :math:`\partial L/\partial\tilde V` and :math:`\partial L/\partial Z`, from `read_memory_vjp`.

    Returns
    -------
    gamma_k_bar : ndarray, (..., N_k, K)
    v_bar : ndarray, (..., N_k, d_v)
        Rows of masked keys are 0, whatever they or the memory's gradient hold.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    Results are summed over the axes along which the arguments were broadcast. Source: this book, from Eq. (5) of Huang
    & Raza (2026).
    """
    V_tilde_bar, Z_bar = memory_bar
    V_tilde_bar_T = np.swapaxes(V_tilde_bar, -1, -2)
    gamma_k_bar = keep(key_mask, v) @ V_tilde_bar_T + Z_bar[..., None, :]
    gamma_k_bar = keep(key_mask, gamma_k_bar)
    v_bar = keep(key_mask, keep(key_mask, gamma_k) @ V_tilde_bar)
    return sum_to(gamma_k_bar, gamma_k.shape), sum_to(v_bar, v.shape)


def routing_vjp(gamma_q, gamma_k, v, upstream, *, causal, eps):
    r"""Score gradients of queries and keys, and the gradient of the values, without a division by a small number (B2).

    With the slot means :math:`m'_k = \tilde V_k/(Z_k+\epsilon)`, a read is a mixture of them by weights w, so

    .. math::
        \delta^Q_{i,k} = w_{i,k}\,\langle G_i, m'_k - o_i\rangle, \qquad
        w_{i,k} = \frac{\gamma^Q_{i,k}(Z_k+\epsilon)}{\sum_\ell \gamma^Q_{i,\ell}(Z_\ell+\epsilon)},

    and with :math:`\rho_{j,k} = \gamma^K_{j,k}/(Z_k+\epsilon)`, what key j holds of slot k,

    .. math::
        \frac{\partial L}{\partial V_j} = \sum_k \rho_{j,k}\sum_i w_{i,k} G_i, \qquad
        a_{j,k} = \gamma^K_{j,k}\frac{\partial L}{\partial\gamma^K_{j,k}}
        = \rho_{j,k} \sum_i w_{i,k}\langle G_i, V_j - o_i\rangle, \qquad
        \delta^K_{j,k} = a_{j,k} - \gamma^K_{j,k}\sum_\ell a_{j,\ell}.

    This is G6 followed by Eq. (18). Neither w nor ρ exceeds 1, whatever ε is. Causally the memories are those of the
    keys j ≤ i, and a key sums over the queries i ≥ j.
    """
    Z = gamma_k.cumsum(-2) if causal else gamma_k.sum(-2, keepdims=True)
    mass = Z + eps
    products = slot_products(gamma_k, v, upstream, causal)
    reads = ratio(products, mass)  # ⟨G_i, m'_k⟩
    w = gamma_q * mass
    w = ratio(w, w.sum(axis=-1, keepdims=True))
    delta_q = score_gradient(w, reads)
    output = (w * reads).sum(axis=-1, keepdims=True)  # ⟨G_i, o_i⟩
    share = ratio(gamma_k, mass)
    arrays = w, mass, upstream, output, share, v
    by_v, by_share = gathered_gradients(*arrays, causal)
    a = share * by_share
    delta_k = balanced(a - gamma_k * a.sum(axis=-1, keepdims=True), gamma_k)
    return delta_q, delta_k, by_v


def slot_products(gamma_k, v, upstream, causal):
    r"""Return :math:`\langle G_i, \tilde V_k\rangle`, causally with the memory of the keys j ≤ i."""
    if not causal:
        V_tilde = np.swapaxes(gamma_k, -1, -2) @ v
        return upstream @ np.swapaxes(V_tilde, -1, -2)
    V_tilde, products = empty_sums(gamma_k, v, upstream)
    for i in range(v.shape[-2]):
        V_tilde += gamma_k[..., i, :, None] * v[..., i, None, :]
        products[..., i, :] = (V_tilde @ upstream[..., i, :, None])[..., 0]
    return products


def gathered_gradients(w, mass, upstream, output, share, v, causal):
    r"""Return the gradient of the values and the sums :math:`\sum_i w_{i,k}\langle G_i, V_j - o_i\rangle`.

    Causally the sums run over i ≥ j, from the last token to the first, and hold :math:`w_{i,k} M_{j,k}/M_{i,k}` with
    the masses M = Z + ε of the two memories in place of the weight: the mass only grows, so nothing overflows.
    """
    if not causal:
        w_T = np.swapaxes(w, -1, -2)
        G_bar, o_bar = w_T @ upstream, w_T @ output
        return share @ G_bar, v @ np.swapaxes(G_bar, -1, -2) - np.swapaxes(o_bar, -1, -2)
    G_bar, by_share = empty_sums(w, v, upstream, output, share, mass)
    o_bar = np.zeros(G_bar.shape[:-1], G_bar.dtype)
    by_v = np.empty((*G_bar.shape[:-2], *v.shape[-2:]), G_bar.dtype)
    shrinks = np.ones_like(mass)
    shrinks[..., :-1, :] = ratio(mass[..., :-1, :], mass[..., 1:, :])
    for j in reversed(range(v.shape[-2])):
        G_bar = shrinks[..., j, :, None] * G_bar + w[..., j, :, None] * upstream[..., j, None, :]
        o_bar = shrinks[..., j, :] * o_bar + w[..., j, :] * output[..., j, :]
        by_v[..., j, :] = (share[..., j, None, :] @ G_bar)[..., 0, :]
        by_share[..., j, :] = (G_bar @ v[..., j, :, None])[..., 0] - o_bar
    return by_v, by_share


def empty_sums(weights, v, *others):
    """Return a sum (..., K, d_v) of zeros and room for N rows of K products, with the leading axes of all arrays."""
    arrays = weights, v, *others
    batch = np.broadcast_shapes(*(array.shape[:-2] for array in arrays))
    dtype = np.result_type(*arrays)
    return np.zeros((*batch, weights.shape[-1], v.shape[-1]), dtype), np.empty((*batch, *weights.shape[-2:]), dtype)
