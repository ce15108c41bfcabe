"""The signs that are worth a look during training, together: one head, a few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gma_ref.reference.checks import accepts

from .checks import as_responsibilities
from .coincidence import collapsed_components, responsibility_overlap
from .information import responsibility_entropy
from .slots import dead_components, effective_slots

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray as Array

__all__ = ["VitalSigns", "key_mass", "vital_signs"]


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
        Components whose columns of responsibilities differ: K where each is a slot of its own, 1 where all are one.
    key_mass : float
        The least :math:`d'_i` of all queries, in keys: below :math:`\epsilon`, a query reads next to nothing.
    """

    entropy_q: float
    entropy_k: float
    effective: float
    dead: int
    distinct: int
    key_mass: float


@accepts(gamma_q="N_q K", gamma_k="N_k K")
def key_mass(
    gamma_q: Float[Array, "... N_q K"], gamma_k: Float[Array, "... N_k K"], *, causal: bool = False
) -> Float[Array, "... N_q"]:
    r"""Return how many keys each query finds: the denominator of Eq. (7), without ε.

    .. math:: d'_i = \sum_k \gamma^Q_{i,k} Z_k

    Parameters
    ----------
    gamma_q, gamma_k : array_like, (..., N_q, K) and (..., N_k, K)
        Responsibilities of queries and keys.
    causal : bool
        Count the keys j ≤ i only; needs N_q = N_k.

    Returns
    -------
    ndarray, (..., N_q)
        In keys, between 0 and N_k. Far below ε = 1e-6, the output is 0 instead of a mean of values.

    Raises
    ------
    TypeError, ValueError
        As in `usage`, or if the shapes do not fit.

    Notes
    -----
    Source: Huang & Raza (2026), Eqs. (7) and (8b).
    """
    (gamma_q, _), (gamma_k, _) = as_responsibilities(gamma_q), as_responsibilities(gamma_k)
    Z = gamma_k.cumsum(axis=-2) if causal else gamma_k.sum(axis=-2, keepdims=True)
    return (gamma_q * Z).sum(axis=-1)


@accepts(gamma_q="N_q K", gamma_k="N_k K")
def vital_signs(
    gamma_q: Float[Array, "... N_q K"], gamma_k: Float[Array, "... N_k K"], *, causal: bool = False
) -> VitalSigns:
    """Return the signs of one head that show a failing mixture, often before the loss does.

    Parameters
    ----------
    gamma_q, gamma_k : array_like, (..., N_q, K) and (..., N_k, K)
        Responsibilities of queries and keys of one head, at least one of each. Leading axes are sequences, each with a
        memory of its own; what is counted is counted over all of them.
    causal : bool
        Whether a query reads the keys j ≤ i only.

    Returns
    -------
    VitalSigns

    Raises
    ------
    TypeError, ValueError
        As in `key_mass`, or if there is no query or no key.

    Notes
    -----
    Queries and keys are counted together but for their entropies. What a value means depends on the time: even
    and soft is right at the start, sharp is right at the end of training, if the key mass stays away from 0. Source:
    this book.
    """
    mass = key_mass(gamma_q, gamma_k, causal=causal)
    q, k = pooled(gamma_q, gamma_k)
    both = np.concatenate([q, k])
    alike = collapsed_components(responsibility_overlap(both))
    return VitalSigns(
        float(responsibility_entropy(q, normalised=True).mean()),
        float(responsibility_entropy(k, normalised=True).mean()),
        float(effective_slots(both)),
        int(dead_components(both).sum()),
        int((~alike).sum()),
        float(mass.min()),
    )


def pooled(gamma_q, gamma_k):
    """Return the rows of all sequences as two matrices, or refuse where there is none."""
    q, k = (gamma.reshape(-1, gamma.shape[-1]) for gamma in (gamma_q, gamma_k))
    if not len(q) or not len(k):
        raise ValueError(f"gamma_q and gamma_k must hold at least one row each, got {len(q)} and {len(k)}")
    return q, k
