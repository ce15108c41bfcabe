"""The signs that are worth a look during training, together: one head, a few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gma_ref.reference.checks import accepts, as_key_mask

from .checks import as_responsibilities, counted_rows
from .coincidence import collapsed_components, responsibility_overlap
from .information import responsibility_entropy
from .slots import dead_components, effective_slots

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy import ndarray as Array

__all__ = ["VitalSigns", "head_signs", "key_mass", "vital_signs"]


class VitalSigns(NamedTuple):
    r"""What a mixture does in one head, in numbers.

    Attributes
    ----------
    entropy_q, entropy_k : float
        Mean entropy of the responsibilities of queries and of keys, as a share of log K: 0 where each token has one
        component, 1 where it has all alike.
    effective : float
        The effective number of slots, between 1 and K.
    dead : int
        Components that hardly any query or key has.
    distinct : int
        Among the others, components whose columns of responsibilities differ: K where each is a slot of its own, 1
        where all that are used are one.
    unheard : float
        The share of queries that find less than :math:`\epsilon` of a key, so that :math:`\epsilon` takes more than
        half of their output away.
    """

    entropy_q: float
    entropy_k: float
    effective: float
    dead: int
    distinct: int
    unheard: float


@accepts(gamma_q="N_q K", gamma_k="N_k K")
def key_mass(
    gamma_q: Float[Array, "... N_q K"],
    gamma_k: Float[Array, "... N_k K"],
    *,
    causal: bool = False,
    query_mask: Bool[Array, "... N_q"] | None = None,
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> Float[Array, "... N_q"]:
    r"""Return how many keys each query finds: the denominator of Eq. (7), without ε.

    .. math:: d'_i = \sum_k \gamma^Q_{i,k} Z_k

    Parameters
    ----------
    gamma_q, gamma_k : array_like, (..., N_q, K) and (..., N_k, K)
        Responsibilities of queries and keys.
    causal : bool
        Count the keys j ≤ i only; needs N_q = N_k.
    query_mask, key_mask : array_like of bool, (N_q,) and (N_k,), or with all leading axes, optional
        True: this query asks, this key was written. What the others hold does not matter, not even NaN.

    Returns
    -------
    ndarray, (..., N_q)
        In keys, between 0 and N_k. Far below ε = 1e-6, the output is 0 instead of a mean of values. A masked query has
        0.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype or shape, or if responsibilities hold NaN, infinity, a negative number, or a
        row whose sum is off 1 by more than 0.004.

    Notes
    -----
    Source: Huang & Raza (2026), Eqs. (7) and (8b).
    """
    gamma_q, _ = as_responsibilities(gamma_q, query_mask, "gamma_q", "query_mask", "query")
    gamma_k, _ = as_responsibilities(gamma_k, key_mask, "gamma_k", "key_mask", "key")
    Z = gamma_k.cumsum(axis=-2) if causal else gamma_k.sum(axis=-2, keepdims=True)
    return (gamma_q * Z).sum(axis=-1)


@accepts(gamma_q="N_q K", gamma_k="N_k K")
def vital_signs(
    gamma_q: Float[Array, "... N_q K"],
    gamma_k: Float[Array, "... N_k K"],
    *,
    causal: bool = False,
    eps: float = 1e-6,
    query_mask: Bool[Array, "... N_q"] | None = None,
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> VitalSigns:
    r"""Return the signs of one head that show a failing mixture, often before the loss does.

    Parameters
    ----------
    gamma_q, gamma_k : array_like, (N_q, K) and (N_k, K), or (B, N_q, K) and (B, N_k, K)
        Responsibilities of queries and keys of one head, at least one of each. B is a number of sequences, each with a
        memory of its own; what is counted is counted over all of them.
    causal : bool
        Whether a query reads the keys j ≤ i only.
    eps : float
        The :math:`\epsilon` of the layer.
    query_mask, key_mask : array_like of bool, (N_q,) and (N_k,), or (B, N_q) and (B, N_k), optional
        True: this query, this key takes part. What the others hold does not matter, not even NaN.

    Returns
    -------
    VitalSigns
        Numbers of this head.

    Raises
    ------
    TypeError, ValueError
        As in `key_mass`, if there is no query or no key, if `eps` is negative or not finite, or if there are more axes:
        several heads have several mixtures, see `head_signs`.

    Notes
    -----
    Queries and keys are counted together but for their entropies, so that the signs of a few queries beside many keys
    are nearly those of the keys. What a value means depends on the time: even and soft is right at the start, sharp is
    right at the end of training, if queries are heard. Thresholds are those of `dead_components` and
    `collapsed_components`. Source: this book.
    """
    masks = {"query_mask": query_mask, "key_mask": key_mask}
    q, k, asks = counted_rows(gamma_q, gamma_k, **masks)
    mass = key_mass(gamma_q, gamma_k, causal=causal, **masks)[asks]
    both = np.concatenate([q, k])
    dead = dead_components(both)
    overlap = responsibility_overlap(both)[~dead][:, ~dead]
    return VitalSigns(
        float(responsibility_entropy(q, normalised=True).mean()),
        float(responsibility_entropy(k, normalised=True).mean()),
        float(effective_slots(both)),
        int(dead.sum()),
        int((~collapsed_components(overlap)).sum()),
        float((mass < eps).mean()),
    )


@accepts(gamma_q="H N_q K", gamma_k="H N_k K")
def head_signs(
    gamma_q: Float[Array, "... H N_q K"],
    gamma_k: Float[Array, "... H N_k K"],
    *,
    causal: bool = False,
    eps: float = 1e-6,
    query_mask: Bool[Array, "... N_q"] | None = None,
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> list[VitalSigns]:
    """Return the vital signs of each head of a layer.

    Parameters
    ----------
    gamma_q, gamma_k : array_like, (H, N_q, K) and (H, N_k, K), or (B, H, N_q, K) and (B, H, N_k, K)
        Responsibilities of the queries and keys that ``GaussianMixtureAttention.project`` gives.
    causal, eps
        As in `vital_signs`.
    query_mask, key_mask : array_like of bool, (N_q,) and (N_k,), or (B, N_q) and (B, N_k), optional
        As in `vital_signs`; they serve all heads.

    Returns
    -------
    list of VitalSigns
        One for each head.

    Raises
    ------
    TypeError, ValueError
        As in `vital_signs`.

    Notes
    -----
    Source: this book.
    """
    if gamma_q.shape[:-2] != gamma_k.shape[:-2] or gamma_q.ndim > 4:
        raise ValueError(
            "gamma_q and gamma_k must have shapes (H, N_q, K) and (H, N_k, K), or both with one axis of sequences "
            f"before, got shapes {gamma_q.shape} and {gamma_k.shape}"
        )
    for gamma, mask, name in ((gamma_q, query_mask, "query"), (gamma_k, key_mask, "key")):
        one = (*gamma.shape[:-3], *gamma.shape[-2:])
        as_key_mask(mask, one, f"each head of gamma_{name[0]}", f"{name}_mask", name)
    options = {"causal": causal, "eps": eps, "query_mask": query_mask, "key_mask": key_mask}
    return [
        vital_signs(gamma_q[..., head, :, :], gamma_k[..., head, :, :], **options) for head in range(gamma_q.shape[-3])
    ]
