"""What the diagnostics take: rows of shares, and one label for each token."""

import numpy as np

from gma_ref.reference.checks import as_array, as_key_mask, as_size
from gma_ref.reference.mixture import check_finite

TOLERANCE = 4e-3  # how far a row of responsibilities may sum from 1: rounded to the 8 bits of bfloat16, by 2^-8 at most


def as_responsibilities(gamma, mask=None, name="gamma", mask_name="mask", what="token"):
    """Return responsibilities in float64, with rows that sum to 1 and of masked tokens to 0, and which tokens count.

    What a row in lower precision lacks to 1 is shared out, so that what must add up does.
    """
    gamma = as_array(name, gamma)
    if gamma.ndim < 2 or gamma.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., N, K) with at least one component, got shape {gamma.shape}")
    mask = as_key_mask(mask, gamma.shape, name, mask_name, what)
    counted = np.broadcast_to(True if mask is None else mask, gamma.shape[:-1])
    gamma = gamma.astype(np.float64, copy=False)
    if mask is not None:
        gamma = np.where(counted[..., None], gamma, 0)  # a masked token may hold anything
    check_finite(name, gamma)
    if (gamma < 0).any():
        raise ValueError(f"{name} must hold shares of at least 0, got {gamma.min()}")
    sums = gamma.sum(axis=-1)
    wrong = counted & (np.abs(sums - 1) > TOLERANCE)
    if wrong.any():
        raise ValueError(
            f"{name} must have rows that sum to 1, within {TOLERANCE}, got a row that sums to {sums[wrong][0]} "
            f"({mask_name} says which tokens take part)"
        )
    return gamma / np.where(counted, sums, 1)[..., None], counted


def counted_rows(gamma_q, gamma_k, query_mask, key_mask):
    """Return the rows of one head that count, queries and keys, of all sequences, and which queries these are."""
    if gamma_q.shape[:-2] != gamma_k.shape[:-2]:
        raise ValueError(
            "gamma_k must have the leading axes of gamma_q, one memory for each sequence, "
            f"got shapes {gamma_k.shape} and {gamma_q.shape}"
        )
    rows, counted = [], []
    for name, gamma, mask in (("query", gamma_q, query_mask), ("key", gamma_k, key_mask)):
        argument = f"gamma_{name[0]}"
        if gamma.ndim > 3:
            raise ValueError(
                f"{argument} must have shape (N, K) or (B, N, K), the responsibilities of one head, got shape "
                f"{gamma.shape} (head_signs takes several)"
            )
        shares, counts = as_responsibilities(gamma, mask, argument, f"{name}_mask", name)
        if not counts.any():
            raise ValueError(
                f"{argument} must hold at least one {name} that takes part, got none of shape {gamma.shape}"
            )
        rows.append(shares[counts])
        counted.append(counts)
    return *rows, counted[0]


def as_labelled(gamma, name, labels, mask):
    """Return responsibilities and labels of the tokens that take part; mask and labels are for all leading axes."""
    gamma, _ = as_responsibilities(gamma, mask)
    labels = as_labels(name, labels, gamma.shape[-2])
    if mask is None:
        return gamma, labels
    if np.ndim(mask) != 1:
        raise ValueError(f"mask must have shape ({len(labels)},), as {name} has, got shape {np.shape(mask)}")
    kept = np.asarray(mask)
    return gamma[..., kept, :], labels[kept]


def as_labels(name, labels, count):
    """Return one label for each token as an array of strings or integers; the labels of a text are its characters."""
    array = np.asarray([*labels] if isinstance(labels, str) else labels)
    if array.size == 0 or (array.dtype.kind == "O" and all(isinstance(label, str) for label in array.flat)):
        array = array.astype(np.str_)
    if array.dtype.kind not in "iubUS":
        raise TypeError(f"{name} must hold strings or integers, got dtype {array.dtype}")
    if array.shape != (count,):
        raise ValueError(f"{name} must have one label for a token, shape ({count},), got shape {array.shape}")
    return array


def as_share(name, value):
    """Return a threshold between 0 and 1 as a float."""
    value = as_size(name, value)
    if value > 1:
        raise ValueError(f"{name} must be at most 1, got {value}")
    return value
