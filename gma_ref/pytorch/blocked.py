"""Gaussian Mixture Attention in blocks that stay in cache, with a backward pass that recomputes them."""

from __future__ import annotations

from functools import reduce

import torch

from . import blocked_backward, blocked_forward
from .checks import broadcast
from .derivatives import none_wanted
from .grouping import Grouping, leading_axes
from .numerics import compute_dtype

SECOND_DERIVATIVE = (
    "implementation='blocked' or 'native' has first derivatives only, since the backward pass is written by hand; "
    "for second derivatives use implementation='naive'"
)
REVERSE_ONLY = "implementation='blocked' or 'native' has no forward-mode derivative (jvp); use implementation='naive'"


def blocked_attention(q, k, v, mu, variance, log_prior, *, causal, eps, key_mask=None, state=None, program="eager"):
    """Return the output and the memory after the last key; see `gaussian_mixture_attention`.

    Parameters
    ----------
    q, k, v : tensor, (..., N_q, d_r), (..., N_k, d_r), (..., N_k, d_v)
    mu, variance, log_prior : tensor, (..., K, d_r), (..., K, d_r), (..., K)
    causal : bool
    eps : float
    key_mask : tensor of bool, (..., N_k), or None
    state : (V_tilde, Z), (..., K, d_v) and (..., K), or None
    program : {"eager", "native", "auto"}
        PyTorch's own operations, the program in C, or that where it is built and serves. Where it meets a mixture whose
        scores need differences, or in the backward pass something that is not finite, eager mode goes on.

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
    mixture_axes = reduce(broadcast, leading_axes(*mixture))
    grouping = Grouping(reduce(broadcast, leading_axes(*tokens.values()), mixture_axes), mixture_axes)
    q, k, v, key_mask, V_tilde, Z = (grouping.gather(*pair) for pair in tokens.values())
    mixture = (grouping.gather_mixture(*pair) for pair in mixture)
    arguments = q, k, v, *mixture, key_mask, V_tilde, Z
    if none_wanted(*arguments):  # as below, sooner
        results = blocked_op(*arguments, causal, eps, program)
    else:
        run = Blocked if torch.compiler.is_compiling() else BlockedInEagerMode
        results = run.apply(*arguments, causal, eps, program)
    return tuple(grouping.scatter(result) for result in results[:3])


ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor mu, Tensor variance, Tensor log_prior, "
    "Tensor? key_mask, Tensor? V_tilde, Tensor? Z, bool causal, float eps, str program"
)
RESULTS = "Tensor output, Tensor V_tilde_out, Tensor Z_out, Tensor reach, Tensor starts"
UPSTREAM = "Tensor upstream, Tensor? V_tilde_bar, Tensor? Z_bar"
GRADIENTS = ", ".join(8 * ["Tensor"])  # not a list of tensors, over which `is_grads_batched` could not map

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
    schema=f"({ARGUMENTS}, {RESULTS}, {UPSTREAM}) -> ({GRADIENTS})",
)


@blocked_op.register_fake
def _(q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, causal, eps, program):
    dtype = compute_dtype(q, k, v, mu, variance, log_prior)
    return blocked_forward.empty_results(q, v, mu.shape[-2], (V_tilde, Z), dtype, causal)


@blocked_backward_op.register_fake
def _(q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, *others):
    return blocked_backward.empty_gradients(q, k, v, mu, variance, log_prior, V_tilde, Z)


def batched(operation):
    """Return the rule by which `torch.vmap` runs a pass once for a whole batch: the batch becomes more groups."""

    def rule(info, in_dims, *arguments):
        def as_groups(argument, dim):
            if not torch.is_tensor(argument):
                return argument
            argument = (
                argument.movedim(dim, 0) if dim is not None else argument.expand(info.batch_size, *argument.shape)
            )
            return argument.flatten(0, 1)

        results = operation(*(as_groups(*pair) for pair in zip(arguments, in_dims, strict=True)))
        return tuple(result.unflatten(0, (info.batch_size, -1)) for result in results), (0,) * len(results)

    return rule


if hasattr(torch.library, "register_vmap"):  # since PyTorch 2.5; before, vmap runs the passes one by one
    for operation in (blocked_op, blocked_backward_op):
        torch.library.register_vmap(operation, batched(operation))


class Blocked(torch.autograd.Function):
    """The forward pass, with a backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, causal, eps, program):
        """Run the operation; a compiler, where no gradient is asked for, counts the arguments to know of no context."""
        return blocked_op(q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, causal, eps, program)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep what the backward pass starts from: the arguments, the results, and a memory per block."""
        *tensors, ctx.causal, ctx.eps, ctx.program = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.mark_non_differentiable(*output[3:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, upstream, V_tilde_bar, Z_bar, *_):
        """Return the gradients, and None for what was not given or has none."""
        saved = ctx.saved_tensors  # asked for once: checkpointing computes them anew each time
        tensors, results = saved[:9], saved[9:]
        if upstream is None:
            upstream = torch.zeros_like(results[0])
        run = blocked_backward_op if torch.compiler.is_compiling() else BlockedBackward.apply
        options = ctx.causal, ctx.eps, ctx.program
        *gradients, V_tilde, Z = run(*tensors, *options, *results, upstream, V_tilde_bar, Z_bar)
        state = (None, None) if tensors[7] is None else (V_tilde, Z)
        return *gradients, None, *state, None, None, None


class BlockedBackward(torch.autograd.Function):
    """The backward pass, which has none of its own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments):
        """Run the operation."""
        return blocked_backward_op(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep nothing."""

    @staticmethod
    def backward(ctx, *_):
        """Refuse a second derivative."""
        raise NotImplementedError(SECOND_DERIVATIVE)

    @staticmethod
    def jvp(ctx, *_):
        """Refuse a second derivative."""
        raise NotImplementedError(SECOND_DERIVATIVE)


class BlockedInEagerMode(Blocked):
    """The same with a refusal of forward-mode derivatives in words of our own, which compilers do not read."""

    @staticmethod
    def jvp(ctx, *_):
        """Refuse a derivative in forward mode."""
        raise NotImplementedError(REVERSE_ONLY)
