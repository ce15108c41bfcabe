"""Which tokens each component stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gma_ref.reference.checks import as_count
from gma_ref.reference.numerics import ratio

from .categories import sum_by_label
from .checks import as_labelled

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Shaped
    from numpy import ndarray as Array

__all__ = ["TopTokens", "top_tokens"]


class TopTokens(NamedTuple):
    """The first tokens of each component, the first one foremost.

    Attributes
    ----------
    tokens : ndarray, (..., K, T)
        Labels.
    share : ndarray, (..., K, T)
        What part of the component's mass they are.
    lift : ndarray, (..., K, T)
        How many times as large this part is as their part of all tokens: 1 where the component does not care.
    """

    tokens: Shaped[Array, "... K T"]
    share: Float[Array, "... K T"]
    lift: Float[Array, "... K T"]


def top_tokens(
    gamma: Float[Array, "... N K"],
    tokens: Shaped[Array, " N"],
    mask: Bool[Array, " N"] | None = None,
    *,
    count: int = 8,
    by: str = "share",
    min_count: int = 1,
) -> TopTokens:
    r"""Return the tokens of which each component has most.

    .. math::
        \text{share}_{k,t} = \frac{\sum_{i:\, t_i = t} \gamma_{i,k}}{\sum_i \gamma_{i,k}}, \qquad
        \text{lift}_{k,t} = \text{share}_{k,t} \Big/ \frac{\#\{i : t_i = t\}}{N}

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    tokens : str or sequence of str or int, (N,)
        What each token is, the same for all leading axes of `gamma`: the characters of a text, words, numbers.
    mask : array_like of bool, (N,), optional
        True: this token takes part.
    count : int
        How many tokens of each component; where there are fewer, all.
    by : {"share", "lift"}
        What they are sorted by. By share, tokens that are common everywhere come first; by lift, those that are
        special to the component, and rare ones among them by chance.
    min_count : int
        Leave out tokens that occur less often. They still count in the component's mass.

    Returns
    -------
    TopTokens
        Tokens of equal rank in the order of their labels. A component without mass has shares and lifts of 0.

    Raises
    ------
    TypeError, ValueError
        As in `contingency`, or if an option does not fit.

    Notes
    -----
    Source: the diagnostic is named by Huang & Raza (2026); the lift is the *interest* of S. Brin, R. Motwani, J. D.
    Ullman and S. Tsur, *Dynamic itemset counting and implication rules for market basket data*, SIGMOD 1997.
    """
    if by not in ("share", "lift"):
        raise ValueError(f"by must be 'share' or 'lift', got {by!r}")
    count, min_count = as_count("count", count), as_count("min_count", min_count)
    gamma, tokens = as_labelled(gamma, "tokens", tokens, mask)
    names, number, occurs = np.unique(tokens, return_inverse=True, return_counts=True)
    share = ratio(sum_by_label(gamma, number, len(names)), gamma.sum(axis=-2)[..., None])
    lift = share / ratio(occurs, len(tokens))
    common = occurs >= min_count
    names, share, lift = names[common], share[..., common], lift[..., common]
    first = np.argsort(-(share if by == "share" else lift), axis=-1, kind="stable")[..., :count]
    return TopTokens(names[first], np.take_along_axis(share, first, -1), np.take_along_axis(lift, first, -1))
