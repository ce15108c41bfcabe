"""The latent memory: written by keys, read by queries. Eqs. (5)-(8), their causal form (5b), and slot means (S5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .checks import accepts
from .numerics import keep, ratio
from .state import Memory

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


@accepts(gamma_k="N_k K", v="N_k d_v", key_mask="gamma_k")
def write_memory(
    gamma_k: Float[Tensor, "... N_k K"],
    v: Float[Tensor, "... N_k d_v"],
    key_mask: Bool[Tensor, "... N_k"] | None = None,
) -> Memory:
    r"""Write the values into K slots, Eqs. (5) and (6).

    .. math::
        \tilde V = (\Gamma^K)^\top V_X, \quad Z = (\Gamma^K)^\top \mathbf 1_N; \qquad
        \tilde V_k = \sum_j \gamma^K_{j,k} V_{X,j}, \quad Z_k = \sum_j \gamma^K_{j,k}

    Parameters
    ----------
    gamma_k : Tensor, (..., N_k, K)
        Key responsibilities :math:`\Gamma^K`.
    v : Tensor, (..., N_k, d_v)
        Values :math:`V_X`.
    key_mask : Tensor of bool, (N_k,) or one axis fewer than `gamma_k`, optional
        True: this key takes part. Masked keys write nothing, even where they hold NaN.

    Returns
    -------
    Memory
        In float32 at least, with the leading axes of all arguments. Without keys, all zeros.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    Source: Huang & Raza (2026), Eqs. (5) and (6).
    """
    gamma_k, v = keep(key_mask, gamma_k), keep(key_mask, v)
    V_tilde = gamma_k.mT @ v
    Z = gamma_k.sum(dim=-2)
    return Memory(V_tilde, Z.expand(V_tilde.shape[:-1]))


@accepts(gamma_q="N_q K", memory=Memory)
def read_memory(gamma_q: Float[Tensor, "... N_q K"], memory: Memory, eps: float = 1e-6) -> Float[Tensor, "... N_q d_v"]:
    r"""Read the slots, Eqs. (7) and (8).

    .. math::
        O = \frac{\Gamma^Q\tilde V}{\Gamma^Q Z + \epsilon}, \qquad
        o_i = \frac{\sum_k \gamma^Q_{i,k}\tilde V_k}{\sum_k \gamma^Q_{i,k} Z_k + \epsilon}

    Parameters
    ----------
    gamma_q : Tensor, (..., N_q, K)
        Query responsibilities :math:`\Gamma^Q`.
    memory : Memory
        From `write_memory`, `update_memory` or `prefix_memory`; for the last, pass ``gamma_q[..., None, :]``.
    eps : float
        :math:`\epsilon`, added to the denominator; finite and at least 0. It has the unit of a number of keys.

    Returns
    -------
    Tensor, (..., N_q, d_v)
        In float32 at least. A row that no key reaches is 0, also with ``eps=0``.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape, device or range.

    Notes
    -----
    Source: Huang & Raza (2026), Eqs. (7) and (8).
    """
    numerator = gamma_q @ memory.V_tilde
    denominator = gamma_q @ memory.Z[..., None] + eps
    return ratio(numerator, denominator)


@accepts(gamma_k="N_k K", v="N_k d_v", key_mask="gamma_k")
def prefix_memory(
    gamma_k: Float[Tensor, "... N_k K"],
    v: Float[Tensor, "... N_k d_v"],
    key_mask: Bool[Tensor, "... N_k"] | None = None,
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

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    This is the prefix tensor of N·K·(d_v + 1) numbers that the causal form needs if it is computed at once. Source:
    Huang & Raza (2026); the number (5b) is inferred.
    """
    gamma_k, v = keep(key_mask, gamma_k), keep(key_mask, v)
    V_tilde = torch.cumsum(gamma_k[..., :, None] * v[..., None, :], dim=-3)
    Z = torch.cumsum(gamma_k, dim=-2)
    return Memory(V_tilde, Z.expand(V_tilde.shape[:-1]))


@accepts(memory=Memory, gamma_k="N_k K", v="N_k d_v", key_mask="gamma_k")
def update_memory(
    memory: Memory,
    gamma_k: Float[Tensor, "... N_k K"],
    v: Float[Tensor, "... N_k d_v"],
    key_mask: Bool[Tensor, "... N_k"] | None = None,
) -> Memory:
    r"""Return the memory after one more piece of the sequence, Eq. (5b).

    .. math::
        \tilde V^{(i+n)} = \tilde V^{(i)} + \sum_{j=i+1}^{i+n} \gamma^K_j\,V_{X,j}^\top, \qquad
        Z^{(i+n)} = Z^{(i)} + \sum_{j=i+1}^{i+n} \gamma^K_j

    Parameters
    ----------
    memory : Memory
        The state so far; it is not changed. In float64 it makes the sums float64.
    gamma_k, v, key_mask
        The new tokens, as in `write_memory`.

    Returns
    -------
    Memory
        A new memory.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    Source: Huang & Raza (2026); the number (5b) is inferred.
    """
    piece = write_memory(gamma_k, v, key_mask)
    V_tilde = memory.V_tilde + piece.V_tilde
    return Memory(V_tilde, (memory.Z + piece.Z).expand(V_tilde.shape[:-1]))


@accepts(memory=Memory)
def slot_means(memory: Memory, eps: float = 1e-6) -> Float[Tensor, "... K d_v"]:
    r"""Return the mean value that each slot holds (S5), with ε as one more key of value 0.

    .. math::
        m'_k = \frac{\tilde V_k}{Z_k + \epsilon}, \qquad
        o_i = \sum_k w_{i,k}\, m'_k, \quad w_{i,k} \propto \gamma^Q_{i,k}(Z_k + \epsilon)

    Parameters
    ----------
    memory : Memory
        From `write_memory` or `update_memory`, or `prefix_memory` for the means after every token.
    eps : float
        :math:`\epsilon`, finite and at least 0. It has the unit of a number of keys.

    Returns
    -------
    Tensor, (..., K, d_v)
        In the units of the values. A slot that no key has reached is 0, also with ``eps=0``.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    Source: this book, from Eq. (8) of Huang & Raza (2026).
    """
    return ratio(memory.V_tilde, memory.Z[..., None] + eps)
