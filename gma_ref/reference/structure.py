"""The structure of the memory and of the weights: slot means (S5) and effective rank (S4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .checks import accepts
from .memory import Memory
from .mixture import check_finite
from .numerics import ratio

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray as Array


@accepts(memory=Memory)
def slot_means(memory: Memory, eps: float = 1e-6) -> Float[Array, "... K d_v"]:
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
    ndarray, (..., K, d_v)
        In the units of the values. A slot that no key has reached is 0, also with ``eps=0``; masked keys are in no
        mean, since they have written nothing.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    Each output is a mixture of these K means with weights that sum to 1; the read never needs them, and never divides
    by :math:`Z_k`. Source: this book, from Eq. (8) of Huang & Raza (2026).
    """
    return ratio(memory.V_tilde, memory.Z[..., None] + eps)


@accepts(matrix="rows columns")
def effective_rank(matrix: Float[Array, "... rows columns"]) -> Float[Array, ...]:
    r"""Effective rank of a matrix: how many singular values it has, each counted by its share (S4).

    .. math::
        \operatorname{erank}(A) = \exp\Bigl(-\sum_r p_r \log p_r\Bigr), \qquad p_r = s_r \big/ \textstyle\sum_t s_t

    with :math:`s_1 \ge s_2 \ge \dots` the singular values of A and :math:`0 \log 0 = 0`.

    Parameters
    ----------
    matrix : array_like, (..., rows, columns)
        For example the affinity, Eq. (11), or the weights, Eq. (9).

    Returns
    -------
    ndarray, (...)
        Between 1 and the rank; equal to the rank when all singular values that are not 0 are equal. A matrix of zeros
        or without entries has 0.

    Raises
    ------
    TypeError, ValueError
        If the argument has another dtype or shape, or holds NaN or infinity.

    Notes
    -----
    It does not change when the matrix is multiplied by a number that is not 0 or by an orthogonal matrix, or
    transposed. It is computed in float64, whatever comes. Of the affinity it is at most K, as the rank is. A masked key
    is a column of zeros, as if it were not there. ε scales the rows of the weights: it keeps their rank, and can change
    their effective rank, but not where all rows of the affinity have the same sum. Source: O. Roy and M. Vetterli, *The
    effective rank: a measure of effective dimensionality*, EUSIPCO 2007, definition 1.
    """
    check_finite("matrix", matrix)
    matrix = np.float64(matrix)
    largest = np.abs(matrix).max(axis=(-2, -1), keepdims=True, initial=0)
    _, exponent = np.frexp(largest)  # its unit does not matter
    singular = np.linalg.svd(np.ldexp(matrix, -exponent), compute_uv=False)
    share = ratio(singular, singular.sum(axis=-1, keepdims=True))
    surprise = -np.log(np.where(share > 0, share, 1))
    entropy = (share * surprise).sum(axis=-1)
    return np.where(share.any(axis=-1), np.exp(entropy), 0)
