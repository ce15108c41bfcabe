"""The mixture as a module with parameters, and where they start: Eqs. (13)-(15)."""

from __future__ import annotations

import math

import torch
from torch import nn

from ..reference.checks import as_count, as_size
from .checks import Tensors
from .mixture import GaussianMixture
from .placement import place


class LearnedGaussianMixture(nn.Module):
    r"""A Gaussian mixture that is trained with the task: parameters of any real value, Eqs. (13), (14) and (15).

    .. math::
        \sigma^2_{k,j} = \log(1 + e^{\omega_{k,j}}) + \epsilon_\sigma, \qquad
        \pi_k = e^{\alpha_k} / \textstyle\sum_\ell e^{\alpha_\ell}

    Calling the module gives a `GaussianMixture`.

    Parameters
    ----------
    num_components : int
        K, the components of each mixture.
    routing_dim : int
        :math:`d_r`, the width of the queries and keys that it routes.
    num_heads : int, optional
        H mixtures, one a head; without it one mixture, which every head may share.
    eps_sigma : float
        :math:`\epsilon_\sigma`, the floor of the variances, finite and at least 0.
    device, dtype
        Of the parameters, as for every module.

    Attributes
    ----------
    mu, omega : Parameter, (K, d_r) or (H, K, d_r)
    alpha : Parameter, (K,) or (H, K)

    Raises
    ------
    TypeError, ValueError
        If an argument has another kind or range.

    Notes
    -----
    It starts where tokens of unit variance get responsibilities that on average, over tokens and over draws of the
    means, have more than half the largest entropy, :math:`\log K`, whatever the width: see `reset_parameters`. No
    weight decay should pull at these parameters: `mixture_parameters` names them. Source: Huang & Raza
    (2026), Eqs. (13), (14) and (15).
    """

    def __init__(self, num_components, routing_dim, num_heads=None, eps_sigma=1e-6, *, device=None, dtype=None):
        super().__init__()
        self.num_components = as_width("num_components", num_components)
        self.routing_dim = as_width("routing_dim", routing_dim)
        self.num_heads = None if num_heads is None else as_width("num_heads", num_heads)
        self.eps_sigma = as_size("eps_sigma", eps_sigma)
        heads = () if num_heads is None else (self.num_heads,)
        shape = (*heads, self.num_components, self.routing_dim)
        for name, size in {"mu": shape, "omega": shape, "alpha": shape[:-1]}.items():
            self.register_parameter(name, nn.Parameter(torch.empty(size, device=device, dtype=dtype)))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, variance=None):
        r"""Draw the means, and choose variances and priors such that routing starts soft and even.

        .. math::
            \mu_k \sim \mathcal N(0, I), \qquad
            \sigma^2 = \sqrt{d_r \max(1, 2 / \log K)}, \qquad
            \alpha_k = \frac{\lVert\mu_k\rVert^2}{2(\sigma^2 + 1)}

        Parameters
        ----------
        variance : float, optional
            Another :math:`\sigma^2` to start from.

        Notes
        -----
        Between tokens and means of unit variance the scores of a token spread by :math:`\tau = \sqrt{d_r}/\sigma^2`,
        and its responsibilities have an entropy of about :math:`\log K - \tau^2/2`. This :math:`\sigma^2` makes
        :math:`\tau` 1, or less for the few components where that would be more than a quarter of :math:`\log K`. All
        variances are equal, since log-determinants that differ favour the same components for every token; so would
        equal priors, which favour short means: with this :math:`\alpha` each component has the same mean density over
        tokens of unit variance. (:math:`\alpha` is stored less a constant that all components share; K = 1 starts with
        the variance of K = 2.) Ours, not the paper's.
        """
        if variance is None:
            variance = initial_variance(self.num_components, self.routing_dim)
        nn.init.normal_(self.mu)
        mu = self.mu.to(torch.promote_types(self.mu.dtype, torch.float32))
        self.omega.copy_(inverse_softplus(torch.full_like(mu, variance), self.eps_sigma))
        alpha = mu.square().sum(dim=-1) / (2 * (variance + 1))
        self.alpha.copy_(alpha.log_softmax(dim=-1))

    @torch.no_grad()
    def initialise_from(self, x, *, entropy=0.5, generator=None):
        r"""Place the components by data: k-means, then variances and priors that leave the routing soft.

        The means become the centres of k-means. The variances are those within its clusters, one a coordinate, common
        to all components, and widened by a common factor until responsibilities of `x` have the wanted entropy. The
        priors lie half way between the clusters' shares of `x` and equal ones.

        Parameters
        ----------
        x : Tensor, (..., N, d_r), or (..., H, N, d_r) if there is one mixture a head
            Vectors such as those to be routed, for instance queries and keys of a first batch. All leading axes
            count as tokens.
        entropy : float
            The least mean entropy of the responsibilities, as a share of log K, from 0 (leave the clusters' own
            variances: in many dimensions nearly one-hot) to 0.95.
        generator : torch.Generator, optional
            For the random choices; without it PyTorch's own.

        Returns
        -------
        LearnedGaussianMixture
            The module itself.

        Raises
        ------
        TypeError, ValueError
            If `x` has another shape or dtype, holds values that are not finite, or fewer than K different points.

        Notes
        -----
        Looks at values, so it waits for the device. Ours, not the paper's, which places nothing by data.
        """
        heads = () if self.num_heads is None else (self.num_heads,)
        check_points(x, self.mu, heads)
        if not (isinstance(entropy, float | int) and 0 <= entropy <= 0.95):
            raise ValueError(f"entropy must be a share of log K from 0 to 0.95, got {entropy!r}")
        points = x.detach().to(torch.promote_types(x.dtype, torch.float32))
        points = points.movedim(-3, 0).flatten(1, -2) if heads else points.flatten(0, -2)[None]
        with torch.autocast(points.device.type, enabled=False):
            placed = [place(one, self.num_components, entropy, generator) for one in points]
        mu, variance, log_prior = (
            torch.stack(parts).reshape(-1, *parts[0].shape) for parts in zip(*placed, strict=True)
        )
        self.mu.copy_(mu.reshape(self.mu.shape))
        self.omega.copy_(
            inverse_softplus(variance, self.eps_sigma)[..., None, :].expand_as(mu).reshape(self.omega.shape)
        )
        self.alpha.copy_(log_prior.reshape(self.alpha.shape))
        return self

    def forward(self) -> GaussianMixture:
        """Return the mixture that the parameters stand for now."""
        return GaussianMixture.from_unconstrained(self.mu, self.omega, self.alpha, self.eps_sigma)

    def extra_repr(self):
        """Say the sizes where the module is printed."""
        heads = "" if self.num_heads is None else f", num_heads={self.num_heads}"
        return (
            f"num_components={self.num_components}, routing_dim={self.routing_dim}{heads}, eps_sigma={self.eps_sigma}"
        )


