"""Every call is compared with a slow form of itself before it is timed: a wrong result is not worth a time."""

import random
from contextlib import contextmanager

import torch

from .inputs import Inputs
from .method import calls

__all__ = ["WrongResultError", "altered", "check_call", "check_gradients", "slow_rows"]

# Of the largest entry; the slow form is in float64, and a peer may keep a few of its parameters in float32
ALLOWED = {"float64": 1e-6, "float32": 5e-4, "bfloat16": 1e-1, "float16": 2e-2}


class WrongResultError(ArithmeticError):
    """What was to be timed does not give what its slow form gives."""


def slow_rows(method, prepared, problem):
    """Return the rows at which a method is checked on a problem, and what the slow form gives there.

    Six are drawn anew each time, after the method was prepared: it cannot know them.
    """
    rows = {row for row in method.rows(problem.tokens) if row >= 0}
    if method.any_row:
        rows.update(random.SystemRandom().sample(range(problem.tokens), min(6, problem.tokens)))
    rows = torch.tensor(sorted(rows), device=problem.device)
    with torch.no_grad():
        return rows, prepared.slow(_wide(prepared.leaves), rows)


@contextmanager
def altered(prepared):
    """Change the first input in place, for a while: what a call keeps from then is not the result for its inputs."""
    leaf = next(iter(prepared.leaves.values()))
    before = leaf.detach().clone()
    with torch.no_grad():
        leaf.mul_(-0.5)
    try:
        yield
    finally:
        with torch.no_grad():
            leaf.copy_(before)


def check_call(method, output, problem, causal, training, rows, expected):
    """Compare an output, at some rows, with the slow form; return an entry for the record.

    Parameters
    ----------
    method : Method
    output : Tensor
        What the call to be timed returned, on the inputs on which it will be timed.
    problem : Problem
    causal, training : bool
    rows, expected : Tensor
        From `slow_rows`.

    Returns
    -------
    dict

    Raises
    ------
    WrongResultError
        If they differ by more than rounding, or the output is not finite.
    """
    at_rows = output if output.shape == expected.shape else output[..., rows, :]
    return _compare(method, problem, causal, training, "output", at_rows, expected)


def check_gradients(method, problem, causal):
    """Compare output and all gradients of a method, at every row of a small problem, with the slow form's.

    Returns
    -------
    list of dict
        One entry for each gradient.

    Raises
    ------
    WrongResultError
        If one differs by more than rounding, or is not finite.
    """
    prepared = method.prepare(Inputs(problem), causal, True)
    call = calls(prepared, training=True)
    with altered(prepared):
        call()
    output, *gradients = call()
    wide = {name: leaf.requires_grad_() for name, leaf in _wide(prepared.leaves).items()}
    expected = prepared.slow(wide, torch.arange(problem.tokens, device=output.device))
    expected_gradients = torch.autograd.grad(expected, tuple(wide.values()), prepared.upstream.double())
    found = [_compare(method, problem, causal, True, "output", output, expected)]
    for name, gradient, right in zip(wide, gradients, expected_gradients, strict=True):
        found.append(_compare(method, problem, causal, True, f"gradient of {name}", gradient, right))
    return found


def _wide(leaves):
    """Return the leaves in float64, apart from the graph."""
    return {name: leaf.detach().double() for name, leaf in leaves.items()}


def _compare(method, problem, causal, training, what, given, expected):
    """Return an entry with the largest difference over the largest entry, or raise WrongResultError."""
    error = ((given.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()
    allowed = ALLOWED[problem.dtype]
    if not error <= allowed:  # also where it is NaN
        form = "causal" if causal else "bidirectional"
        raise WrongResultError(
            f"{method.title}, {form}, N = {problem.tokens}: {what} differs from the slow form by {error:.1e} of its "
            f"largest entry, allowed is {allowed:.0e}"
        )
    return {
        "method": method.name,
        "causal": causal,
        "training": training,
        "tokens": problem.tokens,
        "heads": problem.heads,
        "what": what,
        "error": error,
        "allowed": allowed,
    }
