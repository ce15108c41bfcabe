"""How sharply tokens choose, how evenly components are chosen, and what lies between the two: entropies in nats."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gma_ref.reference.checks import as_flag
from gma_ref.reference.numerics import ratio

from .checks import as_responsibilities

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy import ndarray as Array

__all__ = ["Information", "component_information", "entropy", "responsibility_entropy"]


class Information(NamedTuple):
    r"""What components and tokens say of each other, in nats: :math:`I = H(z) - H(z \mid i)`.

    Attributes
    ----------
    marginal : ndarray, (...)
        :math:`H(z)`, the entropy of the usage: log K where all components are used alike.
    conditional : ndarray, (...)
        :math:`H(z \mid i)`, the mean entropy of a token's responsibilities: 0 where each token goes to one component.
    mutual : ndarray, (...)
        :math:`I(z; i)`, what the component tells about the token: 0 where all tokens have the same responsibilities.
    """

    marginal: Float[Array, ...]
    conditional: Float[Array, ...]
    mutual: Float[Array, ...]


def entropy(shares):
    r"""Return the entropy :math:`-\sum_k p_k \log p_k` over the last axis, in nats, with 0 log 0 = 0."""
    return np.maximum(-(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=-1), 0)


def responsibility_entropy(
    gamma: Float[Array, "... N K"], mask: Bool[Array, "... N"] | None = None, *, normalised: bool = False
) -> Float[Array, "... N"]:
    r"""Return the entropy of each token's responsibilities: how undecided it is between components.

    .. math:: H_i = -\sum_k \gamma_{i,k} \log \gamma_{i,k}

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    mask : array_like of bool, (N,) or (..., N), optional
        True: this token takes part.
    normalised : bool
        Divide by log K, so that K does not matter. For K = 1, where nothing is to be decided, it is 0.

    Returns
    -------
    ndarray, (..., N)
        In nats, between 0 and log K; normalised, between 0 and 1. Masked tokens have 0: for the mean over the others
        take `component_information`.

    Raises
    ------
    TypeError, ValueError
        As in `usage`, or if `normalised` is not True or False.

    Notes
    -----
    Source: C. E. Shannon, *A mathematical theory of communication*, Bell System Technical Journal 27, 1948.
    """
    gamma, _ = as_responsibilities(gamma, mask)
    nats, largest = entropy(gamma), np.log(gamma.shape[-1])
    return np.minimum(ratio(nats, largest), 1) if as_flag("normalised", normalised) else np.minimum(nats, largest)


def component_information(gamma: Float[Array, "... N K"], mask: Bool[Array, "... N"] | None = None) -> Information:
    r"""Return the entropy of usage, the mean entropy of a token, and their difference.

    A token i is drawn, every one as likely as any other, and then a component z by its responsibilities:

    .. math:: I(z; i) = H(z) - H(z \mid i) = H(u) - \frac1N \sum_i H_i, \qquad u_k = \frac1N \sum_i \gamma_{i,k}

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    mask : array_like of bool, (N,) or (..., N), optional
        True: this token takes part.

    Returns
    -------
    Information
        Marginal and conditional entropy and mutual information, each (...), in nats; 0 without tokens.

    Raises
    ------
    TypeError, ValueError
        As in `usage`.

    Notes
    -----
    A mixture that uses all its components, each for something of its own, has a large marginal and a small conditional
    entropy. Components that have collapsed into one have both equal, and mutual information 0, although usage looks
    even. With a category of each token in the place of the token, the information can only be less: see `alignment`.
    Source: Shannon, as for `responsibility_entropy`.
    """
    gamma, counted = as_responsibilities(gamma, mask)
    tokens = counted.sum(axis=-1)
    marginal = entropy(ratio(gamma.sum(axis=-2), tokens[..., None]))
    conditional = ratio(entropy(gamma).sum(axis=-1), tokens)
    return Information(marginal, conditional, np.maximum(marginal - conditional, 0))
