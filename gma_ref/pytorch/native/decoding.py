"""One token of each sequence by the C program, without gradients: `step.c`."""

import functools
import struct
from math import prod

import torch

from .library import NO_MEMORY, built

FLOAT32 = {torch.float32}
STEP = struct.Struct("5qd11P")  # `Step` of `step.c`: five sizes, eps, and the addresses of eleven arrays


def step(q, k, v, mu, variance, log_prior, state, eps):
    """Return output, V_tilde and Z of one query and one key a sequence, or None where the program does not do it.

    It does tensors in float32 without axes to broadcast but for those that lead before the mixture's.
    """
    function = step_function()
    if function is None:
        return None
    sizes, shapes = layout(q.shape, mu.shape, v.shape[-1])
    given = (q, k, v, mu, variance, log_prior, *(state or ()))
    if [tensor.shape for tensor in given] != shapes[: len(given)] or {tensor.dtype for tensor in given} != FLOAT32:
        return None
    given = [tensor.contiguous() for tensor in given]
    made = [q.new_empty(shape) for shape in (shapes[2], *shapes[6:])]
    addresses = [tensor.data_ptr() for tensor in given] + ([] if state else [0, 0])
    told = function(STEP.pack(*sizes, eps, *addresses, *[tensor.data_ptr() for tensor in made]))
    if told == NO_MEMORY:
        raise MemoryError("gma_step found no memory for its buffers")
    return made if told == 0 else None


@functools.lru_cache
def layout(of_q, of_mu, d_v):
    """Return the sizes, and the shapes that queries, keys, values, the mixture's tensors and the memory's must have."""
    (*batch, _, d_r), (*heads, K, _) = of_q, of_mu
    heads = batch[max(0, len(batch) - len(heads)) :] if heads else []  # those of the tokens, whatever the mixture has
    token, mixture = torch.Size([*batch, 1, d_r]), torch.Size([*heads, K, d_r])
    memory = torch.Size([*batch, K, d_v])
    shapes = [token, token, torch.Size([*batch, 1, d_v]), mixture, mixture, mixture[:-1], memory, memory[:-1]]
    return (prod(batch), prod(heads), d_r, K, d_v), shapes


def step_function():
    """Return the function of the program, or None while it has not been built."""
    library = built()
    return None if library is None else library.gma_step
