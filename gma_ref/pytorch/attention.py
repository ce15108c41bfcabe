"""Attention, bidirectional and causal: Eqs. (1), (4), (7)-(11), (8b)-(10b)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch.nn import functional

from .checks import accepts
from .implementations import choose
from .mixture import GaussianMixture
from .numerics import keep, ratio
from .state import Memory

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


@accepts(q="N_q d_k", k="N_k d_k", v="N_k d_v", result_dtype_of="v", promote=False)
def scaled_dot_product_attention(
    q: Float[Tensor, "... N_q d_k"],
    k: Float[Tensor, "... N_k d_k"],
    v: Float[Tensor, "... N_k d_v"],
    *,
    causal: bool = False,
) -> Float[Tensor, "... N_q d_v"]:
    r"""Scaled dot-product attention, Eq. (1), by PyTorch's own function: the form that GMA is compared with.

    .. math:: \operatorname{softmax}(Q K^\top / \sqrt{d_k})\,V

    Parameters
    ----------
    q : Tensor, (..., N_q, d_k)
    k : Tensor, (..., N_k, d_k)
    v : Tensor, (..., N_k, d_v)
    causal : bool
        Token i sees tokens j ≤ i only; needs N_q = N_k.

    Returns
    -------
    Tensor, (..., N_q, d_v)
        In the dtype of `v`. Without keys, zeros.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    It computes in the common dtype of the arguments, which may be of 16 bits, and lets PyTorch choose the kernel.
    Source: Vaswani et al. (2017); Eq. (1) of Huang & Raza (2026).
    """
    batch = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    if k.shape[-2] == 0:
        return v.new_zeros(*batch, q.shape[-2], v.shape[-1])
    dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype)
    q, k, v = (tensor.to(dtype).expand(*batch, *tensor.shape[-2:]) for tensor in (q, k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


@accepts(x="N d_model", w_q="d_model d_r", w_k="d_model d_r", w_v="d_model d_v")
def project(
    x: Float[Tensor, "... N d_model"],
    w_q: Float[Tensor, "... d_model d_r"],
    w_k: Float[Tensor, "... d_model d_r"],
    w_v: Float[Tensor, "... d_model d_v"],
) -> tuple[Float[Tensor, "... N d_r"], Float[Tensor, "... N d_r"], Float[Tensor, "... N d_v"]]:
    r"""Project tokens to queries, keys and values, Eq. (4).

    .. math:: Q_X = X W_Q, \quad K_X = X W_K, \quad V_X = X W_V

    Parameters
    ----------
    x : Tensor, (..., N, d_model)
        Token representations.
    w_q, w_k : Tensor, (..., d_model, d_r)
    w_v : Tensor, (..., d_model, d_v)
        One set per head is ``(H, d_model, width)``, with `x` as ``(..., 1, N, d_model)``.

    Returns
    -------
    q, k : Tensor, (..., N, d_r)
    v : Tensor, (..., N, d_v)
        In float32 at least.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    Source: Huang & Raza (2026), Eq. (4).
    """
    return x @ w_q, x @ w_k, x @ w_v


@accepts(gamma_q="N_q K", gamma_k="N_k K")
def affinity(gamma_q: Float[Tensor, "... N_q K"], gamma_k: Float[Tensor, "... N_k K"]) -> Float[Tensor, "... N_q N_k"]:
    r"""Overlap of each query's responsibilities with each key's, Eq. (11).

    .. math:: \tilde A = \Gamma^Q(\Gamma^K)^\top, \qquad \tilde A_{ij} = \langle\gamma^Q_i,\gamma^K_j\rangle

    Parameters
    ----------
    gamma_q : Tensor, (..., N_q, K)
    gamma_k : Tensor, (..., N_k, K)

    Returns
    -------
    Tensor, (..., N_q, N_k)
        Between 0 and 1; the probability that query and key have drawn the same component.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape or device.

    Notes
    -----
    For interpretation: it has N_q · N_k entries. Source: Huang & Raza (2026), Eq. (11).
    """
    return gamma_q @ gamma_k.mT


@accepts(gamma_q="N_q K", gamma_k="N_k K", key_mask="gamma_k")
def attention_weights(
    gamma_q: Float[Tensor, "... N_q K"],
    gamma_k: Float[Tensor, "... N_k K"],
    *,
    causal: bool = False,
    eps: float = 1e-6,
    key_mask: Bool[Tensor, "... N_k"] | None = None,
) -> Float[Tensor, "... N_q N_k"]:
    r"""Return the weights that GMA implies, Eq. (9), and causally (9b).

    .. math:: A_{ij} = \tilde A_{ij} / \bigl(\textstyle\sum_\ell \tilde A_{i\ell} + \epsilon\bigr)

    The sum runs over all keys that take part; causally over :math:`\ell \le i`, and :math:`A_{ij} = 0` for j > i.

    Parameters
    ----------
    gamma_q : Tensor, (..., N_q, K)
    gamma_k : Tensor, (..., N_k, K)
    causal : bool
        Needs N_q = N_k.
    eps : float
        Added to the denominator; finite and at least 0.
    key_mask : Tensor of bool, (N_k,) or one axis fewer than `gamma_k`, optional
        True: this key takes part.

    Returns
    -------
    Tensor, (..., N_q, N_k)
        Rows sum to d'/(d' + ε) with d' the row sum of the affinity; a row that no key reaches is 0.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape, device or range.

    Notes
    -----
    For interpretation: it has N_q · N_k entries, and GMA never makes it. Source: Huang & Raza (2026), Eq. (9); the
    number (9b) is inferred.
    """
    weights = affinity(gamma_q, keep(key_mask, gamma_k))
    if causal:
        past = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).tril()
        weights = torch.where(past, weights, 0)
    return ratio(weights, weights.sum(dim=-1, keepdim=True) + eps)


@accepts(q="N_q d_r", k="N_k d_r", v="N_k d_v", mixture=GaussianMixture, key_mask="k", state=Memory, promote=False)
def gaussian_mixture_attention(
    q: Float[Tensor, "... N_q d_r"],
    k: Float[Tensor, "... N_k d_r"],
    v: Float[Tensor, "... N_k d_v"],
    mixture: GaussianMixture,
    *,
    causal: bool = False,
    eps: float = 1e-6,
    key_mask: Bool[Tensor, "... N_k"] | None = None,
    state: Memory | None = None,
    return_state: bool = False,
    implementation: Literal["auto", "naive", "blocked", "native", "triton"] = "auto",
) -> Float[Tensor, "... N_q d_v"] | tuple[Float[Tensor, "... N_q d_v"], Memory]:
    r"""Gaussian Mixture Attention: Eq. (7), or causally Eq. (8b).

    .. math::
        O = \frac{\Gamma^Q (\Gamma^K)^\top V_X}{\Gamma^Q (\Gamma^K)^\top \mathbf 1_N + \epsilon}, \qquad
        \Gamma^Q = \Gamma(Q_X), \quad \Gamma^K = \Gamma(K_X)

    Parameters
    ----------
    q : Tensor, (..., N_q, d_r)
        Queries :math:`Q_X`.
    k : Tensor, (..., N_k, d_r)
        Keys :math:`K_X`, routed by the same mixture.
    v : Tensor, (..., N_k, d_v)
        Values :math:`V_X`.
    mixture : GaussianMixture
        One for all heads, or one per head as ``(H, K, d_r)``; leading axes broadcast.
    causal : bool
        Token i reads what tokens j ≤ i wrote; needs N_q = N_k.
    eps : float
        Added to the denominator; finite and at least 0.
    key_mask : Tensor of bool, (N_k,) or one axis fewer than `k`, optional
        True: this key takes part, as in PyTorch's SDPA and opposite to the ``key_padding_mask`` of
        `torch.nn.MultiheadAttention`. Masked keys write nothing, even where they hold NaN.
    state : Memory, optional
        What has been written before: causally by the tokens before the first, else by other keys. It is not changed.
    return_state : bool
        Return also the memory after all keys, to continue from.
    implementation : {"auto", "naive", "blocked", "native"}
        ``"naive"`` is the equations as written, with tensors of N·K·d_r and causally N·K·d_v numbers, and derivatives
        of any order. ``"blocked"`` keeps nothing of size N·K; ``"native"`` is that in C, for float32 on the CPU, once
        compiled by `gma_ref.pytorch.native.build`. ``"auto"`` chooses among what is there.

    Returns
    -------
    output : Tensor, (..., N_q, d_v)
        In the dtype of `v`; scores and sums are taken in float32 at least. A row that no key reaches is 0; a query that
        holds NaN has a row of NaN in any case.
    state : Memory
        If asked for, with the leading axes of the output, in the widest dtype of scores and `state`, float32 at least:
        a state in float64 keeps the sums in float64, whatever the tokens are.

    Raises
    ------
    TypeError, ValueError
        If an argument has another dtype, shape, device or range.

    Notes
    -----
    Causally, changing a token changes no earlier output by a bit, and a token that is not finite reaches its own and
    later positions alone. A query whose upstream gradient is 0 sends nothing backwards, whatever it holds. Autocast has
    no effect on the forward pass. Source: Huang & Raza (2026), Eqs. (7) and (8b).
    """
    attend = choose(implementation)
    parameters = mixture.mu, mixture.variance, mixture.log_prior
    output, *memory = attend(q, k, v, *parameters, causal=causal, eps=eps, key_mask=key_mask, state=state)
    output = output.to(v.dtype)
    if not return_state:
        return output
    (V_tilde, Z), batch = memory, output.shape[:-2]
    return output, Memory(V_tilde.expand(*batch, *V_tilde.shape[-2:]), Z.expand(*batch, *Z.shape[-1:]))
