"""How fast responsibilities can change: the Jacobian of the routing, and its bounds (L1-L6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .checks import accepts
from .global_stability import global_l2_bound
from .mixture import GaussianMixture, responsibilities
from .score_gradients import balanced

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray as Array


@accepts(x="N d_r", mixture=GaussianMixture)
@np.errstate(over="ignore")  # a distance that overflows belongs to a responsibility of 0
def responsibility_jacobian(x: Float[Array, "... N d_r"], mixture: GaussianMixture) -> Float[Array, "... N K d_r"]:
    r"""Return the Jacobian of the map from a routing vector to its responsibilities (L2, L6).

    .. math::
        \nabla\gamma_k(x) = \gamma_k(x)\,\bigl(u_k(x) - \bar u(x)\bigr), \qquad
        u_k(x) = \nabla s_k(x) = -\Sigma_k^{-1}(x - \mu_k), \quad \bar u = \textstyle\sum_\ell \gamma_\ell u_\ell

    Parameters
    ----------
    x : array_like, (..., N, d_r)
        Routing vectors: queries or keys.
    mixture : GaussianMixture

    Returns
    -------
    ndarray, (..., N, K, d_r)
        Row k: the gradient of responsibility k, per unit of x. The rows sum to 0 over k.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype or shape.

    Notes
    -----
    For teaching and for measuring: it has N·K·d_r entries. Source: this book, from Eq. (3) of Huang & Raza (2026).
    """
    gamma = responsibilities(x, mixture)[..., None, :]
    mu = np.swapaxes(mixture.mu, -1, -2)
    variance = np.swapaxes(mixture.variance, -1, -2)
    away = x[..., :, None] - mu[..., None, :, :]  # (..., N, d_r, K)
    u = np.where(gamma > 0, -away / variance[..., None, :, :], 0)
    mean = (gamma * u).sum(axis=-1, keepdims=True)
    return np.swapaxes(balanced(gamma * (u - mean), gamma), -1, -2)


@accepts(mixture=GaussianMixture)
@np.errstate(over="ignore")  # what overflows is a bound of infinity
def lipschitz_bounds(mixture: GaussianMixture, radius: float) -> dict[str, Float[Array, ...]]:
    r"""Return bounds on the change of scores and responsibilities in the ball :math:`\|x\| \le R` (L1-L5, B6).

    .. math::
        \|u_k(x)\| \le B = \frac{R + M}{\sigma^2_{\min}}, \quad D = 2B: \qquad
        \|\nabla\gamma_k\| \le \tfrac{D}{4}, \quad
        \|\gamma(x) - \gamma(y)\|_1 \le \tfrac{D}{2}\|x - y\|, \quad
        \|\gamma(x) - \gamma(y)\|_2 \le \tfrac{D}{2\sqrt 2}\|x - y\|

    with :math:`M = \max_k\|\mu_k\|`, :math:`\sigma^2_{\min}` the least variance, and D = 0 for one component.

    Parameters
    ----------
    mixture : GaussianMixture
        Its parameters stay fixed. Components of prior 0 do not count.
    radius : float
        R, finite and at least 0, in the units of the routing vectors.

    Returns
    -------
    dict of ndarray, (...)
        One number for each mixture, per unit of x.

        ``score_gradient``
            B, of each score (L1).
        ``component``, ``l1``, ``l2``
            D/4 of each responsibility (L2), D/2 and D/(2√2) of all in the 1-norm and the 2-norm (L3, L4).
        ``l2_sharp``
            As ``l2``, with the D of `score_difference_bound` (L5), which sees that variances are alike.
        ``l2_global``
            In the 2-norm and in all of space: a bound where two components, or all pairs, can be compared (B6), or
            covariances are equal; inf where the map is not globally Lipschitz (B5), or a square on the way overflows;
            nan where it is, and B6 gives no constant. `background_bound` has one for those.

    Raises
    ------
    TypeError, ValueError
        If an argument has another type, or the radius is out of range.

    Notes
    -----
    The ball is convex: a bound of the Jacobian is one of the map. Source: this book; the claim that the map is locally
    Lipschitz is that of Huang & Raza (2026).
    """
    B = score_gradient_bound(mixture, radius)
    D = np.where(active(mixture).sum(axis=-1) > 1, 2 * B, 0)
    bounds = {
        "score_gradient": B,
        "component": D / 4,
        "l1": D / 2,
        "l2": D / math.sqrt(8),
        "l2_sharp": score_difference_bound(mixture, radius) / math.sqrt(8),
        "l2_global": global_l2_bound(mixture),
    }
    return {name: np.asarray(bound) for name, bound in bounds.items()}


def score_gradient_bound(mixture, radius):
    r"""Return :math:`B = (R + M)/\sigma^2_{\min}`, which no :math:`\|u_k\|` exceeds (L1)."""
    used = active(mixture)
    M = np.where(used, length(mixture.mu), 0).max(axis=-1)
    least = np.where(used, mixture.variance.min(axis=-1), np.inf).min(axis=-1)
    return (radius + M) / least


def score_difference_bound(mixture, radius):
    r"""Return what no :math:`\|u_k - u_\ell\|` in the ball exceeds (L5).

    .. math:: \max_{k,\ell}\; R\,\|P_k - P_\ell\| + \|P_k\mu_k - P_\ell\mu_\ell\|, \qquad P = \Sigma^{-1}
    """
    used = active(mixture)
    variance = np.where(used[..., None], mixture.variance, np.inf)
    least = variance.min(axis=(-2, -1), keepdims=True)
    P = least / variance  # in units of the largest, so that a small variance does not overflow
    P, pull = np.broadcast_arrays(P, P * mixture.mu)
    slope = np.abs(P[..., :, None, :] - P[..., None, :, :]).max(axis=-1)
    offset = length(pull[..., :, None, :] - pull[..., None, :, :])
    pairs = used[..., :, None] & used[..., None, :]
    return (np.where(pairs, radius * slope + offset, 0) / least).max(axis=(-2, -1))


def length(vectors):
    """Return the 2-norms of vectors (..., d); no square overflows."""
    return np.hypot.reduce(vectors, axis=-1, initial=0)


def active(mixture):
    """Tell which components have a prior above 0, (..., K)."""
    return mixture.log_prior > -np.inf
