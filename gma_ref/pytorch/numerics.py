"""Rows that a mask leaves out, and quotients of nothing."""

import torch


def keep(mask, tensor, otherwise=0):
    """Return `tensor` (..., N, width) with the rows outside the mask set to `otherwise`, whatever they held."""
    return tensor if mask is None else torch.where(mask[..., None], tensor, otherwise)


def ratio(numerator, denominator):
    """Quotient, and 0 with gradients of 0 where the denominator is 0: of nothing there is no share."""
    reached = denominator != 0
    quotient = numerator / torch.where(reached, denominator, 1)
    return torch.where(reached, quotient, 0)
