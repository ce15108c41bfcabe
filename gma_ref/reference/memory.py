"""The latent memory: written by keys, read by queries. Eqs. (5)-(8) and their causal form (5b)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .checks import accepts

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy import ndarray as Array


class Memory(NamedTuple):
    r"""K slots of a latent memory, Eq. (5); also the state of a causal sequence.

    Attributes
    ----------
    V_tilde : array, (..., K, d_v)
        :math:`\tilde V`, the responsibility-weighted sum of the values in each slot.
    Z : array, (..., K)
        :math:`Z`, the total responsibility of the keys in each slot; over all slots it sums to the number of keys.

    Notes
    -----
    Source: Huang & Raza (2026), Eq. (5).
    """

    V_tilde: Float[Array, "... K d_v"]
    Z: Float[Array, "... K"]


Memory.AXES = {"V_tilde": "K d_v", "Z": "K"}


def keep(key_mask, array, otherwise=0):
    """Return `array` (..., N, width) with the rows of masked keys set to `otherwise`, whatever they held."""
    return array if key_mask is None else np.where(key_mask[..., None], array, otherwise)


@accepts(gamma_k="N_k K", v="N_k d_v", key_mask="gamma_k")
def write_memory(
    gamma_k: Float[Array, "... N_k K"],
    v: Float[Array, "... N_k d_v"],
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> Memory:
    r"""Write the values into K slots, Eqs. (5) and (6).

    .. math::
        \tilde V = (\Gamma^K)^\top V_X, \quad Z = (\Gamma^K)^\top \mathbf 1_N; \qquad
        \tilde V_k = \sum_j \gamma^K_{j,k} V_{X,j}, \quad Z_k = \sum_j \gamma^K_{j,k}

    Parameters
    ----------
    gamma_k : array_like, (..., N_k, K)
        Key responsibilities :math:`\Gamma^K`.
    v : array_like, (..., N_k, d_v)
        Values :math:`V_X`.
    key_mask : array_like of bool, (N_k,) or one axis fewer than `gamma_k`, optional
        True: this key takes part. Masked keys write nothing, even where they hold NaN.

    Returns
    -------
    Memory
        In float32 at least. Without keys, all zeros.

    Notes
    -----
    Source: Huang & Raza (2026), Eqs. (5) and (6).
    """
    gamma_k, v = keep(key_mask, gamma_k), keep(key_mask, v)
    gamma_k_T = np.swapaxes(gamma_k, -1, -2)
    V_tilde = gamma_k_T @ v
    Z = gamma_k_T @ np.ones((*v.shape[:-1], 1), v.dtype)
    return Memory(V_tilde, Z[..., 0])


@accepts(gamma_q="N_q K", memory=Memory)
def read_memory(gamma_q: Float[Array, "... N_q K"], memory: Memory, eps: float = 1e-6) -> Float[Array, "... N_q d_v"]:
    r"""Read the slots, Eqs. (7) and (8).

    .. math::
        O = \frac{\Gamma^Q\tilde V}{\Gamma^Q Z + \epsilon}, \qquad
        o_i = \frac{\sum_k \gamma^Q_{i,k}\tilde V_k}{\sum_k \gamma^Q_{i,k} Z_k + \epsilon}

    Parameters
    ----------
    gamma_q : array_like, (..., N_q, K)
        Query responsibilities :math:`\Gamma^Q`.
    memory : Memory
        From `write_memory`, `update_memory` or `prefix_memory`; for the last, pass ``gamma_q[..., None, :]``.
    eps : float
        :math:`\epsilon`, added to the denominator; finite and at least 0. It has the unit of a number of keys.

    Returns
    -------
    ndarray, (..., N_q, d_v)
        A row that no key reaches is 0, also with ``eps=0``.

    Notes
    -----
    Source: Huang & Raza (2026), Eqs. (7) and (8).
    """
    numerator = gamma_q @ memory.V_tilde
    denominator = gamma_q @ memory.Z[..., None] + eps
    reached = denominator != 0
    output = numerator / np.where(reached, denominator, 1)
    return np.where(reached, output, 0)


@accepts(gamma_k="N_k K", v="N_k d_v", key_mask="gamma_k")
def prefix_memory(
    gamma_k: Float[Array, "... N_k K"],
    v: Float[Array, "... N_k d_v"],
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> Memory:
    r"""Return the memory after every token, Eq. (5b), by cumulative sums; for teaching.

    .. math::
        \tilde V^{(i)}_k = \sum_{j\le i} \gamma^K_{j,k} V_{X,j}, \qquad Z^{(i)}_k = \sum_{j\le i} \gamma^K_{j,k}

    Parameters
    ----------
    gamma_k, v, key_mask
        As in `write_memory`.

    Returns
    -------
    Memory
        ``V_tilde`` (..., N_k, K, d_v) and ``Z`` (..., N_k, K). Read it with ``gamma_q[..., None, :]``.

    Notes
    -----
    This is the prefix tensor of N·K·(d_v + 1) numbers that the causal form would need if it were computed at once;
    `gaussian_mixture_attention` never makes it. Source: Huang & Raza (2026); the number (5b) is inferred.
    """
    gamma_k, v = keep(key_mask, gamma_k), keep(key_mask, v)
    V_tilde = np.cumsum(gamma_k[..., :, None] * v[..., None, :], axis=-3)
    Z = np.cumsum(gamma_k, axis=-2)
    return Memory(V_tilde, np.broadcast_to(Z, V_tilde.shape[:-1]).copy())


@accepts(memory=Memory, gamma_k="N_k K", v="N_k d_v", key_mask="gamma_k")
def update_memory(
    memory: Memory,
    gamma_k: Float[Array, "... N_k K"],
    v: Float[Array, "... N_k d_v"],
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> Memory:
    r"""Return the memory after one more piece of the sequence, Eq. (5b).

    .. math::
        \tilde V^{(i+n)} = \tilde V^{(i)} + \sum_{j=i+1}^{i+n} \gamma^K_j\,V_{X,j}^\top, \qquad
        Z^{(i+n)} = Z^{(i)} + \sum_{j=i+1}^{i+n} \gamma^K_j

    Parameters
    ----------
    memory : Memory
        The state so far; it is not changed.
    gamma_k, v, key_mask
        The new tokens, as in `write_memory`.

    Returns
    -------
    Memory
        A new memory.

    Notes
    -----
    Source: Huang & Raza (2026); the number (5b) is inferred.
    """
    piece = write_memory(gamma_k, v, key_mask)
    return Memory(memory.V_tilde + piece.V_tilde, memory.Z + piece.Z)
