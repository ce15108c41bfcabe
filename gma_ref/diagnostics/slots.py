"""Who is used: the share of each component, how many are in use (B11), and which are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gma_ref.reference.checks import as_size
from gma_ref.reference.numerics import ratio

from .checks import as_responsibilities

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy import ndarray as Array

__all__ = ["dead_components", "effective_slots", "usage"]


def usage(gamma: Float[Array, "... N K"], mask: Bool[Array, "... N"] | None = None) -> Float[Array, "... K"]:
    r"""Return the mean responsibility of each component: its share of the tokens.

    .. math:: u_k = \frac1N \sum_i \gamma_{i,k} = Z_k / N

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities of keys or of queries. To count a batch or several heads together, make one axis of tokens of
        them.
    mask : array_like of bool, (N,) or (..., N), optional
        True: this token takes part. What the others hold does not matter, not even NaN.

    Returns
    -------
    ndarray, (..., K)
        Shares that sum to 1. An equal share is 1/K. Without tokens all are 0.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype or shape, or if `gamma` holds NaN, infinity, a negative number, or a row whose
        sum is off 1 by more than 0.004.

    Notes
    -----
    Source: with :math:`Z_k` of Eq. (5) of Huang & Raza (2026), who name usage as the first diagnostic.
    """
    gamma, counted = as_responsibilities(gamma, mask)
    return ratio(gamma.sum(axis=-2), counted.sum(axis=-1)[..., None])


def effective_slots(gamma: Float[Array, "... N K"], mask: Bool[Array, "... N"] | None = None) -> Float[Array, ...]:
    r"""Return the effective number of slots (B11): the inverse of the mean affinity of two tokens.

    .. math:: \Bigl(\sum_k u_k^2\Bigr)^{-1}, \qquad u_k = Z_k / N

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    mask : array_like of bool, (N,) or (..., N), optional
        True: this token takes part.

    Returns
    -------
    ndarray, (...)
        Between 1, where one component has everything, and K, where all have the same. Without tokens 0.

    Raises
    ------
    TypeError, ValueError
        As in `usage`.

    Notes
    -----
    It counts components that are used, not components that differ: where every token is spread evenly over all K, it is
    K, and all columns are alike. `responsibility_overlap` and `effective_rank` see that. Source: this book; the formula
    is the inverse of Simpson's index, E. H. Simpson, *Measurement of diversity*, Nature 163, 1949.
    """
    share = usage(gamma, mask)
    effective = ratio(1.0, np.square(share).sum(axis=-1))
    # rounding may not lead out of the range that the mathematics allows
    return np.minimum(effective, share.shape[-1])


def dead_components(
    gamma: Float[Array, "... N K"], mask: Bool[Array, "... N"] | None = None, *, threshold: float = 0.01
) -> Bool[Array, "... K"]:
    r"""Tell which components are hardly used: :math:`u_k < \text{threshold} \cdot 1/K`.

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    mask : array_like of bool, (N,) or (..., N), optional
        True: this token takes part.
    threshold : float
        As a share of the equal share 1/K, so that it means the same for every K: with 0.01 a component is dead if it
        has less than a hundredth of what each would have if all had the same.

    Returns
    -------
    ndarray of bool, (..., K)
        Without tokens all are dead.

    Raises
    ------
    TypeError, ValueError
        As in `usage`, or if `threshold` is not a finite number of at least 0.

    Notes
    -----
    The threshold is a convention. A component that is rightly reserved for something rare falls below it too: look at
    its `top_tokens`. Source: this book.
    """
    share = usage(gamma, mask)
    return share * share.shape[-1] < as_size("threshold", threshold)
