"""How well components agree with categories of tokens: a table of the two, and the shares of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gma_ref.reference.numerics import ratio

from .checks import as_labelled
from .information import entropy

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Shaped
    from numpy import ndarray as Array

__all__ = ["Alignment", "Contingency", "alignment", "contingency", "scores_of_table"]


class Contingency(NamedTuple):
    """Tokens by component and category.

    Attributes
    ----------
    categories : ndarray, (C,)
        The labels that occur, sorted.
    table : ndarray, (..., K, C)
        How many tokens of each category each component has, in shares of tokens.
    """

    categories: Shaped[Array, " C"]
    table: Float[Array, "... K C"]


class Alignment(NamedTuple):
    r"""How well components z and categories c agree. All but the first lie between 0 and 1.

    Attributes
    ----------
    mutual_information : ndarray, (...)
        :math:`I(z; c)` in nats.
    homogeneity : ndarray, (...)
        :math:`I / H(c)`: 1 if each component has tokens of one category only.
    completeness : ndarray, (...)
        :math:`I / H(z)`: 1 if each category has tokens of one component only.
    normalised : ndarray, (...)
        :math:`2 I / (H(z) + H(c))`, their harmonic mean, also called the V-measure.
    purity : ndarray, (...)
        The share of tokens that belong to the most common category of their component.
    """

    mutual_information: Float[Array, ...]
    homogeneity: Float[Array, ...]
    completeness: Float[Array, ...]
    normalised: Float[Array, ...]
    purity: Float[Array, ...]


def contingency(
    gamma: Float[Array, "... N K"], categories: Shaped[Array, " N"], mask: Bool[Array, " N"] | None = None
) -> Contingency:
    r"""Count the tokens of each category in each component, by their responsibilities.

    .. math:: n_{k,c} = \sum_{i:\, c_i = c} \gamma_{i,k}

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    categories : str or sequence of str or int, (N,)
        One label a token, the same for all leading axes of `gamma`; a text has its characters.
    mask : array_like of bool, (N,), optional
        True: this token takes part.

    Returns
    -------
    Contingency
        The labels of tokens that take part, and the table: rows sum to the mass of a component, columns to the number
        of tokens of a category.

    Raises
    ------
    TypeError, ValueError
        As in `usage`, or if `categories` does not fit.

    Notes
    -----
    Source: this book; with one-hot rows the contingency table of two partitions.
    """
    gamma, categories = as_labelled(gamma, "categories", categories, mask)
    names, number = np.unique(categories, return_inverse=True)
    return Contingency(names, sum_by_label(gamma, number, len(names)))


def sum_by_label(gamma, number, count):
    """Sum responsibilities over the tokens of each label, all of which occur: (..., K, C)."""
    if count == 0:
        return np.zeros((*gamma.shape[:-2], gamma.shape[-1], 0))
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(count))
    return np.add.reduceat(gamma[..., order, :], starts, axis=-2).swapaxes(-1, -2)


def alignment(
    gamma: Float[Array, "... N K"], categories: Shaped[Array, " N"], mask: Bool[Array, " N"] | None = None
) -> Alignment:
    r"""Return how well components agree with categories.

    A token is drawn, every one as likely as any other, and then a component by its responsibilities. With
    :math:`p_{k,c} = n_{k,c} / N` of `contingency`,

    .. math::
        I(z; c) = \sum_{k,c} p_{k,c} \log \frac{p_{k,c}}{p_k\, p_c}, \qquad
        \text{purity} = \sum_k \max_c p_{k,c}

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    categories : str or sequence of str or int, (N,)
        One label a token, the same for all leading axes of `gamma`.
    mask : array_like of bool, (N,), optional
        True: this token takes part.

    Returns
    -------
    Alignment
        Each (...). A share of an entropy that is 0, with one component, one category or no token, is 0: there is
        nothing to agree on.

    Raises
    ------
    TypeError, ValueError
        As in `contingency`.

    Notes
    -----
    None of these numbers says anything alone. Labels drawn at random have an information above 0, the more components
    and categories there are, and a purity of at least the most common category's share: compare with
    `permutation_test`. With one-hot rows they are those of scikit-learn's ``mutual_info_score``,
    ``homogeneity_completeness_v_measure`` and ``normalized_mutual_info_score``. Source: A. Rosenberg and J. Hirschberg,
    *V-Measure: a conditional entropy-based external cluster evaluation measure*, EMNLP-CoNLL 2007; for purity, section
    16.3 of C. D. Manning, P. Raghavan and H. Schütze, *Introduction to information retrieval*, 2008.
    """
    return scores_of_table(contingency(gamma, categories, mask).table)


def scores_of_table(table):
    """Return the alignment that a table (..., K, C) shows."""
    share = ratio(table, table.sum(axis=(-2, -1), keepdims=True))
    of_component, of_category = entropy(share.sum(axis=-1)), entropy(share.sum(axis=-2))
    joint = entropy(share.reshape(*share.shape[:-2], share.shape[-2] * share.shape[-1]))
    largest = np.minimum(of_component, of_category)
    information = np.clip(of_component + of_category - joint, 0, largest)
    purity = np.minimum(share.max(axis=-1, initial=0).sum(axis=-1), 1)
    return Alignment(
        information,
        part_of(information, of_category),
        part_of(information, of_component),
        part_of(information, (of_component + of_category) / 2),
        purity,
    )


def part_of(information, whole):
    """Return a share of an entropy, and 0 where the entropy is nothing but rounding."""
    return ratio(information, np.where(whole > 1e-9, whole, 0)) * (whole > 1e-9)
