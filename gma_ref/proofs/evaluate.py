"""Numbers for the formulas of a proof, so that they can be compared with what the package computes."""

from itertools import product

import numpy as np
from sympy import Dummy, Indexed, lambdify, sympify

from .symbols import RANGE, unfold


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
    names = {symbol: scalars[symbol.name] for symbol in whole.free_symbols if symbol.name in scalars}
    whole = whole.subs(sizes).doit().subs(names)
    axes = [sizes[RANGE[index]] for index in over]
    values = np.empty(axes)
    for place in product(*map(range, axes)):
        one = whole.subs({index: number + 1 for index, number in zip(over, place, strict=True)}).doit()
        entries = {entry: Dummy() for entry in one.atoms(Indexed)}
        given = [arrays[entry.base][tuple(int(number) - 1 for number in entry.indices)] for entry in entries]
        values[place] = lambdify(list(entries.values()), one.xreplace(entries))(*given)
    return values
