"""Derivatives by the scores, Eqs. (17), (18), and of the scores, Eq. (19) and Appendix D (G1-G5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .checks import accepts
from .mixture import GaussianMixture, check_components, check_finite
from .numerics import softmax, softplus, sum_to

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray as Array


@accepts(gamma="N K")
def softmax_jacobian(gamma: Float[Array, "... N K"]) -> Float[Array, "... N K K"]:
    r"""Return the derivatives of the softmax by its scores, Eq. (17); on the diagonal the self-sensitivity (17b).

    .. math::
        \frac{\partial\gamma_{i,j}}{\partial s_{i,k}} = \gamma_{i,j}(\mathbf 1\{j=k\} - \gamma_{i,k}), \qquad
        \frac{\partial\gamma_{i,k}}{\partial s_{i,k}} = \gamma_{i,k}(1 - \gamma_{i,k})

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities; rows sum to 1.

    Returns
    -------
    ndarray, (..., N, K, K)
        Row j, column k: how responsibility j answers to score k, per nat. Symmetric, with rows that sum to 0.

    Raises
    ------
    TypeError, ValueError
        If the argument has another dtype or shape.

    Notes
    -----
    For teaching: `score_gradient` multiplies by it without making it. Source: Huang & Raza (2026), Eqs. (17), (17b).
    """
    identity = np.eye(gamma.shape[-1], dtype=gamma.dtype)
    return gamma[..., :, None] * (identity - gamma[..., None, :])


@accepts(gamma="N K", g="N K")
def score_gradient(gamma: Float[Array, "... N K"], g: Float[Array, "... N K"]) -> Float[Array, "... N K"]:
    r"""Gradient that enters the scores, Eq. (18): the upstream gradient, centred, times the responsibility.

    .. math::
        \delta_{i,k} = \frac{\partial L}{\partial s_{i,k}}
        = \gamma_{i,k}\Bigl(g_{i,k} - \textstyle\sum_j \gamma_{i,j} g_{i,j}\Bigr)

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities; rows sum to 1.
    g : array_like, (..., N, K)
        :math:`g = \partial L/\partial\gamma`.

    Returns
    -------
    ndarray, (..., N, K)
        In units of the loss per nat. Rows sum to 0.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype or shape.

    Notes
    -----
    Source: Huang & Raza (2026), Eq. (18).
    """
    mean = (gamma * g).sum(axis=-1, keepdims=True)
    return balanced(gamma * (g - mean), gamma)


def balanced(delta, gamma):
    """Let rows of a score gradient sum to 0 by their entry of the largest responsibility.

    Near certainty that entry is a small difference of large numbers; the others, which it must cancel, are accurate.
    """
    if gamma.size == 0:
        return delta
    largest = np.arange(gamma.shape[-1]) == gamma.argmax(axis=-1)[..., None]
    others = np.where(largest, 0, delta)
    return np.where(largest, -others.sum(axis=-1, keepdims=True), others)


def sigmoid(omega):
    r"""Return the derivative of the softplus, :math:`1 / (1 + e^{-\omega})`, for arguments of any size."""
    return np.exp(-softplus(-omega))


@accepts(x="N d_r", mu="K d_r", omega="K d_r", alpha="K")
@np.errstate(over="ignore")  # a square that overflows is a slope of infinity
def score_jacobians(
    x: Float[Array, "... N d_r"],
    mu: Float[Array, "... K d_r"],
    omega: Float[Array, "... K d_r"],
    alpha: Float[Array, "... K"],
    eps_sigma: float = 1e-6,
) -> dict[str, Float[Array, ...]]:
    r"""Return the derivatives of each score by its routing vector, mean, variance and prior (G1, G3, G4, G5).

    .. math::
        \frac{\partial s_{i,k}}{\partial \mu_k} = \Sigma_k^{-1}(x_i - \mu_k) = -\frac{\partial s_{i,k}}{\partial x_i},
        \qquad
        \frac{\partial s_{i,k}}{\partial \omega_{k,m}} = \frac{\operatorname{sigmoid}(\omega_{k,m})}{2\sigma^2_{k,m}}
        \Bigl[\frac{(x_{i,m}-\mu_{k,m})^2}{\sigma^2_{k,m}} - 1\Bigr], \qquad
        \frac{\partial s_{i,k}}{\partial \alpha_j} = \mathbf 1\{j=k\} - \pi_j

    Parameters
    ----------
    x : array_like, (..., N, d_r)
        Routing vectors: queries or keys.
    mu, omega, alpha, eps_sigma
        As in `GaussianMixture.from_unconstrained`.

    Returns
    -------
    dict of ndarray
        ``x``, ``mu``, ``omega``: (..., N, K, d_r), in nats per unit of what is in the name. ``alpha``: (..., K, K), row
        k the derivatives of the score of component k, for every token the same.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    For teaching: N·K·d_r numbers each. `score_vjp` sums over them without making them. A score depends on no mean and
    no variance but its own component's. Source: Huang & Raza (2026), Appendix D.
    """
    mixture = GaussianMixture.from_unconstrained(mu, omega, alpha, eps_sigma)
    sigma = np.sqrt(mixture.variance)[..., None, :, :]
    distance = (x[..., :, None, :] - mu[..., None, :, :]) / sigma
    slope = (sigmoid(omega) / (2 * mixture.variance))[..., None, :, :]
    by_mu = distance / sigma
    identity, prior = np.eye(alpha.shape[-1], dtype=alpha.dtype), softmax(alpha)[..., None, :]
    return {"x": -by_mu, "mu": by_mu, "omega": slope * distance * distance - slope, "alpha": identity - prior}


@accepts(x="N d_r", mu="K d_r", omega="K d_r", delta="N K")
@np.errstate(over="ignore")  # a distance that overflows belongs to a responsibility of 0
def score_vjp(
    x: Float[Array, "... N d_r"],
    mu: Float[Array, "... K d_r"],
    omega: Float[Array, "... K d_r"],
    delta: Float[Array, "... N K"],
    eps_sigma: float = 1e-6,
) -> dict[str, Float[Array, ...]]:
    r"""Chain rule through the scores, Eq. (19).

    .. math::
        \frac{\partial L}{\partial \theta} = \sum_i \sum_k \delta_{i,k} \frac{\partial s_{i,k}}{\partial \theta},
        \qquad \delta_{i,k} = \frac{\partial L}{\partial s_{i,k}}

    Parameters
    ----------
    x : array_like, (..., N, d_r)
        Routing vectors: queries or keys.
    mu, omega, eps_sigma
        As in `GaussianMixture.from_unconstrained`.
    delta : array_like, (..., N, K)
        :math:`\delta` of Eq. (18). Its rows sum to 0: for the prior this leaves
        :math:`\partial L/\partial\alpha_j = \sum_i \delta_{i,j}` (G4).

    Returns
    -------
    dict of ndarray
        ``x``, ``mu``, ``omega`` in the shapes of the arguments, summed over the axes along which these were broadcast;
        ``alpha`` (..., K) with the leading axes of `delta`.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    One coordinate at a time, so no array of N·K·d_r numbers is made. A vector whose row of δ is 0 sends nothing
    backwards, whatever it holds. Source: Huang & Raza (2026), after Eq. (18); its
    number is inferred.
    """
    check_finite("omega", omega)
    variance = softplus(omega) + eps_sigma
    check_components(mu, variance)
    sigma = np.sqrt(variance)[..., None, :, :]
    by_x, by_mu, by_omega = [], [], []
    for m in range(x.shape[-1]):
        distance = (x[..., m, None] - mu[..., None, :, m]) / sigma[..., m]
        distance = np.where(delta != 0, distance, 0)  # or 0 times a distance that overflows would be NaN
        pull = delta * distance
        by_x.append(-(pull / sigma[..., m]).sum(axis=-1))
        by_mu.append((pull / sigma[..., m]).sum(axis=-2))
        by_omega.append((pull * distance - delta).sum(axis=-2))
    by_omega = sigmoid(omega) / (2 * variance) * np.stack(by_omega, axis=-1)
    return {
        "x": sum_to(np.stack(by_x, axis=-1), x.shape),
        "mu": sum_to(np.stack(by_mu, axis=-1), mu.shape),
        "omega": sum_to(by_omega, omega.shape),
        "alpha": delta.sum(axis=-2),
    }
