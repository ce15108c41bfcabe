"""The two passes of the blocked form by the C program: what it gets, and in which steps it works.

Sequences are divided into ranges of tokens for the threads. Each range has a memory of its own, or a gradient of one;
between two steps they are summed here, by NumPy: all of them, or causally those before (backwards: after) each range.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional

from ..blocked_pieces import CHUNK, block_length
from ..quadratic import Expanded
from .library import NOT_FINITE, Array, Call, built, require_built, run

TILE = 32  # `T` of vectors.h; blocks have whole tiles
RANGE = 4096  # tokens of a range
LEAST = -87.0  # the logarithm of the smallest normal number
ROWS = 8  # K and the length of the features are padded to a multiple of it


def check(tensors):
    """Refuse tensors that the program is not made for, and say why; whether it is there is not asked by a compiler."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.device.type != "cpu":
            raise ValueError(f'{name} must be on the CPU for implementation="native", got a tensor on {tensor.device}')
        if tensor is not None and tensor.dtype != torch.float32:
            raise TypeError(f'{name} must be float32 for implementation="native", got {tensor.dtype}')
    if not torch.compiler.is_compiling():
        require_built()


def serves(program, form, dtype, *tensors):
    """Tell whether the program is to be used: asked for, built, and made for tensors in float32 on the CPU.

    Where scores have to be taken by differences, or something is empty, eager mode does it, whatever was asked for.
    """
    if program == "eager":
        return False
    if program == "native":
        require_built()
    if built() is None or dtype != torch.float32 or not isinstance(form, Expanded):
        return False
    if block_length(form.mu.shape[-2], causal=True) % TILE:
        return False
    given = [tensor for tensor in tensors if tensor is not None]
    return all(t.device.type == "cpu" and t.dtype == torch.float32 and t.numel() for t in given)


def with_rows(tensor):
    """Return a tensor whose rows are contiguous: itself, or a copy."""
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


