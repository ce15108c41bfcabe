"""Numbers that count what is done with them: they hold a formula for a cost against the code that it speaks of.

NumPy takes any Python object into an array and computes with it by calling its methods: ``__mul__`` for ``*`` and for
the products inside ``@``, and ``x.exp()`` for ``np.exp(x)``.
"""

import math
from collections import Counter
from inspect import unwrap

import numpy as np

__all__ = ["Counted", "counted", "tally"]

_done = Counter()


def _noting(kind, method):
    """Make a method that notes one operation of this kind and returns a number that counts on."""

    def noted(*numbers):
        result = method(*numbers)
        if result is NotImplemented:
            return result
        _done[kind] += 1
        return Counted(result)

    return noted


def _square(number, power):
    if power != 2:
        raise ValueError(f"a square is one multiplication, other powers have no fixed number of them, got {power}")
    return float(number) * float(number)


class Counted(float):
    """A float that notes each operation done with it; comparisons and changes of sign are free."""

    __mul__ = _noting("multiply", float.__mul__)
    __rmul__ = _noting("multiply", float.__rmul__)
    __pow__ = _noting("multiply", _square)
    __add__ = _noting("add", float.__add__)
    __radd__ = _noting("add", float.__radd__)
    __sub__ = _noting("add", float.__sub__)
    __rsub__ = _noting("add", float.__rsub__)
    __truediv__ = _noting("divide", float.__truediv__)
    __rtruediv__ = _noting("divide", float.__rtruediv__)
    exp = _noting("exp", math.exp)
    log = _noting("log", math.log)
    sqrt = _noting("sqrt", math.sqrt)

    def __neg__(self):
        return Counted(-float(self))


def counted(numbers):
    """Return an array of numbers that count.

    Parameters
    ----------
    numbers : array_like of float

    Returns
    -------
    ndarray of Counted
        An object array of the same shape and values.
    """
    return np.vectorize(Counted, otypes=[object])(numbers)


def tally(function, *arguments, **keywords):
    """Call a function and count the operations that it does with numbers that count.

    Parameters
    ----------
    function : callable
        A function of this package is called without its argument checks, which refuse such numbers.
    *arguments, **keywords
        What it is called with; arrays made by `counted` among them.

    Returns
    -------
    result
        What the function returns.
    operations : Counter
        How many there were of each kind: ``multiply``, ``add`` (or subtract), ``divide``, ``exp``, ``log``, ``sqrt``.
    """
    before = _done.copy()
    result = unwrap(function)(*arguments, **keywords)
    return result, _done - before
