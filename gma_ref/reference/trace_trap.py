"""Distances measured with a covariance that is estimated from the same vectors: the Mahalanobis trace trap (G7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .checks import accepts
from .mixture import check_finite
from .numerics import ratio

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray as Array


@accepts(x="N d_r", weights="N K", mu="K d_r")
def batch_mahalanobis(
    x: Float[Array, "... N d_r"], weights: Float[Array, "... N K"], mu: Float[Array, "... K d_r"], ridge: float = 0.0
) -> Float[Array, "... N K"]:
    r"""Squared Mahalanobis distances under the covariance of the batch that is being measured (G7).

    .. math::
        \hat\Sigma_k = \frac{\sum_i \gamma_{i,k} (x_i - \mu_k)(x_i - \mu_k)^\top}{\sum_i \gamma_{i,k}} + \lambda I,
        \qquad (x_i - \mu_k)^\top \hat\Sigma_k^{-1} (x_i - \mu_k)

    Parameters
    ----------
    x : array_like, (..., N, d_r)
        The batch.
    weights : array_like, (..., N, K)
        :math:`\gamma_{i,k} \ge 0`, with some vector in each component.
    mu : array_like, (..., K, d_r)
        The centres about which the second moments are taken.
    ridge : float
        :math:`\lambda`, finite and at least 0, in squared units of x.

    Returns
    -------
    ndarray, (..., N, K)
        Without units, in float64.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range, or holds NaN or infinity. NumPy's LinAlgError, which is a
        ValueError, if a covariance is singular up to rounding: at least d_r vectors in general position, or a ridge,
        are needed.

    Notes
    -----
    The trap: without a ridge, :math:`\sum_i \gamma_{i,k}` times the distances is :math:`d_r \sum_i \gamma_{i,k}`, a
    trace in which neither x nor μ is left, so for fixed weights it has no gradient. Here to show what GMA avoids: its
    covariances are parameters. Source: the pitfall is named by Huang & Raza (2026), in the footnote before Eq. (16).
    """
    check_batch(x, weights, mu)
    x, weights, mu = map(np.float64, (x, weights, mu))  # what NumPy inverts
    seen = x[..., :, None, :] - mu[..., None, :, :]
    moment = np.einsum("...ik,...ikm,...ikn->...kmn", weights, seen, seen)
    covariance = moment / weights.sum(axis=-2)[..., None, None] + ridge * np.eye(x.shape[-1])
    precision = inverse_of_full_rank(covariance, x.shape[-2])
    return np.einsum("...ikm,...kmn,...ikn->...ik", seen, precision, seen)


def check_batch(x, weights, mu):
    """Refuse numbers that are none, negative weights, and components without a vector."""
    for name, array in {"x": x, "weights": weights, "mu": mu}.items():
        check_finite(name, array)
    if (weights < 0).any():
        raise ValueError(f"weights must be at least 0, got {weights.min()}")
    if (weights.sum(axis=-2) == 0).any():
        raise ValueError(
            f"weights must be positive for some vector of each component, got a sum of 0 over {x.shape[-2]} vectors"
        )


def inverse_of_full_rank(covariance, count):
    """Return the inverses of covariances estimated from a number of vectors; refuse those that are singular.

    The rank is that of the correlations, which have no units: their least eigenvalue must exceed the rounding errors of
    a sum over the vectors.
    """
    deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    correlation = ratio(covariance, deviation[..., :, None] * deviation[..., None, :])
    *_, d_r = covariance.shape
    rounding = max(count, d_r) * d_r * np.finfo(float).eps
    if (np.linalg.eigvalsh(correlation) <= rounding).any():
        raise np.linalg.LinAlgError(
            f"x must hold at least {d_r} vectors in general position for each component (or ridge be larger), "
            "got a singular covariance"
        )
    return np.linalg.inv(covariance)
