"""Gaussian Mixture Attention in blocks that stay in cache, with a backward pass that recomputes them."""

from __future__ import annotations

import torch

from . import blocked_backward, blocked_forward
from .grouping import Grouping, broadcast_leading

SECOND_DERIVATIVE = (
    "implementation='blocked' has first derivatives only: its backward pass is written by hand. "
    "For second derivatives use implementation='naive'"
)


def blocked_attention(q, k, v, mu, variance, log_prior, *, causal, eps, key_mask=None, state=None):
    """Return the output and the memory after the last key; see `gaussian_mixture_attention`.

    Parameters
    ----------
    q, k, v : tensor, (..., N_q, d_r), (..., N_k, d_r), (..., N_k, d_v)
    mu, variance, log_prior : tensor, (..., K, d_r), (..., K, d_r), (..., K)
    causal : bool
    eps : float
    key_mask : tensor of bool, (..., N_k), or None
    state : (V_tilde, Z), (..., K, d_v) and (..., K), or None

    Returns
    -------
    output : tensor, (..., N_q, d_v)
        In the dtype of `v`.
    V_tilde, Z : tensor, (..., K, d_v) and (..., K)
        In float32 at least, or in the dtype of the state. All three have the leading axes of all arguments together.
    """
    V_tilde, Z = (None, None) if state is None else state
    tokens = {"q": (q, 2), "k": (k, 2), "v": (v, 2), "mask": (key_mask, 1), "V_tilde": (V_tilde, 2), "Z": (Z, 1)}
    mixture = (mu, 2), (variance, 2), (log_prior, 1)
    mixture_axes = broadcast_leading(*mixture)
    batch = torch.broadcast_shapes(mixture_axes, broadcast_leading(*tokens.values()))
    grouping = Grouping(batch, mixture_axes)
    q, k, v, key_mask, V_tilde, Z = (grouping.gather(*pair) for pair in tokens.values())
    mixture = (grouping.gather_mixture(*pair) for pair in mixture)
    results = blocked_op(q, k, v, *mixture, key_mask, V_tilde, Z, causal, eps)
    return tuple(grouping.scatter(result) for result in results[:3])


ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor mu, Tensor variance, Tensor log_prior, "
    "Tensor? key_mask, Tensor? V_tilde, Tensor? Z, bool causal, float eps"
)
RESULTS = "Tensor output, Tensor V_tilde_out, Tensor Z_out, Tensor reach, Tensor starts"
UPSTREAM = "Tensor upstream, Tensor? V_tilde_bar, Tensor? Z_bar"

# Each pass is one operation, into which neither autograd nor a compiler looks.
blocked_op = torch.library.custom_op(
    "gma_ref::blocked",
    blocked_forward.forward,
    mutates_args=(),
    schema=f"({ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
blocked_backward_op = torch.library.custom_op(
    "gma_ref::blocked_backward",
    blocked_backward.backward,
    mutates_args=(),
    schema=f"({ARGUMENTS}, {RESULTS}, {UPSTREAM}) -> Tensor[]",
)


@blocked_op.register_fake
def _(q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, causal, eps):
    dtype = blocked_forward.compute_dtype(q, k, v, mu, variance, log_prior)
    return blocked_forward.empty_results(q, v, mu.shape[-2], (V_tilde, Z), dtype, causal)


@blocked_backward_op.register_fake
def _(q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, *others):
    return blocked_backward.empty_gradients(q, k, v, mu, variance, log_prior, V_tilde, Z)


def keep_for_backward(ctx, inputs, output):
    """Save what the backward pass starts from: the arguments, the results, and a memory per block."""
    *tensors, ctx.causal, ctx.eps = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def backward_of_blocked(ctx, upstream, V_tilde_bar, Z_bar, *_):
    """Call the backward pass, and leave out the gradients of what was not given."""
    tensors, results = ctx.saved_tensors[:9], ctx.saved_tensors[9:]
    if upstream is None:
        upstream = torch.zeros_like(results[0])
    gradients = blocked_backward_op(*tensors, ctx.causal, ctx.eps, *results, upstream, V_tilde_bar, Z_bar)
    q, k, v, mu, variance, log_prior, V_tilde, Z = gradients
    state = (None, None) if tensors[7] is None else (V_tilde, Z)
    return q, k, v, mu, variance, log_prior, None, *state, None, None


def refuse_second_derivative(ctx, *_):
    """Say that the backward pass has no backward pass."""
    raise NotImplementedError(SECOND_DERIVATIVE)


blocked_op.register_autograd(backward_of_blocked, setup_context=keep_for_backward)
blocked_backward_op.register_autograd(refuse_second_derivative)
