"""Rows that a mask leaves out, quotients of nothing, and the precision to compute in."""

import contextlib

import torch


def keep(mask, tensor, otherwise=0):
    """Return `tensor` (..., N, width) with the rows outside the mask set to `otherwise`, whatever they held."""
    return tensor if mask is None else torch.where(mask[..., None], tensor, otherwise)


def ratio(numerator, denominator):
    """Quotient, and 0 with gradients of 0 where the denominator is 0: of nothing there is no share."""
    reached = denominator != 0
    quotient = numerator / torch.where(reached, denominator, 1)
    return torch.where(reached, quotient, 0)


def compute_dtype(*tensors):
    """Return the dtype of scores and sums: float32, or float64 where a tensor has it."""
    return torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32


@contextlib.contextmanager
def full_precision(device):
    """Take products as written: no autocast to 16 bits and, on CUDA, no TF32."""
    with contextlib.ExitStack() as stack:
        if torch.is_autocast_enabled(device.type):
            stack.enter_context(torch.autocast(device.type, enabled=False))
        if device.type == "cuda":
            stack.enter_context(without_tf32(torch.backends.cuda.matmul))
        yield


@contextlib.contextmanager
def without_tf32(flags):
    """Turn TF32 off in products, whichever of PyTorch's switches has turned it on."""
    try:
        name, off, before = "allow_tf32", False, flags.allow_tf32
    except RuntimeError:  # the caller has set the newer switch; PyTorch refuses the older where the two disagree
        name, off, before = "fp32_precision", "ieee", flags.fp32_precision
    if before == off:  # not even set again: set, it would no longer follow the flag for all backends
        yield
        return
    setattr(flags, name, off)
    try:
        yield
    finally:
        setattr(flags, name, before)
