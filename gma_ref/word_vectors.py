"""Words as vectors, from the words they stand beside: real routing vectors for the chapters that need no training."""

from collections import Counter
from numbers import Integral

import numpy as np

__all__ = ["word_vectors"]


def word_vectors(words, corpus, dim=8, num_contexts=300, num_fitted=1000):
    r"""Give each word a unit vector such that words used alike lie close together.

    For word w and context c (one of the most common words, standing directly before or after w), the positive
    pointwise mutual information is

    .. math:: \max\Bigl(0,\ \log\frac{p(w, c)}{p(w)\,p_{0.75}(c)}\Bigr),

    with context probabilities raised to 0.75 and normalised again, so that rare contexts do not dominate. The rows
    of this matrix are projected on the `dim` leading right singular vectors of its most common words.

    Parameters
    ----------
    words : sequence of str
        N tokens, for instance the words of one scene.
    corpus : sequence of sequences of str
        Texts to learn from, each a list of words; they must hold every word in `words`.
    dim : int
        Width of the vectors.
    num_contexts, num_fitted : int
        How many of the most common words serve as contexts, and how many fix the projection.

    Returns
    -------
    ndarray, (N, dim)
        Rows of length 1 (or 0, for a word that never stands beside a context word).

    Raises
    ------
    ValueError
        If a word does not occur in the corpus, or `dim` exceeds what the contexts allow.

    Notes
    -----
    Source: Bullinaria & Levy (2007) for the method; Levy, Goldberg & Dagan (2015) for the exponent 0.75.
    """
    words, corpus = list(words), [_as_text(text) for text in corpus]
    for name, count in (("dim", dim), ("num_contexts", num_contexts), ("num_fitted", num_fitted)):
        if not isinstance(count, Integral) or count < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {count!r}")
    counts = Counter(word for text in corpus for word in text)
    unknown = sorted({word for word in words if word not in counts})
    if unknown:
        raise ValueError(f"words must occur in the corpus, got {', '.join(map(repr, unknown[:5]))}")
    common = [word for word, _ in counts.most_common(max(num_contexts, num_fitted))]
    if dim > 2 * min(num_contexts, len(common)):
        raise ValueError(f"dim must be at most twice the number of contexts, got {dim}")
    index = {word: row for row, word in enumerate(dict.fromkeys([*common, *words]))}
    pmi = positive_pmi(count_neighbours(index, corpus, min(num_contexts, len(common))))
    fitted = pmi[:num_fitted]
    _, directions = np.linalg.eigh(fitted.T @ fitted)  # ascending, so the leading ones are last
    vectors = pmi @ directions[:, : -dim - 1 : -1]
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(length > 0, length, 1))[[index[word] for word in words]]


def _as_text(text):
    if isinstance(text, str):
        raise TypeError(f"corpus must hold texts, each a list of words, got the string {text[:20]!r}")
    return list(text)


def count_neighbours(index, corpus, num_contexts):
    """Count for each word in `index` how often each context word stands before it and after it."""
    counts = np.zeros((len(index), 2 * num_contexts))
    for text in corpus:
        row = np.array([index.get(word, -1) for word in text], dtype=int)
        left, right = row[:-1], row[1:]
        for word, context, column in ((right, left, 0), (left, right, num_contexts)):
            seen = (word >= 0) & (context >= 0) & (context < num_contexts)
            np.add.at(counts, (word[seen], context[seen] + column), 1)
    return counts


def positive_pmi(counts):
    """Return the positive pointwise mutual information of a table of counts, words by contexts."""
    contexts = counts.sum(axis=0) ** 0.75
    expected = counts.sum(axis=1, keepdims=True) * contexts / max(contexts.sum(), 1)
    seen = counts > 0
    return np.maximum(np.log(np.divide(counts, expected, out=np.ones_like(counts), where=seen)), 0)
