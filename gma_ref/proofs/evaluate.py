"""Numbers for the formulas of a proof, so that they can be compared with what the package computes."""

import math
from itertools import product

import numpy as np
from sympy import Add, Indexed, KroneckerDelta, Mul, Pow, Product, Sum, exp, log, sympify

from .symbols import RANGE, Apart, UpTo, unfold

RULES = {
    Add: lambda *parts: math.fsum(parts),
    Mul: lambda *parts: math.prod(parts),
    Pow: lambda base, power: base**power,
    exp: math.exp,
    log: math.log,
    KroneckerDelta: lambda one, other: float(one == other),
    Apart: lambda one, other: float(one != other),
    UpTo: lambda one, other: float(one <= other),
}


def evaluate(expression, over, sizes, arrays, definitions=(), **scalars):
    """Evaluate a formula for every value of its free indices.

    Parameters
    ----------
    expression : sympy.Expr
        One side of a step.
    over : sequence of sympy.Symbol
        Its free indices, one axis of the result each.
    sizes : dict
        A number for each size: ``{K: 3, N: 2}``.
    arrays : dict
        A NumPy array for each array of the formula: ``{gamma: ...}``.
    definitions : sequence of Definition
        Put in first.
    **scalars
        A number for each scalar symbol, by its name.

    Returns
    -------
    ndarray
    """
    whole = unfold(sympify(expression), definitions)
    known = sizes | {symbol: scalars[symbol.name] for symbol in whole.free_symbols if symbol.name in scalars}
    axes = [sizes[RANGE[index]] for index in over]
    values = np.empty(axes)
    for place in product(*map(range, axes)):
        values[place] = number(whole, known | {index: at + 1 for index, at in zip(over, place, strict=True)}, arrays)
    return values


def number(node, known, arrays):
    """Return the value of an expression, given those of its symbols and arrays."""
    if node in known:
        return known[node]
    if node.is_number:
        return int(node) if node.is_Integer else float(node)
    if isinstance(node, Indexed):
        return arrays[node.base][tuple(number(index, known, arrays) - 1 for index in node.indices)]
    if isinstance(node, Sum | Product):
        body, *inner, (index, _, size) = node.args
        rest = node.func(body, *inner) if inner else body
        parts = [number(rest, known | {index: at}, arrays) for at in range(1, number(size, known, arrays) + 1)]
        return RULES[Add if isinstance(node, Sum) else Mul](*parts)
    return RULES[node.func](*(number(part, known, arrays) for part in node.args))
