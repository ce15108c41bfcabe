"""The whole backward pass of Gaussian Mixture Attention, by hand, and that of the projections (G5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .checks import accepts
from .memory import keep
from .memory_gradients import routing_vjp
from .mixture import GaussianMixture, responsibilities
from .numerics import sum_to
from .score_gradients import score_vjp

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy import ndarray as Array


@accepts(
    q="N_q d_r",
    k="N_k d_r",
    v="N_k d_v",
    mu="K d_r",
    omega="K d_r",
    alpha="K",
    upstream="N_q d_v",
    key_mask="k",
    result_dtype_of=("q", "k", "v", "mu", "omega", "alpha"),
)
def gaussian_mixture_attention_vjp(
    q: Float[Array, "... N_q d_r"],
    k: Float[Array, "... N_k d_r"],
    v: Float[Array, "... N_k d_v"],
    mu: Float[Array, "... K d_r"],
    omega: Float[Array, "... K d_r"],
    alpha: Float[Array, "... K"],
    upstream: Float[Array, "... N_q d_v"],
    *,
    causal: bool = False,
    eps: float = 1e-6,
    eps_sigma: float = 1e-6,
    key_mask: Bool[Array, "... N_k"] | None = None,
) -> dict[str, Float[Array, ...]]:
    r"""Backward pass of Gaussian Mixture Attention, by Eqs. (18) and (19), for all that is trained, (13).

    The gradients of :math:`L = \langle G, O\rangle`, where O is the output of `gaussian_mixture_attention` for the
    mixture ``GaussianMixture.from_unconstrained(mu, omega, alpha, eps_sigma)``.

    Parameters
    ----------
    q, k, v, causal, eps, key_mask
        As in `gaussian_mixture_attention`.
    mu, omega, alpha, eps_sigma
        As in `GaussianMixture.from_unconstrained`.
    upstream : array_like, (..., N_q, d_v)
        :math:`G = \partial L/\partial O`.

    Returns
    -------
    dict of ndarray
        ``q``, ``k``, ``v``, ``mu``, ``omega``, ``alpha``: in the shapes and dtypes of the arguments, summed over the
        axes along which these were broadcast. Masked keys have gradients of 0, whatever anything holds; so have rows
        that no key reaches, unless their query holds NaN, and what belongs to a component of prior 0.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or range.

    Notes
    -----
    A query whose row of `upstream` is 0 sends nothing backwards, whatever it holds, and neither does a key that only
    such queries read. So a padded batch has the gradients of the batch without padding, if the padding has upstream
    gradients of 0 and is masked as keys or, causally, comes last.

    Linear in N in time and memory: no array of size N² or N·K·d_v is made, causally either. Queries and keys share
    the mixture, so its gradients are sums of two. `project_vjp` goes on to the projections. Source: Huang & Raza
    (2026), Eq. (18) and Appendix D; the number (13) is inferred.
    """
    arguments = {"q": q, "k": k, "v": v, "mu": mu, "omega": omega, "alpha": alpha}
    shapes = {name: argument.shape for name, argument in arguments.items()}
    mixture = GaussianMixture.from_unconstrained(mu, omega, alpha, eps_sigma)
    asking = (upstream != 0).any(axis=-1)
    key_mask = keys_asked_for(asking, key_mask, causal)
    q, k = (keep(mask, x, mixture.mu[..., :1, :]) for mask, x in ((asking, q), (key_mask, k)))  # any finite point
    gamma_q, gamma_k = responsibilities(q, mixture), keep(key_mask, responsibilities(k, mixture))
    delta_q, delta_k, by_v = routing_vjp(gamma_q, gamma_k, keep(key_mask, v), upstream, causal=causal, eps=eps)
    delta_k, by_v = keep(key_mask, delta_k), keep(key_mask, by_v)  # 0 times what a query holds may be NaN
    from_q, from_k = (score_vjp(x, mu, omega, delta, eps_sigma) for x, delta in ((q, delta_q), (k, delta_k)))
    shared = {name: from_q[name] + from_k[name] for name in ("mu", "omega", "alpha")}
    gradients = {"q": from_q["x"], "k": from_k["x"], "v": by_v} | shared
    return {name: sum_to(gradients[name], shape) for name, shape in shapes.items()}


def keys_asked_for(asking, key_mask, causal):
    """Tell which keys take part and are read by some query that asks, causally from their own token on."""
    read = np.logical_or.accumulate(asking[..., ::-1], axis=-1)[..., ::-1] if causal else asking.any(-1, keepdims=True)
    return read if key_mask is None else read & key_mask


@accepts(
    x="N d_model",
    w_q="d_model d_r",
    w_k="d_model d_r",
    w_v="d_model d_v",
    q_bar="N d_r",
    k_bar="N d_r",
    v_bar="N d_v",
    result_dtype_of=("x", "w_q", "w_k", "w_v"),
)
def project_vjp(
    x: Float[Array, "... N d_model"],
    w_q: Float[Array, "... d_model d_r"],
    w_k: Float[Array, "... d_model d_r"],
    w_v: Float[Array, "... d_model d_v"],
    q_bar: Float[Array, "... N d_r"],
    k_bar: Float[Array, "... N d_r"],
    v_bar: Float[Array, "... N d_v"],
) -> dict[str, Float[Array, ...]]:
    r"""Backward pass of the projections, Eq. (4), from the gradients of queries, keys and values (G5).

    .. math::
        \frac{\partial L}{\partial W_Q} = X^\top \bar Q, \quad \frac{\partial L}{\partial W_K} = X^\top \bar K, \quad
        \frac{\partial L}{\partial W_V} = X^\top \bar V, \qquad
        \frac{\partial L}{\partial X} = \bar Q W_Q^\top + \bar K W_K^\top + \bar V W_V^\top

    Parameters
    ----------
    x, w_q, w_k, w_v : array_like
        As in `project`.
    q_bar, k_bar, v_bar : array_like, (..., N, width)
        :math:`\bar Q = \partial L/\partial Q_X` and so on, from `gaussian_mixture_attention_vjp`.

    Returns
    -------
    dict of ndarray
        ``x``, ``w_q``, ``w_k``, ``w_v`` in the shapes and dtypes of the arguments, summed over the axes along which
        these were broadcast.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype or shape.

    Notes
    -----
    A token whose gradients are 0 sends nothing backwards, whatever it holds. Source: this book, from Eq. (4) of Huang &
    Raza (2026).
    """
    weights = {"w_q": (w_q, q_bar), "w_k": (w_k, k_bar), "w_v": (w_v, v_bar)}
    by_x = sum(bar @ np.swapaxes(w, -1, -2) for w, bar in weights.values())
    by_w = {name: sum_to(transposed_product(x, bar), w.shape) for name, (w, bar) in weights.items()}
    return {"x": sum_to(by_x, x.shape)} | by_w


def transposed_product(x, bar):
    r"""Return :math:`X^\top \bar Y`, without the rows in which the gradient is 0."""
    return np.swapaxes(keep((bar != 0).any(axis=-1), x), -1, -2) @ bar
