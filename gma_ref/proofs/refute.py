"""Numbers that refute a false statement at once, before long algebra is spent on it. They never prove one."""

import math
import random

from sympy import IndexedBase, MatrixSymbol, Sum, Symbol, lambdify
from sympy.core.function import AppliedUndef

from .evaluate import MARKS
from .symbols import RANGE

SIZES = dict(zip(dict.fromkeys(RANGE.values()), (3, 4, 2, 2, 3, 2), strict=True))


class AnyArray:
    """An array with some number at every place."""

    def __init__(self, name):
        self.name = str(name)

    def __getitem__(self, place):
        return random.Random(f"{self.name} {place}").uniform(0.5, 1.5)

    def __call__(self, *place):
        """Stand for a function as well."""
        return self[place]


def refuted(expression):
    """Tell whether the expression is plainly not zero for some numbers; False also where they cannot be put in."""
    arrays = sorted(expression.atoms(IndexedBase, MatrixSymbol), key=str)
    labels = {array.label if isinstance(array, IndexedBase) else array for array in arrays}
    scalars = sorted((one for one in expression.free_symbols if isinstance(one, Symbol) and one not in labels), key=str)
    functions = {one.func.__name__: AnyArray(one.func) for one in expression.atoms(AppliedUndef)}
    plain = {array: type(array)(f"array{at}", *array.args[1:]) for at, array in enumerate(arrays)}
    named = {index: Symbol(f"index{at}") for at, index in enumerate(bound(expression) | set(scalars))}
    try:
        whole = lambdify(
            [*(named[one] for one in scalars), *plain.values()],
            expression.xreplace(plain | named),
            modules=[functions | MARKS | {"e": math.exp}, "math"],
        )
        value = whole(*map(some_number, scalars), *map(AnyArray, arrays))
    except (NotImplementedError, TypeError, ValueError, ArithmeticError):
        return False
    return abs(value) > 1e-6


def bound(expression):
    """Return the indices of all sums."""
    return {limit[0] for inner in expression.atoms(Sum) for limit in inner.limits}


def some_number(symbol):
    """Return a number of the kind that the symbol stands for; an index is 1 or 2."""
    if symbol in SIZES:
        return SIZES[symbol]
    chance = random.Random(str(symbol))
    return chance.randint(1, 2) if symbol.is_integer else chance.uniform(0.5, 1.5)
