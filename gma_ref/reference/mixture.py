"""The Gaussian mixture and its responsibilities: Eqs. (2), (3), (14), (15), (16)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .checks import Axes, accepts, as_float
from .numerics import log_softmax, softmax, softplus

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray as Array


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture:
    r"""K Gaussian components with diagonal covariances, Eq. (2). Immutable.

    .. math:: \textstyle\sum_k \pi_k\,\mathcal N(x;\,\mu_k,\,\operatorname{diag}(\sigma^2_{k,1},\dots,\sigma^2_{k,d_r}))

    Parameters
    ----------
    mu : array_like, (..., K, d_r)
        Means, finite, in the units of the routing vectors.
    variance : array_like, (..., K, d_r)
        Variances :math:`\sigma^2` (not their roots, not their inverses), positive and finite, in squared units.
    log_prior : array_like, (..., K)
        :math:`\log\pi_k`, with :math:`\sum_k \pi_k = 1` to within 1e-5 in the log. Some may be −inf, not all.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    Leading axes broadcast: one mixture per head is ``(H, K, d_r)``. The arrays are copied and made read-only.
    Source: Huang & Raza (2026), Eq. (2).
    """

    mu: Float[Array, "... K d_r"]
    variance: Float[Array, "... K d_r"]
    log_prior: Float[Array, "... K"]

    AXES: ClassVar = {"mu": "K d_r", "variance": "K d_r", "log_prior": "K"}

    def __post_init__(self):
        axes = Axes()
        for field, names in self.AXES.items():
            array = axes.check(field, as_float(field, getattr(self, field)), names).copy()
            array.flags.writeable = False
            object.__setattr__(self, field, array)
        check_components(self.mu, self.variance)
        check_log_weights("log_prior", self.log_prior)
        excess = np.abs(np.logaddexp.reduce(self.log_prior, axis=-1))
        if not (excess <= 1e-5).all():
            raise ValueError(f"log_prior must have priors that sum to 1, got logsumexp of size {excess.max():.3g}")

    @classmethod
    @accepts(mu="K d_r", omega="K d_r", alpha="K")
    def from_unconstrained(cls, mu, omega, alpha, eps_sigma=1e-6):
        r"""Make a mixture from parameters that may take any real value, Eqs. (14) and (15).

        .. math::
            \sigma^2_{k,j} = \log(1 + e^{\omega_{k,j}}) + \epsilon_\sigma, \qquad
            \pi_k = e^{\alpha_k} / \textstyle\sum_\ell e^{\alpha_\ell}

        Parameters
        ----------
        mu, omega : array_like, (..., K, d_r)
            Means, and the free parameters of the variances.
        alpha : array_like, (..., K)
            Logits of the priors. Some may be −inf (a prior of zero), not all.
        eps_sigma : float
            :math:`\epsilon_\sigma`, the floor of the variances, finite and at least 0.

        Returns
        -------
        GaussianMixture

        Notes
        -----
        Source: Huang & Raza (2026), Eqs. (14) and (15).
        """
        check_finite("omega", omega)
        check_log_weights("alpha", alpha)
        return cls(mu, softplus(omega) + eps_sigma, log_softmax(alpha))

    @property
    def num_components(self):
        """K, the number of components."""
        return self.mu.shape[-2]

    @property
    def routing_dim(self):
        """d_r, the width of a routing vector."""
        return self.mu.shape[-1]

    def __repr__(self):
        return f"GaussianMixture(K={self.num_components}, d_r={self.routing_dim}, mu.shape={self.mu.shape})"

    def __reduce__(self):
        # copies and pickles go through the constructor, or their arrays would come back writeable
        return type(self), (self.mu, self.variance, self.log_prior)


@accepts(x="N d_r", mixture=GaussianMixture)
@np.errstate(over="ignore")  # a square that overflows is a density of 0
def log_density(x: Float[Array, "... N d_r"], mixture: GaussianMixture) -> Float[Array, "... N K"]:
    r"""Log-density of each routing vector under each component, the logarithm of Eq. (2).

    .. math::
        \log\mathcal N(x_i;\mu_k,\Sigma_k)
        = -\tfrac12\sum_m \Bigl[\log(2\pi\sigma^2_{k,m}) + (x_{i,m}-\mu_{k,m})^2/\sigma^2_{k,m}\Bigr]

    Parameters
    ----------
    x : array_like, (..., N, d_r)
        Routing vectors: queries or keys.
    mixture : GaussianMixture
        With leading axes that broadcast against those of `x`.

    Returns
    -------
    ndarray, (..., N, K)
        In nats, in float32 at least.

    Notes
    -----
    Differences are taken before they are squared: x² − 2xμ + μ² would cancel for data far from the origin. A distance
    above 1e154 standard deviations (1e19 in float32) gives −inf. No array of size N·K·d_r is made. Source: Huang &
    Raza (2026), Eq. (2).
    """
    mu = mixture.mu[..., None, :, :]
    sigma = np.sqrt(mixture.variance)[..., None, :, :]
    total = mixture.routing_dim * math.log(2 * math.pi)
    for m in range(mixture.routing_dim):
        distance = (x[..., m, None] - mu[..., m]) / sigma[..., m]
        total = total + 2 * np.log(sigma[..., m]) + distance**2
    return -total / 2


@accepts(x="N d_r", mixture=GaussianMixture)
def scores(x: Float[Array, "... N d_r"], mixture: GaussianMixture) -> Float[Array, "... N K"]:
    r"""Scores of the components for each routing vector, Eq. (16): the log of prior times density.

    .. math::
        s_{i,k} = \log\pi_k
        - \tfrac12\sum_m \Bigl[\log(2\pi\sigma^2_{k,m}) + (x_{i,m}-\mu_{k,m})^2/\sigma^2_{k,m}\Bigr]

    Parameters
    ----------
    x : array_like, (..., N, d_r)
    mixture : GaussianMixture

    Returns
    -------
    ndarray, (..., N, K)
        In nats, in float32 at least; −inf where the prior is 0.

    Notes
    -----
    Source: Huang & Raza (2026), the score before Eq. (17); its number is inferred.
    """
    return mixture.log_prior[..., None, :] + log_density(x, mixture)


@accepts(x="N d_r", mixture=GaussianMixture)
def responsibilities(x: Float[Array, "... N d_r"], mixture: GaussianMixture) -> Float[Array, "... N K"]:
    r"""Posterior probability of each component for each routing vector, Eq. (3).

    .. math::
        \gamma_{i,k} = \frac{\pi_k\,\mathcal N(x_i;\mu_k,\Sigma_k)}
        {\sum_\ell \pi_\ell\,\mathcal N(x_i;\mu_\ell,\Sigma_\ell)} = \operatorname{softmax}(s_{i,:})_k

    Parameters
    ----------
    x : array_like, (..., N, d_r)
        Queries give :math:`\Gamma^Q`, keys give :math:`\Gamma^K`.
    mixture : GaussianMixture

    Returns
    -------
    ndarray, (..., N, K)
        Rows sum to 1. In float32 at least.

    Notes
    -----
    Formed in log space, so a vector far from every mean, where each density underflows to 0, still has them. Their
    error is of the order of 1e-16 times the largest score in size (6e-8 times it in float32): some times more where
    d_r is large, since a score is a sum of d_r rounded terms. A vector that is more than 1e154 standard deviations
    (1e19 in float32) from every mean gets none: all scores are −inf, and the row is NaN. Source: Huang & Raza (2026),
    Eq. (3).
    """
    return softmax(scores(x, mixture))


def check_components(mu, variance):
    """Refuse means that are none, or not finite, and variances that are not positive and finite."""
    if 0 in mu.shape[-2:]:
        raise ValueError(f"mu must have at least one component and one dimension, got shape {mu.shape}")
    check_finite("mu", mu)
    check_finite("variance", variance)
    if not (variance > 0).all():
        raise ValueError(f"variance must be positive, got {variance.min()}")


def check_finite(name, array):
    """Refuse an array that holds NaN or infinity."""
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")


def check_log_weights(name, array):
    """Refuse logarithms of weights that are NaN, +inf, or −inf for all components."""
    if array.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one component, got shape {array.shape}")
    if np.isnan(array).any() or (array == np.inf).any():
        raise ValueError(f"{name} must not hold NaN or +inf")
    if (array == -np.inf).all(axis=-1).any():
        raise ValueError(f"{name} must be finite for at least one component, got -inf for all")
