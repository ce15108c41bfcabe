"""The baseline of a language model that counts what came after the last few symbols, by Witten and Bell's rule."""

import numpy as np

__all__ = ["contexts", "counted_bits", "mean_in_windows"]


def contexts(tokens, size: int, back: int, start: int | None = None):
    """Give each place a number for the `back` tokens before it.

    Parameters
    ----------
    tokens : array_like of int, (N,)
        Below `size`.
    size : int
        Of the vocabulary; ``size**(back + 1)`` must stay below 2⁶³.
    back : int
    start : int, optional
        The first place; by default the first that has so many tokens before it.

    Returns
    -------
    ndarray of int64, (N - start,)
        Equal where the tokens are.
    """
    tokens, start = np.asarray(tokens), back if start is None else start
    if not 0 <= back <= start:
        raise ValueError(f"start must leave {back} tokens before it, got {start}")
    if size ** (back + 1) >= 2**63:  # with the token itself
        raise ValueError(f"back is too large for {size} symbols, got {back}")
    code = np.zeros(len(tokens) - start, dtype=np.int64)
    for step in range(back, 0, -1):
        code = code * size + tokens[start - step : len(tokens) - step]
    return code


def counted_bits(seen, tokens, size: int, order: int):
    r"""Return the surprise at ``tokens[order:]`` in bits, a row for each number of tokens looked back.

    .. math:: p(c \mid h) = \frac{n(h, c) + T(h) p(c \mid h')}{N(h) + T(h)}

    After the context `h`, which was seen `N` times and was followed by `T` different tokens, the counts hold as far as
    there are any, and the context that is shorter by one for the rest; below the empty one every token is as likely.

    Parameters
    ----------
    seen, tokens : array_like of int
        What is counted, and what is to be predicted.
    size : int
        Of the vocabulary.
    order : int
        How many tokens are looked back at most.

    Returns
    -------
    ndarray, (order + 1, N - order)

    Notes
    -----
    Source: Witten & Bell (1991), their method C.
    """
    seen, tokens = np.asarray(seen), np.asarray(tokens)
    p, rows = 1 / size, []
    for back in range(order + 1):
        h, wanted = contexts(seen, size, back), contexts(tokens, size, back, order)
        known, count = np.unique(h, return_counts=True)
        pairs, times = np.unique(h * size + seen[back:], return_counts=True)
        kinds = np.unique(pairs // size, return_counts=True)[1]
        n = _look_up(pairs, times, wanted * size + tokens[order:])
        total, different = _look_up(known, count, wanted), _look_up(known, kinds, wanted)
        p = np.where(total > 0, (n + different * p) / np.maximum(total + different, 1), p)
        rows.append(-np.log2(p))
    return np.array(rows)


def mean_in_windows(rows, length: int) -> float:
    """Return the mean of `counted_bits` if the text is cut into windows side by side, before which nothing is seen.

    The first target of a window has one token before it, the second two, and so on.
    """
    order, count = len(rows) - 1, rows.shape[1]
    before = (np.arange(count) + order - 1) % length + 1
    return float(rows[np.minimum(before, order), np.arange(count)].mean())


def _look_up(keys, values, wanted):
    """Return the values that belong to the wanted keys, 0 where a key is not there; keys are sorted."""
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)
