"""The symbols of the proofs: sizes and indices without a value, arrays without entries, definitions of one by another.

An index ranges over 1 to its size in ``RANGE``. An array is an ``IndexedBase``; its entries are real, or positive where
that is said. A ``Definition`` says what the entry of one array is in terms of others; a proof prints the short name and
decides with the long form.
"""

from collections.abc import Callable
from typing import NamedTuple

from sympy import (
    Dummy,
    Expr,
    Function,
    Indexed,
    IndexedBase,
    Integer,
    Integral,
    MatrixSymbol,
    Sum,
    Symbol,
    diff,
    symbols,
)  # fmt: skip
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.printing.precedence import PRECEDENCE

from .latex import relation

K, N, N_k, d_r, d_v, d_model = symbols("K N N_k d_r d_v d_model", integer=True, positive=True)

i, n = symbols("i n", integer=True, positive=True)  # tokens; queries, where keys are counted apart
j = Symbol("j", integer=True, positive=True)  # keys
other_key = Dummy("n", integer=True, positive=True)  # printed as n, where no token is called so
k, ell = symbols("k ell", integer=True, positive=True)  # components
r = Dummy("j", integer=True, positive=True)  # a component that the paper calls j, where no token is called so
m, p = symbols("m p", integer=True, positive=True)  # routing dimensions
a, f = symbols("a f", integer=True, positive=True)  # dimensions of the model
b, c = symbols("b c", integer=True, positive=True)  # dimensions of the values

RANGE = {i: N, n: N, j: N_k, other_key: N_k, k: K, ell: K, r: K, m: d_r, p: d_r, b: d_v, c: d_v, a: d_model, f: d_model}


def array(name, **assumptions):
    """Return an array with real entries."""
    return IndexedBase(name, **({"real": True} | assumptions))


def total(body, *indices):
    """Sum `body` over the whole range of each index."""
    return Sum(body, *((index, 1, RANGE[index]) for index in indices))


def fresh(index):
    """Return a new index with the range of `index`, and that range, for a sum inside a definition."""
    return Dummy(index.name, integer=True, positive=True), RANGE[index]


def entry(matrix, row, column=1):
    """Return an entry of a matrix or of a product of matrices; rows and columns count from 1 here, in SymPy from 0."""
    return MatrixElement(matrix, row - 1, column - 1)


class Definition(NamedTuple):
    """What an entry of an array stands for."""

    entry: Indexed
    meaning: Callable[..., Expr]

    @property
    def body(self):
        """The meaning of the entry as it is printed."""
        return self.meaning(*self.entry.indices)

    def latex(self):
        """Return the definition as LaTeX."""
        return relation(self.entry, "=", self.body)


class Partial(Expr):
    """A partial derivative that is taken only when it is asked for, after its definitions have been put in."""

    precedence = PRECEDENCE["Mul"]  # for brackets

    def __new__(cls, expression, variable):
        """Keep both as they are."""
        return Expr.__new__(cls, expression, variable)

    @property
    def is_commutative(self):
        """A number like any other."""
        return True

    def take(self):
        """Differentiate, with summation indices that differ from those of the variable."""
        expression, variable = self.args
        return diff(renamed(expression), variable)


class At(Expr):
    """An expression with one value put in for some symbols, after its derivatives have been taken."""

    precedence = PRECEDENCE["Mul"]

    def __new__(cls, expression, value, *variables):
        """Keep all as they are."""
        return Expr.__new__(cls, expression, value, *variables)

    @property
    def is_commutative(self):
        """A number like any other."""
        return True


def renamed(node):
    """Give every summation index a name of its own."""
    if not node.has(Sum):
        return node
    if isinstance(node, Sum):
        body, *limits = node.args
        names = {index: Dummy(index.name, integer=True, positive=True) for index, _, _ in limits}
        limits = [(names[index], lower, upper.xreplace(names)) for index, lower, upper in limits]
        return Sum(renamed(body).xreplace(names), *limits)
    return node.func(*map(renamed, node.args))


class UpTo(Function):
    """1 if the first index is at most the second, else 0: a key that a causal query may see."""

    nargs = 2
    is_nonnegative = True

    @classmethod
    def eval(cls, index, end):
        """Decide it for numbers."""
        if index.is_Integer and end.is_Integer:
            return Integer(index <= end)
        return None


class Apart(Function):
    """1 if the two indices differ, else 0."""

    nargs = 2
    is_nonnegative = True

    @classmethod
    def eval(cls, one, other):
        """Decide it for numbers, and for an index and itself."""
        if one == other:
            return Integer(0)
        return Integer(1) if one.is_Integer and other.is_Integer else None


def unfold(expression, definitions):
    """Put the definitions in, then take the derivatives.

    Raises
    ------
    ValueError
        If a derivative is taken by an array, or a value put in for one, that is itself defined: its meaning would stand
        in the expression and the array no longer, so that every derivative by it would be 0.
    """
    meaning = {definition.entry.base: definition.meaning for definition in definitions}
    names = {base.label.name for base in meaning}

    def defined(node):
        return isinstance(node, Indexed) and node.base in meaning

    def free(variable):
        if isinstance(variable, Indexed) and variable.base.label.name in names:
            raise ValueError(f"{variable} is defined, so nothing can be differentiated by it or put in for it")
        return variable

    def put_in(node):
        if isinstance(node, Partial):
            expression, variable = node.args[0], free(node.args[1])
            return Partial(put_in(expression), variable).take()
        if isinstance(node, Integral):
            return put_in(node.doit())
        if isinstance(node, At):
            expression, value, *variables = node.args
            return put_in(expression).subs(dict.fromkeys(map(free, variables), value))
        if isinstance(node, MatrixElement) and not isinstance(node.parent, MatrixSymbol):
            return node.parent[node.i, node.j]
        if defined(node):
            return put_in(meaning[node.base](*node.indices))
        if not node.args or not node.has(Partial, Integral, At, MatrixElement, *meaning):
            return node
        return node.func(*map(put_in, node.args))

    return put_in(expression)