def initial_variance(num_components, routing_dim):
    r"""Return the variance at which routing starts, :math:`\sqrt{d_r \max(1, 2 / \log K)}`; for K = 1 as for two."""
    return math.sqrt(routing_dim * max(1.0, 2 / math.log(max(num_components, 2))))


def inverse_softplus(variance, eps_sigma):
    """Return the ω that Eq. (14) turns into `variance`; below the floor, the one of a variance just above it."""
    above = (variance - eps_sigma).clamp_min(1e-6)
    return above + torch.log(-torch.expm1(-above))


def mixture_parameters(model):
    """Return the names of all parameters of mixtures in a model: those that weight decay should leave alone.

    Decay would pull means to the origin, variances to log 2 and priors to equality, none of which is any simpler.

    Parameters
    ----------
    model : nn.Module

    Returns
    -------
    frozenset of str
        As in ``model.named_parameters()``. Two groups for an optimiser are then
        ``[p for name, p in model.named_parameters() if name in names]`` and the others.

    Notes
    -----
    Source: this book.
    """
    # a mixture that several layers share has a name in each; named_parameters() gives the first
    return frozenset(
        f"{path}.{name}" if path else name
        for path, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, LearnedGaussianMixture)
        for name, _ in module.named_parameters()  # those within it too: a parametrised one is in a submodule
    )


def as_width(name, value):
    """Return a width or a number of components or heads: an integer that is at least 1."""
    if as_count(name, value) == 0:
        raise ValueError(f"{name} must be at least 1, got 0")
    return int(value)


def check_points(x, mu, heads):
    """Refuse points that do not fit means (H, K, d_r) or (K, d_r), are not finite, or too few."""
    tensors = Tensors()
    *_, num_components, routing_dim = mu.shape
    tensors.sizes["d_r"] = routing_dim, "the mixture"
    if heads:
        tensors.sizes["H"] = heads[0], "the mixture"
    tensors.check("x", x, "H N d_r" if heads else "N d_r")
    if x.device != mu.device:
        raise ValueError(f"x must be on {mu.device} as the mixture is, got a tensor on {x.device}")
    count = x[..., 0].numel() // (heads[0] if heads else 1)
    if count < num_components:
        raise ValueError(f"x must hold at least as many points as there are components, {num_components}, got {count}")
    if not x.isfinite().all():
        raise ValueError("x must be finite, got NaN or infinity")
