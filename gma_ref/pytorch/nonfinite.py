"""What is not finite, taken out of the sums and given back to what it reaches.

In a sum of products, 0 times NaN is NaN: a token would reach outputs that do not see it, and a loss that leaves an
output out would still send NaN backwards. So the sums run over finite numbers, and the rest travels beside them.
"""

import torch

from .numerics import keep


def finite_rows(tensor):
    """Tell which rows of a tensor (..., N, width) are finite."""
    return torch.isfinite(tensor).all(dim=-1)


def split(tensor):
    """Return the finite part of a tensor, and the rest of it, each with 0 in the place of the other."""
    finite = torch.isfinite(tensor)
    return torch.where(finite, tensor, 0), torch.where(finite, 0, tensor.detach())


def rest_of_tokens(rest_v, lost, causal):
    """Return what is not finite of the values, summed over the tokens; a lost key, which is not finite, makes it NaN.

    Sums are (..., N, d_v) causally, those of the tokens up to each, and else (..., 1, d_v).
    """
    rest = keep(~lost, rest_v, torch.nan)
    return rest.cumsum(dim=-2) if causal else rest.sum(dim=-2, keepdim=True)


def give_back(result, rest):
    """Return the result, and `rest` in its place wherever that is not finite.

    Backwards, a gradient of 0 stays 0 there, and any other becomes NaN: what a loss leaves out sends nothing back, and
    what it takes in is seen to be wrong.
    """
    if not result.requires_grad:
        return torch.where(torch.isfinite(rest), result, rest)
    function = _GiveBack if torch.compiler.is_compiling() else _GiveBackBothWays
    return function.apply(result, rest.expand(result.shape))


class _GiveBack(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(result, rest):
        return torch.where(torch.isfinite(rest), result, rest)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, rest = inputs
        ctx.save_for_backward(rest)
        ctx.save_for_forward(rest)  # for jvp, below

    @staticmethod
    def backward(ctx, upstream):
        (rest,) = ctx.saved_tensors
        return _poisoned(upstream, rest), None


class _GiveBackBothWays(_GiveBack):
    """The same with a forward derivative, which PyTorch's compiler refuses to look at."""

    @staticmethod
    def jvp(ctx, tangent, _):
        (rest,) = ctx.saved_tensors
        return _poisoned(tangent, rest)


def _poisoned(gradient, rest):
    return torch.where(torch.isfinite(rest) | (gradient == 0), gradient, torch.nan)
