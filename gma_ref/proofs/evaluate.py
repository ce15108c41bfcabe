"""Numbers for the formulas of a proof, so that they can be compared with what the package computes."""

from itertools import product

import numpy as np
from sympy import Dummy, IndexedBase, Product, Sum, Symbol, exp, lambdify, log, sympify

from .symbols import RANGE, unfold

MARKS = {
    "KroneckerDelta": lambda one, other: one == other,
    "Apart": lambda one, other: one != other,
    "UpTo": lambda one, other: one <= other,
}


class FromOne:
    """An array whose indices count from 1, as in the formulas."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __getitem__(self, place):
        return self.values[tuple(index - 1 for index in place) if isinstance(place, tuple) else place - 1]


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
    whole = whole.replace(Product, lambda body, *limits: exp(Sum(log(body), *limits)))  # lambdify knows no Product
    known = sizes | {symbol: scalars[symbol.name] for symbol in whole.free_symbols if symbol.name in scalars}
    bases = {base: IndexedBase(f"array{number}") for number, base in enumerate(whole.atoms(IndexedBase))}
    plain = {dummy: Symbol(f"index{number}", integer=True) for number, dummy in enumerate(whole.atoms(Dummy))}
    names = [plain.get(index, index) for index in over]
    function = lambdify([*names, *known, *bases.values()], whole.xreplace(bases | plain), modules=[MARKS, "math"])
    given = [*known.values(), *(FromOne(arrays[base]) for base in bases)]
    axes = [sizes[RANGE[index]] for index in over]
    values = np.empty(axes)
    for place in product(*map(range, axes)):
        values[place] = function(*(index + 1 for index in place), *given)
    return values