class Plan:
    """A call of the program: its description, and the tensors that it points to."""

    def __init__(self, form, q, k, v, key_mask, causal, eps):
        (G, S, N_q, d_r), N_k, (K, d_v) = q.shape, k.shape[2], (form.mu.shape[-2], v.shape[-1])
        length, block = max(N_q, N_k), block_length(K, causal=True)
        self.ranges, self.range = 1, length
        self.suffix = "_precise" if form.mu.dtype == torch.float64 else ""
        if not causal or torch.get_num_threads() > G * S:
            self.range = -(-RANGE // block) * block
            self.ranges = -(-length // self.range)
        self.causal, self.tasks, self.kept = causal, G * S * self.ranges, []
        weights = form.by_linear if form.by_square is None else torch.cat([form.by_linear, form.by_square], dim=1)
        weights = functional.pad(weights, (0, -K % ROWS, 0, -weights.shape[1] % ROWS))
        self.call = Call(
            S=S, N_q=N_q, N_k=N_k, d_r=d_r, K=K, d_v=d_v, squares=form.by_square is not None, causal=causal,
            ranges=self.ranges, range=self.range, block=block, whole=N_q - N_q % CHUNK, eps=eps,
            cut=max(LEAST, math.log(form.least)) if form.least else LEAST,
            q=self.tokens(q), k=self.tokens(k), v=self.tokens(v),
            mask=self.array(key_mask), centre=self.array(form.centre), weights=self.array(weights),
            offset=self.array(functional.pad(form.offset, (0, -K % ROWS), value=-torch.inf)),
        )  # fmt: skip
        self.memories = lambda: np.zeros((G, S, self.ranges, K + 1, d_v + 1), np.float32)

    def tokens(self, tensor):
        """Describe a tensor (G, S, tokens, width)."""
        self.kept.append(with_rows(tensor))
        return Array.of(self.kept[-1])

    def array(self, tensor):
        """Return the address of a tensor, made contiguous, or None."""
        if tensor is None:
            return None
        self.kept.append(tensor.contiguous())
        return self.kept[-1].data_ptr()

    def run(self, step):
        """Run a step; tell whether it met something that is not finite."""
        return bool(run(step + self.suffix, self.call, self.tasks) & NOT_FINITE)


def side_by_side(memories, V_tilde, Z):
    """Return a memory as the program has it: K + 1 rows of V and Z, the last for what is not finite of the values."""
    memory = np.zeros_like(memories[:, :, :1])
    for room, given in ((memory[:, :, 0, :-1, :-1], V_tilde), (memory[:, :, 0, :-1, -1], Z)):
        if given is not None:
            room[:] = given.numpy()
    return memory


def forward(form, q, k, v, key_mask, V_tilde, Z, causal, eps, output, V_tilde_out, Z_out, reach, starts):
    """Fill the results of the forward pass, as `blocked_forward.forward` does."""
    plan = Plan(form, q, k, v, key_mask, causal, eps)
    call, memory = plan.call, plan.memories()
    call.output, call.memory, call.reach = Array.of(output), memory.ctypes.data, reach.data_ptr()
    if causal:
        call.starts, call.pieces = starts.data_ptr(), starts.shape[2]
        starts[:, :, -2:] = 0
    if plan.ranges > 1 or not causal:
        plan.run("gma_write")
    before = side_by_side(memory, V_tilde, Z)
    if plan.ranges == 1 and causal:
        memory[:] = before
    elif causal:
        memory[:] = np.cumsum(np.concatenate([before, memory[:, :, :-1]], axis=2), axis=2)
    else:
        memory[:] = memory.sum(2, keepdims=True) + before
    plan.run("gma_read_causal" if causal else "gma_read")
    after = memory[:, :, -1]
    np.add(after[:, :, :-1, :-1], after[:, :, -1:, :-1], out=V_tilde_out.numpy())
    Z_out.numpy()[:] = after[:, :, :-1, -1]


def backward(
    form, q, k, v, key_mask, causal, V_tilde_out, Z_out, output, reach, starts, upstream, V_tilde_bar, Z_bar, gradients
):
    """Fill the gradients of q, k, v and of the state, and add those of the mixture to `form`; False if it cannot."""
    plan = Plan(form, q, k, v, key_mask, causal, 0)
    call, memory, memory_bar = plan.call, plan.memories(), plan.memories()
    (G, S, _, d_r), K = q.shape, form.mu.shape[-2]
    mixture_bar = np.zeros((G, S * plan.ranges, K, 2 * d_r + 1), form.mu.numpy().dtype)
    made = [with_rows(gradient) for gradient in gradients[:3]]
    call.q_bar, call.k_bar, call.v_bar = (plan.tokens(gradient) for gradient in made)
    call.output, call.upstream = plan.tokens(output), plan.tokens(upstream)
    call.memory, call.memory_bar, call.mixture_bar = (a.ctypes.data for a in (memory, memory_bar, mixture_bar))
    call.reach, call.starts, call.pieces = reach.data_ptr(), starts.data_ptr(), starts.shape[2]
    if not causal:
        memory[:] = side_by_side(memory, V_tilde_out, Z_out)
    not_finite = (plan.ranges > 1 or not causal) and plan.run("gma_queries_back")
    after = side_by_side(memory_bar, V_tilde_bar, Z_bar)
    if plan.ranges == 1 and causal:
        memory_bar[:] = after
    elif causal:
        from_the_end = np.concatenate([memory_bar[:, :, 1:], after], axis=2)[:, :, ::-1]
        memory_bar[:] = np.cumsum(from_the_end, axis=2)[:, :, ::-1]
    else:
        memory_bar[:] = memory_bar.sum(2, keepdims=True) + after
    if not_finite or plan.run("gma_back_causal" if causal else "gma_keys_back"):
        return False
    for gradient, filled in zip(gradients, made, strict=False):
        if filled is not gradient:
            gradient.copy_(filled)
    if gradients[6].numel():
        gradients[6].numpy()[:] = memory_bar[:, :, 0, :-1, :-1]
        gradients[7].numpy()[:] = memory_bar[:, :, 0, :-1, -1]
    linear, squares, total = torch.from_numpy(mixture_bar.sum(1)).mT.split([d_r, d_r, 1], dim=1)
    form.linear += linear
    form.squares += squares
    form.total += total
    return True
