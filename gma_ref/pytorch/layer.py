"""Gaussian Mixture Attention as a layer: projections, a learned mixture, heads, a state."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from ..reference.checks import as_flag, as_size
from .attention import gaussian_mixture_attention
from .checks import Tensors
from .implementations import choose
from .learned_mixture import LearnedGaussianMixture, as_width

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor

    from .state import Memory


class GaussianMixtureAttention(nn.Module):
    r"""Gaussian Mixture Attention with its projections, Eqs. (4)-(8), causally (8b), for H heads.

    .. math::
        Q = XW_Q, \quad K = XW_K, \quad V = XW_V, \qquad
        O_h = \frac{\Gamma^Q_h (\Gamma^K_h)^\top V_h}{\Gamma^Q_h (\Gamma^K_h)^\top \mathbf 1_N + \epsilon}, \qquad
        Y = [O_1, \dots, O_H]\,W_O

    Parameters
    ----------
    d_model : int
        The width of the tokens.
    num_components, num_heads : int
        K, the slots of each head's memory, and H. With one component, every token gets the mean of the values,
        projected, and routing has nothing to learn: its parameters have gradients of 0.
    routing_dim, value_dim : int, optional
        :math:`d_r` and :math:`d_v` of one head; ``d_model // num_heads`` where not given.
    causal : bool
        Token i reads what tokens j ≤ i wrote. A causal layer takes no context.
    shared_mixture : bool
        One mixture for all heads instead of one for each.
    qk_norm : bool
        Give every query and key a root mean square of 1 before it is routed, whatever the size of tokens and weights.
    bias : bool
        Let the four projections add a bias; Eq. (4) has none.
    eps, eps_sigma : float
        :math:`\epsilon`, added to the denominator, and :math:`\epsilon_\sigma`, the floor of the variances.
    implementation : str
        As in `gaussian_mixture_attention`.
    device, dtype
        Of the parameters, as for every module.

    Attributes
    ----------
    w_q, w_k, w_v, w_o : nn.Linear
    mixture : LearnedGaussianMixture

    Raises
    ------
    TypeError, ValueError
        If an argument has another kind or range.

    Notes
    -----
    What differs from ``nn.MultiheadAttention``: tokens are ``(..., N, d_model)``, batch first; keys and values come
    from one `context` of the same width, which a causal layer does not take; `key_mask` is True where a key takes part,
    the opposite of ``key_padding_mask``; there is no mask of single pairs (``attn_mask``), since no pair is ever looked
    at, no matrix of weights to return, and no dropout of weights; the width of a head need not be
    ``d_model // num_heads``; there are no biases by default, and weights start with a variance of one over the number
    of inputs; the module returns the output alone. Source: Huang & Raza
    (2026), Eqs. (4)-(8); heads and :math:`W_O` as in Vaswani et al. (2017).
    """

    def __init__(
        self,
        d_model,
        *,
        num_components,
        num_heads=1,
        routing_dim=None,
        value_dim=None,
        causal=False,
        shared_mixture=False,
        qk_norm=False,
        bias=False,
        eps=1e-6,
        eps_sigma=1e-6,
        implementation="auto",
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.d_model, self.num_heads = as_width("d_model", d_model), as_width("num_heads", num_heads)
        if d_model % num_heads and None in (routing_dim, value_dim):
            raise ValueError(
                "d_model must be a multiple of num_heads where routing_dim or value_dim is not given, "
                f"got d_model = {d_model} and num_heads = {num_heads}"
            )
        width = self.d_model // self.num_heads
        self.routing_dim = width if routing_dim is None else as_width("routing_dim", routing_dim)
        self.value_dim = width if value_dim is None else as_width("value_dim", value_dim)
        self.causal, self.qk_norm = as_flag("causal", causal), as_flag("qk_norm", qk_norm)
        choose(implementation)  # refuses an unknown one
        self.eps, self.implementation = as_size("eps", eps), implementation
        options = {"device": device, "dtype": dtype}
        linear = partial(nn.Linear, bias=as_flag("bias", bias), **options)
        self.w_q = linear(self.d_model, self.num_heads * self.routing_dim)
        self.w_k = linear(self.d_model, self.num_heads * self.routing_dim)
        self.w_v = linear(self.d_model, self.num_heads * self.value_dim)
        self.w_o = linear(self.num_heads * self.value_dim, self.d_model)
        own = None if as_flag("shared_mixture", shared_mixture) else self.num_heads
        self.mixture = LearnedGaussianMixture(num_components, self.routing_dim, own, eps_sigma, **options)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weights that keep unit variance: tokens of unit variance are what the mixture starts from."""
        for projection in (self.w_q, self.w_k, self.w_v, self.w_o):
            nn.init.normal_(projection.weight, std=projection.in_features**-0.5)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)
        self.mixture.reset_parameters()

    def project(self, x, context=None):
        """Return queries (..., H, N_q, d_r) of `x`, keys (..., H, N_k, d_r) and values (..., H, N_k, d_v) of `context`.

        Without context, keys and values are those of `x`.
        """
        context = x if context is None else context
        pairs = (self.w_q, x), (self.w_k, context), (self.w_v, context)
        q, k, v = (w(tokens).unflatten(-1, (self.num_heads, -1)).transpose(-2, -3) for w, tokens in pairs)
        if self.qk_norm:  # in float32 at least: the epsilon of 16 bits would count
            wide = torch.promote_types(q.dtype, torch.float32)
            q, k = (F.rms_norm(vectors.to(wide), (self.routing_dim,)) for vectors in (q, k))
        return q, k, v

    def forward(
        self,
        x: Float[Tensor, "... N d_model"],
        context: Float[Tensor, "... N_k d_model"] | None = None,
        *,
        key_mask: Bool[Tensor, "... N_k"] | None = None,
        state: Memory | None = None,
        return_state: bool = False,
    ):
        """Attend from `x` to `context`, or to itself.

        Parameters
        ----------
        x : Tensor, (..., N, d_model)
        context : Tensor, (..., N_k, d_model), optional
            Where keys and values come from; the leading axes are those of `x`.
        key_mask : Tensor of bool, (N_k,) or (..., N_k), optional
            True: this token takes part as a key. One mask serves all heads.
        state : Memory, optional
            ``V_tilde`` (..., H, K, d_v) and ``Z`` (..., H, K): what earlier tokens wrote. It is not changed.
        return_state : bool
            Whether to return the state after these tokens too.

        Returns
        -------
        y : Tensor, (..., N, d_model)
        state : Memory
            Only with ``return_state=True``.

        Raises
        ------
        TypeError, ValueError
            If an argument is no such tensor, or if a causal layer is given a context.

        Notes
        -----
        ``context=x[..., :0, :]``, a context of no tokens, reads the state and writes nothing.
        """
        if self.causal and context is not None:
            raise ValueError("context must be None where causal=True: each token reads what came before it")
        self._check_tokens(x, context)
        key_mask = over_heads(key_mask, x if context is None else context)
        q, k, v = self.project(x, context)
        options = {"causal": self.causal, "eps": self.eps, "implementation": self.implementation}
        output, state = gaussian_mixture_attention(
            q, k, v, self.mixture(), key_mask=key_mask, state=state, return_state=True, **options
        )
        y = self.w_o(output.transpose(-2, -3).flatten(-2))
        return (y, state) if as_flag("return_state", return_state) else y

    def step(self, x_t: Float[Tensor, "... d_model"], state: Memory | None = None):
        """Take one more token of a causal sequence; the outputs are those of `forward` over the whole.

        Parameters
        ----------
        x_t : Tensor, (..., d_model)
        state : Memory, optional
            From the step before, or from ``forward(..., return_state=True)``. It is not changed.

        Returns
        -------
        y_t : Tensor, (..., d_model)
        state : Memory
            The state after this token.

        Raises
        ------
        TypeError, ValueError
            If an argument is no such tensor, or if the layer is not causal.
        """
        if not self.causal:
            raise ValueError("step must be called on a layer with causal=True, got causal=False")
        Tensors().check("x_t", x_t, "d_model")
        y, state = self(x_t[..., None, :], state=state, return_state=True)
        return y[..., 0, :], state

    @torch.no_grad()
    def initialise_from(self, x, context=None, *, entropy=0.5, generator=None):
        """Place the mixture by the queries and keys of a first batch, and return the layer.

        The tokens are those of `forward`; the rest is said at `LearnedGaussianMixture.initialise_from`.
        """
        self._check_tokens(x, context)
        q, k, _ = self.project(x, context)
        self.mixture.initialise_from(torch.cat([q, k], dim=-2), entropy=entropy, generator=generator)
        return self

    def _check_tokens(self, x, context):
        tensors = Tensors()
        tensors.sizes["d_model"] = self.d_model, "the layer"
        tensors.check("x", x, "N d_model")
        if context is not None:
            tensors.check("context", context, "N_k d_model")

    def extra_repr(self):
        """Say the sizes and switches where the module is printed."""
        names = "d_model", "num_heads", "routing_dim", "value_dim", "causal", "qk_norm", "eps", "implementation"
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def over_heads(key_mask, context):
    """Return a mask of tokens (..., N_k) with an axis for the heads; the attention checks the rest."""
    if not isinstance(key_mask, torch.Tensor) or key_mask.ndim < 2:
        return key_mask
    if key_mask.ndim != context.ndim - 1:
        tokens = tuple(context.shape)
        raise ValueError(
            f"key_mask must have shape ({tokens[-2]},) or {tokens[:-1]}, since the tokens have shape {tokens}; "
            f"got shape {tuple(key_mask.shape)}"
        )
    return key_mask.unsqueeze(-2)
