"""Gaussian Mixture Attention as a mixer like the others."""

import torch

from gma_ref.pytorch import LearnedGaussianMixture, Memory, gaussian_mixture_attention
from gma_ref.pytorch.implementations import choose
from gma_ref.pytorch.numerics import keep
from gma_ref.reference.checks import as_flag, as_size

from .base import Attention


class Gma(Attention):
    """Gaussian Mixture Attention, Eqs. (7) and (8b), between the projections that all mixers have.

    Parameters
    ----------
    num_components : int
        K, the slots of each head's memory.
    initial_variance : float, optional
        Where the variances start; without it, where `gma_ref.pytorch.LearnedGaussianMixture` lets them.
    shared_mixture : bool
        One mixture for all heads instead of one for each.
    eps : float
        Added to the denominator.
    eps_sigma : float
        The floor of the variances.
    implementation : str
        As in `gma_ref.pytorch.gaussian_mixture_attention`.
    **options
        As for every attention.

    Notes
    -----
    Source: Huang & Raza (2026), Eqs. (7) and (8b), with the learned mixture of Eqs. (13), (14) and (15).
    """

    Memory = Memory

    def __init__(
        self,
        d_model,
        *,
        num_components=64,
        initial_variance=None,
        shared_mixture=False,
        eps=1e-6,
        eps_sigma=1e-6,
        implementation="auto",
        **options,
    ):
        super().__init__(d_model, **options)
        choose(implementation)  # refuses an unknown one
        self.eps, self.implementation = as_size("eps", eps), implementation
        heads = None if as_flag("shared_mixture", shared_mixture) else self.num_heads
        self.mixture = LearnedGaussianMixture(num_components, self.width, heads, eps_sigma)
        self.slots = self.mixture.num_components
        if initial_variance is not None:
            if as_size("initial_variance", initial_variance) <= eps_sigma:
                raise ValueError(f"initial_variance must be above eps_sigma = {eps_sigma}, got {initial_variance}")
            self.mixture.reset_parameters(initial_variance)

    def attend(self, q, k, v, key_mask, memory):
        """Write keys and values into the memory, and read it."""
        options = {"causal": self.causal, "eps": self.eps, "state": memory}
        options["key_mask"] = None if key_mask is None else key_mask[:, None]
        options["implementation"] = self.implementation
        options["return_state"] = True
        return gaussian_mixture_attention(q, k, v, self.mixture(), **options)

    @torch.no_grad()
    def initialise_from(self, x, *, key_mask=None, entropy=0.5, generator=None):
        """Place the mixture by the queries and keys of a first batch (B, N, d_model), and return the mixer.

        Tokens that `key_mask` (B, N) leaves out, as in `forward`, have no part in it. The rest is said at
        `gma_ref.pytorch.LearnedGaussianMixture.initialise_from`.
        """
        key_mask = self._check(x, key_mask, None, False)
        q, k, _ = self.project(keep(key_mask, x))
        points = torch.cat([q, k], dim=-2)
        if key_mask is not None:
            both = torch.cat([key_mask, key_mask], dim=1)
            by_head = points.transpose(0, 1)[:, both]  # (H, tokens that take part, width)
            points = by_head if self.mixture.num_heads else points[both[:, None].expand(points.shape[:-1])]
        self.mixture.initialise_from(points, entropy=entropy, generator=generator)
        return self
