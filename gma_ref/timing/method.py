"""What a method is: something to time as its users call it, with the slow form that it must agree with."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

__all__ = ["Method", "Prepared", "calls"]


@dataclass(frozen=True)
class Prepared:
    """A method with its inputs, ready to be called.

    Attributes
    ----------
    leaves : dict of str to Tensor
        What gradients are taken for. The first of them is changed before the check, to see that the call reads it.
    forward : callable
        Gives the output from the leaves.
    slow : callable
        ``slow(leaves, rows)``: the same, by the slow form, at some rows, from leaves in float64.
    upstream : Tensor or None
        The gradient of the output, for training.
    variant : str or None
        Which of several ways to call it was found the fastest.
    """

    leaves: dict
    forward: Callable
    slow: Callable
    upstream: torch.Tensor | None = None
    variant: str | None = None

    def __post_init__(self):
        for leaf in self.leaves.values():
            leaf.requires_grad_()


@dataclass(frozen=True)
class Method:
    """Something to time.

    Attributes
    ----------
    name, title : str
        In files, and in tables and figures.
    includes : str
        What a figure of it covers.
    prepare : callable
        ``prepare(inputs, causal, training)`` returns a `Prepared`.
    workspace : callable
        ``workspace(problem, causal, training)``: bytes that a call takes, about, beside its inputs.
    growth : int
        The power of N with which its time grows.
    causal : tuple of bool
        Which forms it has.
    trains : bool
        Whether it has a backward pass.
    rows : callable
        ``rows(N)``: positions at which it is checked on long inputs.
    any_row : bool
        Whether positions that are drawn for the occasion come to these.
    checked_at : int
        Tokens for which all its gradients are checked; more than two blocks of a method that goes by blocks.
    same_as : str or None
        Another method with the same slow form for the same inputs, which then serves both.
    swept : bool
        Whether it is an attention function or a block, to be timed at every length.
    missing : str or None
        Why it cannot be measured here.
    refuses : callable
        ``refuses(problem)``: why it does not take a problem, or None.
    """

    name: str
    title: str
    includes: str
    prepare: Callable
    workspace: Callable
    growth: int = 1
    causal: tuple = (False, True)
    trains: bool = True
    rows: Callable = field(default=lambda tokens: sorted({0, 1, tokens // 3, tokens // 2, tokens - 2, tokens - 1}))
    any_row: bool = True
    checked_at: int = 1_100
    same_as: str | None = None
    swept: bool = True
    missing: str | None = None
    refuses: Callable = field(default=lambda problem: None)


def calls(prepared, training):
    """Return the callable to be timed: the output without gradients, or the output and all gradients."""
    leaves = tuple(prepared.leaves.values())

    def forward():
        with torch.no_grad():
            return prepared.forward()

    def forward_and_backward():
        output = prepared.forward()
        return output, *torch.autograd.grad(output, leaves, prepared.upstream)

    return forward_and_backward if training else forward
