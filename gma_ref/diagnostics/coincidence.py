"""Which components are one: columns of responsibilities that are proportional, Gaussians that coincide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gma_ref.reference import GaussianMixture
from gma_ref.reference.checks import accepts, as_float
from gma_ref.reference.numerics import ratio

from .checks import as_responsibilities, as_share

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from numpy import ndarray as Array

__all__ = ["collapsed_components", "component_groups", "gaussian_overlap", "responsibility_overlap"]


def responsibility_overlap(
    gamma: Float[Array, "... N K"], mask: Bool[Array, "... N"] | None = None
) -> Float[Array, "... K K"]:
    r"""Return how alike two components are used: the cosine between their columns of responsibilities.

    .. math::
        c_{k,\ell} = \frac{\sum_i \gamma_{i,k} \gamma_{i,\ell}}
                          {\sqrt{\sum_i \gamma_{i,k}^2} \sqrt{\sum_i \gamma_{i,\ell}^2}}

    Parameters
    ----------
    gamma : array_like, (..., N, K)
        Responsibilities.
    mask : array_like of bool, (N,) or (..., N), optional
        True: this token takes part.

    Returns
    -------
    ndarray, (..., K, K)
        1 where two columns are proportional, 0 where no token has both. A component that no token has is 0 with all,
        with itself too.

    Raises
    ------
    TypeError, ValueError
        As in `usage`.

    Notes
    -----
    Proportional columns hold proportional memory: such components are one slot, however the mass is divided between
    them. All columns of a mixture so wide that every token is spread alike are proportional. Source: this book.
    """
    gamma, _ = as_responsibilities(gamma, mask)
    unit = ratio(gamma, gamma.max(axis=-2, keepdims=True, initial=0))  # a square of what is tiny would vanish
    unit = ratio(unit, np.sqrt(np.square(unit).sum(axis=-2, keepdims=True)))
    return np.clip(unit.swapaxes(-1, -2) @ unit, 0, 1)


@accepts(mixture=GaussianMixture)
def gaussian_overlap(mixture: GaussianMixture) -> Float[Array, "... K K"]:
    r"""Return how much two Gaussians of the mixture overlap: Bhattacharyya's coefficient.

    .. math::
        b_{k,\ell} = \int \sqrt{\mathcal N_k(x)\, \mathcal N_\ell(x)}\, dx
        = \prod_m \Bigl(\frac{2 \sigma_{k,m} \sigma_{\ell,m}}{\sigma_{k,m}^2 + \sigma_{\ell,m}^2}\Bigr)^{1/2}
          \exp\Bigl(-\frac{(\mu_{k,m} - \mu_{\ell,m})^2}{4 (\sigma_{k,m}^2 + \sigma_{\ell,m}^2)}\Bigr)

    Parameters
    ----------
    mixture : gma_ref.GaussianMixture
        Its priors do not matter.

    Returns
    -------
    ndarray, (..., K, K)
        Between 0 and 1, and 1 where mean and variances are equal.

    Raises
    ------
    TypeError
        If the argument is not a mixture.

    Notes
    -----
    It needs no tokens, so that it can be looked at before any have come. With equal variances and means a distance of
    :math:`t\sigma` apart it is :math:`e^{-t^2/8}`. Source: A. Bhattacharyya, *On a measure of divergence between two
    statistical populations defined by their probability distributions*, Bulletin of the Calcutta Mathematical Society
    35, 1943; T. Kailath, *The divergence and Bhattacharyya distance measures in signal selection*, IEEE Transactions on
    Communication Technology 15, 1967.
    """
    mu, sigma = np.float64(mixture.mu), np.sqrt(np.float64(mixture.variance))
    with np.errstate(over="ignore"):  # what is infinitely far does not overlap
        between = mu[..., :, None, :] - mu[..., None, :, :]
        apart = np.square(between / np.hypot(sigma[..., :, None, :], sigma[..., None, :, :])) / 4
    logs = 2 * np.log(sigma)
    half = np.abs(logs[..., :, None, :] - logs[..., None, :, :]) / 2
    unlike = half + np.log1p(np.exp(-2 * half)) - np.log(2)  # log cosh: no product of two variances is ever formed
    return np.exp(-(apart + unlike / 2).sum(axis=-1))


def component_groups(overlap: Float[Array, "... K K"], *, threshold: float = 0.99) -> Int[Array, "... K"]:
    r"""Put components that coincide into groups.

    Two components are in one group if their overlap is at least `threshold`, or if others between them link them so.

    Parameters
    ----------
    overlap : array_like, (..., K, K)
        From `responsibility_overlap` or `gaussian_overlap`: between 0 and 1, symmetric.
    threshold : float
        Between 0 and 1. 0.99 means an angle of 8 degrees between columns, or Gaussians 0.28 σ apart.

    Returns
    -------
    ndarray of int, (..., K)
        The group of each component, named after the first of its members, counted from 0. As many different numbers as
        components that differ.

    Raises
    ------
    TypeError, ValueError
        If `overlap` is not a symmetric matrix of shares, or `threshold` none.

    Notes
    -----
    Source: single linkage; this book for the threshold.
    """
    overlap, threshold = as_float("overlap", overlap), as_share("threshold", threshold)
    if overlap.ndim < 2 or overlap.shape[-1] != overlap.shape[-2]:
        raise ValueError(f"overlap must have shape (..., K, K), got shape {overlap.shape}")
    if not ((overlap >= 0) & (overlap <= 1 + 1e-6)).all():
        raise ValueError("overlap must hold shares between 0 and 1")
    if not np.allclose(overlap, overlap.swapaxes(-1, -2), rtol=0, atol=1e-6):
        raise ValueError("overlap must be symmetric")
    linked = (overlap >= threshold) | np.eye(overlap.shape[-1], dtype=np.bool_)
    linked |= linked.swapaxes(-1, -2)
    for _ in range(int(overlap.shape[-1]).bit_length()):  # each round doubles the length of the chains
        linked = np.float32(linked) @ np.float32(linked) > 0
    return linked.argmax(axis=-1) if overlap.shape[-1] else np.zeros(overlap.shape[:-1], np.intp)


def collapsed_components(overlap: Float[Array, "... K K"], *, threshold: float = 0.99) -> Bool[Array, "... K"]:
    """Tell which components coincide with an earlier one, so that nothing would be lost without them.

    Parameters
    ----------
    overlap : array_like, (..., K, K)
        From `responsibility_overlap` or `gaussian_overlap`.
    threshold : float
        As in `component_groups`.

    Returns
    -------
    ndarray of bool, (..., K)
        The first of each group is not among them: K minus their number is the number of components that differ.

    Raises
    ------
    TypeError, ValueError
        As in `component_groups`.

    Notes
    -----
    Source: this book.
    """
    groups = component_groups(overlap, threshold=threshold)
    return groups != np.arange(groups.shape[-1])
