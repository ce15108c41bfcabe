"""Rows that a mask leaves out, quotients of nothing, and the dtype to compute in."""

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
