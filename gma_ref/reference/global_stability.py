"""When responsibilities are Lipschitz on all of space (B5), and with which constant (B6)."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from .checks import accepts
from .hull import hull_weights, in_hull
from .mixture import GaussianMixture
from .numerics import lambert_w

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy import ndarray as Array


@accepts(mixture=GaussianMixture)
def is_globally_lipschitz(mixture: GaussianMixture) -> Bool[Array, ...]:
    r"""Tell whether responsibilities are Lipschitz on all of space, not only in a ball (B5).

    They are if and only if

    1. some components are the broadest in every coordinate:
       :math:`J_0 = \{k : \sigma^2_{k,m} \ge \sigma^2_{j,m} \text{ for all } j, m\} \ne \emptyset`, and
    2. for each other component j, with :math:`E_j` the coordinates in which it is as broad as they are, the mean
       :math:`\mu_{j,E_j}` lies in the convex hull of :math:`\{\mu_{i,E_j} : i \in J_0\}`.

    Parameters
    ----------
    mixture : GaussianMixture
        Components of prior 0 do not count; other priors do not matter.

    Returns
    -------
    ndarray of bool, (...)
        One answer for each mixture.

    Raises
    ------
    TypeError
        If the argument is not a mixture.

    Notes
    -----
    Variances are compared as floating-point numbers, exactly: two that differ in the last digit are different. A mean
    counts as in the hull if it is, in each coordinate, within about 1e-9 of its largest distance to the corners, or
    within the rounding of its own digits.
    Isotropic covariances and d_r = 1 always pass. Source: this book.
    """
    return for_each_mixture(is_global, mixture, bool)


@accepts(mixture=GaussianMixture)
@np.errstate(over="ignore")  # what overflows is a bound of infinity
def background_bound(mixture: GaussianMixture) -> Float[Array, ...]:
    r"""Return a Lipschitz constant in the 2-norm on all of space, for every mixture that has one (B5, B6).

    .. math::
        \|\gamma(x) - \gamma(y)\|_2 \le \tfrac{1}{\sqrt 2}\Bigl(\sqrt{A + B\,W\bigl((K-1)/e\bigr)} + D_0\Bigr)\|x - y\|

    with W Lambert's function, :math:`A = \max_j 2\beta_j \max(-c_j, 0)`, :math:`B = 2\max_j\beta_j`, and
    :math:`\beta_j, c_j` those of component j beside the broadest ones (`beside_the_broadest`). With one broadest
    component :math:`D_0 = 0`; with several, it is the largest distance between their gradients and those of the
    mixtures of them that stand beside each j.

    Parameters
    ----------
    mixture : GaussianMixture
        Components of prior 0 do not count.

    Returns
    -------
    ndarray, (...)
        Per unit of x; inf where `is_globally_lipschitz` is False, or where a square on the way overflows.

    Raises
    ------
    TypeError
        If the argument is not a mixture.

    Notes
    -----
    The variance of the gradients under γ is at most their second moment about that of a broadest component, and the
    sum over j is bounded as for B6. Source: this book.
    """
    return for_each_mixture(bound_by_the_broadest, mixture)


def for_each_mixture(function, mixture, dtype=np.float64):
    """Return the results of a function of (mu, variance, log_prior) for each mixture, without components of prior 0."""
    mu, variance, log_prior = mixture.mu, mixture.variance, mixture.log_prior[..., None]
    mu, variance, log_prior = np.broadcast_arrays(*map(np.float64, (mu, variance, log_prior)))
    results = np.empty(mu.shape[:-2], dtype)
    for b in np.ndindex(results.shape):
        used = log_prior[b][:, 0] > -np.inf
        results[b] = function(mu[b][used], variance[b][used], log_prior[b][used, 0])
    return results


def is_global(mu, variance, log_prior):
    """Tell whether one mixture is globally Lipschitz (B5)."""
    as_broad = variance == variance.max(axis=0)
    broadest = as_broad.all(axis=1)
    if not broadest.any():
        return False
    others = zip(mu[~broadest], as_broad[~broadest], strict=True)
    return all(in_hull(mean[E], mu[broadest][:, E]) for mean, E in others)


def global_l2_bound(mixture):
    """Return the bounds of B6: inf where the map is not globally Lipschitz, nan where B6 says nothing."""
    return for_each_mixture(bound_by_pairs, mixture)


def bound_by_pairs(mu, variance, log_prior):
    r"""Return the bound of B6 for one mixture, from all pairs of its components.

    .. math::
        \ell_2 \le \tfrac{1}{\sqrt 2}\sqrt{(1 - 1/K)\,A/2 + B\,W((K-1)/e)}, \qquad
        \|u_k - u_\ell\|^2 \le A + B \max(\log(\gamma_k/\gamma_\ell), 0)

    where k is the broader one. For K = 2 it is the exact constant, and for equal covariances D/(2√2) with the exact D.
    """
    K = len(mu)
    if (variance == variance[0]).all():
        return max((math.hypot(*((a - b) / variance[0])) for a, b in combinations(mu, 2)), default=0) / math.sqrt(8)
    if not is_global(mu, variance, log_prior):
        return math.inf
    constants = []
    for k, j in combinations(range(K), 2):
        k, j = (k, j) if (variance[k] >= variance[j]).all() else (j, k)
        equal = variance[k] == variance[j]
        if equal.all():
            constants.append((np.sum(((mu[k] - mu[j]) / variance[k]) ** 2), 0))
        elif (variance[k] < variance[j]).any() or not in_hull(mu[j][equal], mu[[k]][:, equal]):
            return math.nan
        else:
            beta, c = beside_the_broadest(
                mu[j], variance[j], log_prior[j], mu[k : k + 1], variance[k], log_prior[k : k + 1]
            )
            if K == 2:
                return math.sqrt(2) * steepest_slope(beta, c)
            constants.append((2 * beta * -c if c < 0 else 0, 2 * beta))
    A, B = np.max(constants, axis=0)
    return math.sqrt((1 - 1 / K) * A / 4 + B * lambert_w((K - 1) / math.e) / 2)


def bound_by_the_broadest(mu, variance, log_prior):
    """Return the bound of `background_bound` for one mixture."""
    if not is_global(mu, variance, log_prior):
        return math.inf
    as_broad = variance == variance.max(axis=0)
    broadest = as_broad.all(axis=1)
    corners, widest, log_corners = mu[broadest], variance[broadest][0], log_prior[broadest]
    others = np.flatnonzero(~broadest)
    mixes = [hull_weights(mu[j][as_broad[j]], corners[:, as_broad[j]])[0] for j in others]
    bounds = []
    for centre, alone in zip(corners, np.eye(len(corners)), strict=True):
        A, B, D = 0, 0, max(math.hypot(*away) for away in (corners - centre) / widest)
        for j, mix in zip(others, mixes, strict=True):
            weights = alone if (mu[j] == centre)[as_broad[j]].all() else mix
            beta, c = beside_the_broadest(mu[j], variance[j], log_prior[j], corners, widest, log_corners, weights)
            A, B = max(A, 2 * beta * -c if c < 0 else 0), max(B, 2 * beta)
            D = max(D, math.hypot(*((weights @ corners - centre) / widest)))
        bounds.append((math.sqrt(A + B * lambert_w((len(mu) - 1) / math.e)) + D) / math.sqrt(2))
    return min(bounds)


def beside_the_broadest(mean, variance, log_prior, corners, widest, log_corners, weights=(1,)):
    r"""Return β and c for a component j beside a mixture, by weights λ, of broader components i of one covariance.

    .. math::
        \beta = \max_m \bigl(\tfrac{1}{\sigma^2_{j,m}} - \tfrac{1}{\sigma^2_m}\bigr), \qquad
        c = \min_x \Bigl(\sum_i\lambda_i s_i(x) - s_j(x)\Bigr), \qquad
        \bigl\|\textstyle\sum_i\lambda_i u_i - u_j\bigr\|^2 \le 2\beta\Bigl(\sum_i\lambda_i s_i - s_j - c\Bigr)

    The difference of the scores is a parabola in each coordinate in which j is narrower, and constant in the others,
    where the mean of the corners is that of j.
    """
    weights = np.asarray(weights)
    centre = weights @ corners
    spread = ((np.sqrt(weights)[:, None] * (corners - centre)) ** 2).sum(axis=0)
    gap = widest - variance
    narrower = gap > 0
    beta = (gap / widest / variance).max()
    bottom = ((mean - centre)[narrower] ** 2 / gap[narrower]).sum() + (spread / widest).sum()
    return beta, weights @ log_corners - log_prior + ((np.log(variance) - np.log(widest)).sum() - bottom) / 2


def steepest_slope(beta, c):
    r"""Return :math:`\sup_{\delta\ge c} \sigma'(\delta)\sqrt{2\beta(\delta - c)}`, the exact constant of a pair.

    The slope is greatest where :math:`2(\delta - c)\tanh(\delta/2) = 1`, which has one solution above max(c, 0).
    """
    low, high = max(c, 0), max(c, 0) + 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if (middle - c) * math.tanh(middle / 2) < 1 / 2 else (low, middle)
    slope = math.exp(-high) / (1 + math.exp(-high)) ** 2  # σ'; by cosh it would overflow
    if slope == 0:  # β may be infinite
        return 0.0
    return math.sqrt(2) * math.sqrt(beta) * math.sqrt(high - c) * slope
