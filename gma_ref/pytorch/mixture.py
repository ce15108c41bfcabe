"""The Gaussian mixture and its responsibilities: Eqs. (2), (3), (14), (15), (16)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch.nn.functional import softplus
from torch.utils import _pytree as pytree

from .checks import Tensors, accepts

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture:
    r"""K Gaussian components with diagonal covariances, Eq. (2). Immutable.

    .. math:: \textstyle\sum_k \pi_k\,\mathcal N(x;\,\mu_k,\,\operatorname{diag}(\sigma^2_{k,1},\dots,\sigma^2_{k,d_r}))

    Parameters
    ----------
    mu : Tensor, (..., K, d_r)
        Means, in the units of the routing vectors.
    variance : Tensor, (..., K, d_r)
        Variances :math:`\sigma^2` (not their roots, not their inverses), in squared units.
    log_prior : Tensor, (..., K)
        :math:`\log\pi_k`, with :math:`\sum_k \pi_k = 1`. Some may be −inf, not all.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    Leading axes broadcast: one mixture per head is ``(H, K, d_r)``. The tensors are kept as they are, with what
    autograd knows of them. Their values are not looked at, since then the host would wait for the device: variances
    must be positive and finite, and priors must sum to 1, as `gma_ref.GaussianMixture` would see to. PyTorch knows it
    as a tree of three tensors, so `torch.func.grad` can differentiate by a mixture. Source: Huang & Raza (2026),
    Eq. (2).
    """

    mu: Float[Tensor, "... K d_r"]
    variance: Float[Tensor, "... K d_r"]
    log_prior: Float[Tensor, "... K"]

    AXES: ClassVar = {"mu": "K d_r", "variance": "K d_r", "log_prior": "K"}

    def __post_init__(self):
        tensors = Tensors()
        for field, names in self.AXES.items():
            tensors.check(field, getattr(self, field), names)
        if 0 in self.mu.shape[-2:]:
            raise ValueError(f"mu must have at least one component and one dimension, got shape {tuple(self.mu.shape)}")

    @classmethod
    @accepts(mu="K d_r", omega="K d_r", alpha="K")
    def from_unconstrained(cls, mu, omega, alpha, eps_sigma=1e-6):
        r"""Make a mixture from parameters that may take any real value, Eqs. (14) and (15).

        .. math::
            \sigma^2_{k,j} = \log(1 + e^{\omega_{k,j}}) + \epsilon_\sigma, \qquad
            \pi_k = e^{\alpha_k} / \textstyle\sum_\ell e^{\alpha_\ell}

        Parameters
        ----------
        mu, omega : Tensor, (..., K, d_r)
            Means, and the free parameters of the variances.
        alpha : Tensor, (..., K)
            Logits of the priors. Some may be −inf (a prior of zero), not all.
        eps_sigma : float
            :math:`\epsilon_\sigma`, the floor of the variances, finite and at least 0.

        Returns
        -------
        GaussianMixture
            In float32 at least.

        Notes
        -----
        Source: Huang & Raza (2026), Eqs. (14) and (15).
        """
        # above PyTorch's own threshold of 20, float64 would notice that the softplus is not yet ω
        return cls(mu, softplus(omega, threshold=40) + eps_sigma, torch.log_softmax(alpha, dim=-1))

    @property
    def num_components(self):
        """K, the number of components."""
        return self.mu.shape[-2]

    @property
    def routing_dim(self):
        """d_r, the width of a routing vector."""
        return self.mu.shape[-1]

    def to(self, *args, **kwargs):
        """Return the mixture with each tensor converted by `torch.Tensor.to`: to a device, a dtype, or both."""
        return unflatten([getattr(self, field).to(*args, **kwargs) for field in self.AXES])

    def __repr__(self):
        shape, dtype, device = tuple(self.mu.shape), self.mu.dtype, self.mu.device
        return f"GaussianMixture(K={self.num_components}, d_r={self.routing_dim}, mu.shape={shape}, {dtype}, {device})"


def _flatten(mixture):
    return [getattr(mixture, field) for field in GaussianMixture.AXES], None


def unflatten(leaves, _=None):
    """Return a mixture of the three tensors, unchecked."""
    # what PyTorch puts in the place of the tensors may be anything, such as axes to map over
    mixture = object.__new__(GaussianMixture)
    for field, leaf in zip(GaussianMixture.AXES, leaves, strict=True):
        object.__setattr__(mixture, field, leaf)
    return mixture


pytree.register_pytree_node(GaussianMixture, _flatten, unflatten, serialized_type_name="gma_ref.GaussianMixture")


@accepts(x="N d_r", mixture=GaussianMixture)
def log_density(x: Float[Tensor, "... N d_r"], mixture: GaussianMixture) -> Float[Tensor, "... N K"]:
    r"""Log-density of each routing vector under each component, the logarithm of Eq. (2).

    .. math::
        \log\mathcal N(x_i;\mu_k,\Sigma_k)
        = -\tfrac12\sum_m \Bigl[\log(2\pi\sigma^2_{k,m}) + (x_{i,m}-\mu_{k,m})^2/\sigma^2_{k,m}\Bigr]

    Parameters
    ----------
    x : Tensor, (..., N, d_r)
        Routing vectors: queries or keys.
    mixture : GaussianMixture
        With leading axes that broadcast against those of `x`.

    Returns
    -------
    Tensor, (..., N, K)
        In nats, in float32 at least.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    Differences are taken before they are squared: x² − 2xμ + μ² would cancel for data far from the origin. This makes
    a tensor of N·K·d_r numbers. Source: Huang & Raza (2026), Eq. (2).
    """
    sigma = mixture.variance.sqrt()
    distance = (x[..., :, None, :] - mixture.mu[..., None, :, :]) / sigma[..., None, :, :]
    log_volume = 2 * sigma.log().sum(dim=-1) + mixture.routing_dim * math.log(2 * math.pi)
    return -(log_volume[..., None, :] + distance.square().sum(dim=-1)) / 2


@accepts(x="N d_r", mixture=GaussianMixture)
def scores(x: Float[Tensor, "... N d_r"], mixture: GaussianMixture) -> Float[Tensor, "... N K"]:
    r"""Scores of the components for each routing vector, Eq. (16): the log of prior times density.

    .. math::
        s_{i,k} = \log\pi_k
        - \tfrac12\sum_m \Bigl[\log(2\pi\sigma^2_{k,m}) + (x_{i,m}-\mu_{k,m})^2/\sigma^2_{k,m}\Bigr]

    Parameters
    ----------
    x : Tensor, (..., N, d_r)
    mixture : GaussianMixture

    Returns
    -------
    Tensor, (..., N, K)
        In nats, in float32 at least; −inf where the prior is 0.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    Source: Huang & Raza (2026), the score before Eq. (17); its number, (16), is inferred.
    """
    return mixture.log_prior[..., None, :] + log_density(x, mixture)


@accepts(x="N d_r", mixture=GaussianMixture)
def responsibilities(x: Float[Tensor, "... N d_r"], mixture: GaussianMixture) -> Float[Tensor, "... N K"]:
    r"""Posterior probability of each component for each routing vector, Eq. (3).

    .. math::
        \gamma_{i,k} = \frac{\pi_k\,\mathcal N(x_i;\mu_k,\Sigma_k)}
        {\sum_\ell \pi_\ell\,\mathcal N(x_i;\mu_\ell,\Sigma_\ell)} = \operatorname{softmax}(s_{i,:})_k

    Parameters
    ----------
    x : Tensor, (..., N, d_r)
        Queries give :math:`\Gamma^Q`, keys give :math:`\Gamma^K`.
    mixture : GaussianMixture

    Returns
    -------
    Tensor, (..., N, K)
        Rows sum to 1. In float32 at least.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    Formed in log space, so a vector far from every mean, where each density underflows to 0, still has them. Only a
    vector that is more than 1e19 standard deviations from every mean (1e154 in float64) has a row of NaN. Source: Huang
    & Raza (2026), Eq. (3).
    """
    return torch.softmax(scores(x, mixture), dim=-1)
