"""What alignment with categories there would be by chance: categories are permuted, and compared again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gma_ref.reference.checks import as_count
from gma_ref.reference.numerics import ratio

from .categories import Alignment, part_of, scores_of_table
from .checks import as_labelled, as_labels
from .information import entropy

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Shaped
    from numpy import ndarray as Array

__all__ = ["PermutationTest", "permutation_test"]

ROUNDING = 1e-10  # two alignments that are nearer than this are equal
AT_ONCE = 4_000_000  # numbers


class PermutationTest(NamedTuple):
    """Alignment beside what it is with permuted categories; each entry of an `Alignment` is (...).

    Attributes
    ----------
    observed : Alignment
        With the categories as they are.
    mean, sd : Alignment
        Over permutations: what chance gives, and how far it scatters.
    p_value : Alignment
        How often chance gives at least as much.
    adjusted_information, adjusted_purity : ndarray, (...)
        0 where it is what chance gives on average, 1 where it could not be more.
    """

    observed: Alignment
    mean: Alignment
    sd: Alignment
    p_value: Alignment
    adjusted_information: Float[Array, ...]
    adjusted_purity: Float[Array, ...]


def permutation_test(
    gamma: Float[Array, "... N K"],
    categories: Shaped[Array, " N"],
    mask: Bool[Array, " N"] | None = None,
    *,
    sequences: Shaped[Array, " N"] | None = None,
    block: int = 1,
    permutations: int = 999,
    seed: int | np.random.Generator = 0,
) -> PermutationTest:
    r"""Compare the alignment with categories with that of permuted categories.

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    categories : str or sequence of str or int, (N,)
        One label a token, the same for all leading axes of `gamma`.
    mask : array_like of bool, (N,), optional
        True: this token takes part.
    sequences : sequence of str or int, (N,), optional
        Which sequence each token belongs to: categories stay within theirs. All tokens are one sequence by default.
    block : int
        How many tokens that follow each other in a sequence keep their categories together. Neighbours are alike, in
        their categories and in their responsibilities; a permutation of single tokens does not know this, and takes
        for alignment what is nothing but two things that change slowly. A block should be longer than what makes
        neighbours alike. What is left over at the end of a sequence, less than a block, is not counted at all.
    permutations : int
        How many, at least 2.
    seed : int or numpy.random.Generator
        The same seed gives the same permutations. All leading axes get the same ones.

    Returns
    -------
    PermutationTest
        With :math:`x` observed and :math:`x_1, \dots, x_B` from permutations: their mean and standard deviation,
        :math:`p = (1 + \#\{b : x_b \ge x\}) / (1 + B)`, and :math:`(x - \bar x) / (x_{\max} - \bar x)` for the
        information, with :math:`x_{\max} = (H(z) + H(c))/2`, and for purity, with 1.

    Raises
    ------
    TypeError, ValueError
        As in `contingency`, or if an option does not fit, or no sequence has a whole block.

    Notes
    -----
    The p-value is valid for any number of permutations, and never 0. It says how surprising an alignment is, not how
    strong: with many tokens the weakest is significant. The adjusted information is an estimate of scikit-learn's
    ``adjusted_mutual_info_score`` where rows are one-hot and ``block=1``. Source: B. Phipson and G. K. Smyth,
    *Permutation p-values should never be zero*, Statistical Applications in Genetics and Molecular Biology 9, 2010; and
    for the adjustment N. X. Vinh, J. Epps and J. Bailey, *Information theoretic measures for clusterings comparison*,
    Journal of Machine Learning Research 11, 2010.
    """
    all_tokens = np.shape(gamma)[-2:-1]
    gamma, categories = as_labelled(gamma, "categories", categories, mask)
    names, category = np.unique(categories, return_inverse=True)
    sequences = np.zeros(all_tokens, np.int64) if sequences is None else as_labels("sequences", sequences, *all_tokens)
    _, sequence = np.unique(sequences if mask is None else sequences[np.asarray(mask)], return_inverse=True)
    block, permutations = as_count("block", block), as_count("permutations", permutations)
    if block < 1 or permutations < 2:
        raise ValueError(f"block must be at least 1 and permutations at least 2, got {block} and {permutations}")
    kept = _whole_blocks(sequence, block)
    if len(category) and not len(kept):
        raise ValueError(f"block must fit into at least one sequence, got {block}")
    columns = np.ascontiguousarray(gamma[..., kept, :].swapaxes(-1, -2))
    blocks, home = category[kept].reshape(-1, block), sequence[kept[::block]]

    rng = np.random.default_rng(seed)
    unmoved = np.arange(len(blocks))
    observed = _alignments(columns, blocks, [unmoved], len(names))
    # the two largest arrays: categories of tokens, and tables
    at_once = max(1, AT_ONCE // max(1, len(names) * max(len(kept), math.prod(columns.shape[:-1]))))
    drawn = []
    for start in range(0, permutations, at_once):
        count = min(at_once, permutations - start)
        # sorted by sequence, and within each by a random number
        orders = [np.lexsort((rng.random(len(blocks)), home)) for _ in range(count)]
        drawn.append(_alignments(columns, blocks, orders, len(names)))
    shares = ratio(columns.sum(axis=-1), len(kept)), ratio(np.bincount(category[kept]), len(kept))
    return _compare(
        Alignment(*(entry[0] for entry in observed)),
        Alignment(*map(np.concatenate, zip(*drawn, strict=True))),
        sum(map(entropy, shares)) / 2,
    )


def _whole_blocks(sequence, block):
    """Return the positions of all tokens, sequence by sequence, without what is left over at the ends."""
    places = np.argsort(sequence, kind="stable")
    sizes = np.bincount(sequence)
    ends = np.cumsum(sizes)
    within = np.arange(len(places)) - np.repeat(ends - sizes, sizes)
    return places[within < np.repeat(sizes - sizes % block, sizes)]


def _alignments(columns, blocks, orders, num_categories):
    """Return the alignments, (P, ...), with the blocks of categories in each of P orders."""
    one_hot = np.eye(num_categories)[np.stack([blocks[order].ravel() for order in orders], axis=-1)]  # (N, P, C)
    tables = columns @ one_hot.reshape(len(one_hot), len(orders) * num_categories)
    tables = tables.reshape(*columns.shape[:-1], len(orders), num_categories)
    return scores_of_table(np.moveaxis(tables, -2, 0))


def _compare(observed, drawn, largest):
    """Set what was observed beside what was drawn; `largest` is the largest information."""
    mean = Alignment(*(entry.mean(axis=0) for entry in drawn))
    reached = Alignment(*(x >= seen - ROUNDING for x, seen in zip(drawn, observed, strict=True)))
    return PermutationTest(
        observed,
        mean,
        Alignment(*(entry.std(axis=0, ddof=1) for entry in drawn)),
        Alignment(*((1 + entry.sum(axis=0)) / (1 + len(entry)) for entry in reached)),
        _beyond_chance(observed.mutual_information, mean.mutual_information, largest),
        _beyond_chance(observed.purity, mean.purity, 1.0),
    )


def _beyond_chance(observed, mean, largest):
    return part_of(observed - mean, largest - mean)
