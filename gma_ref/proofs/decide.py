"""Decide whether an expression is zero, for sums whose size is a symbol.

An expression becomes a sum of terms, each a product of factors under summation signs. Then, term by term: a Kronecker
delta under its own sum is carried out, sums that share no index are separated, summation indices get names by a fixed
rule, an exponential of a sum becomes a product. Two expressions with the same terms are equal. Otherwise what is left
is brought over a common denominator, and the same is asked of the numerator. Each rule is an identity wherever the
denominators are not zero, so "zero" is a proof; what is not recognised as zero counts as not proved.
"""

from itertools import permutations, product
from typing import NamedTuple

from sympy import (
    Add,
    Dummy,
    Function,
    Integer,
    KroneckerDelta,
    Mul,
    Pow,
    Product,
    S,
    Sum,
    Symbol,
    exp,
    expand,
    expand_log,
    fraction,
    log,
    sympify,
    together,
)  # fmt: skip

from .symbols import RANGE

e = Function("e", positive=True)  # the exponential, with no rule of its own


class Term(NamedTuple):
    """A product of factors, summed over indices from 1 to a bound each."""

    factors: tuple
    bounds: tuple  # (index, upper end)


def residual(expression):
    """Return 0 if the expression is zero, by the procedure above; else what is left of it."""
    left = canonical(expression)
    if left == 0:
        return S.Zero
    numerator, _ = fraction(together(left))
    return S.Zero if canonical(numerator) == 0 else left


def canonical(expression):
    """Write an expression as a sum of terms in one fixed form."""
    return Add(*map(assemble, terms(sympify(expression))))


def terms(node):
    """Return the terms of an expression."""
    if isinstance(node, Add):
        return [term for part in node.args for term in terms(part)]
    if isinstance(node, Mul):
        return [times(choice) for choice in product(*map(terms, node.args))]
    if isinstance(node, Pow) and node.exp.is_Integer and node.exp > 0:
        return [times(choice) for choice in product(*(terms(node.base) for _ in range(node.exp)))]
    if isinstance(node, Pow):
        return [Term(Mul.make_args(Pow(canonical(node.base), canonical(node.exp))), ())]
    if isinstance(node, Sum):
        body, *limits = node.args
        return summed(body, limits)
    if isinstance(node, Product):
        body, *limits = node.args
        return terms(exp(Sum(log(body), *limits)))
    if isinstance(node, exp):
        return [Term(tuple(map(exponential, Add.make_args(canonical(node.args[0])))), ())]
    if isinstance(node, log):
        parts = expand_log(node)
        return terms(parts) if parts != node else [Term((log(canonical(node.args[0])),), ())]
    if isinstance(node, Function) and not isinstance(node, KroneckerDelta):
        return [Term((node.func(*map(canonical, node.args)),), ())]
    return [Term((node,), ())]


def times(choice):
    """Multiply terms; their summation indices are distinct."""
    return Term(sum((term.factors for term in choice), ()), sum((term.bounds for term in choice), ()))


def summed(body, limits):
    """Return the terms of a sum, with new names for its indices."""
    names = {index: Dummy(index.name, integer=True, positive=True) for index, _, _ in limits}
    start = {index: names[index] + lower - 1 for index, lower, _ in limits}  # every sum starts at 1
    bounds = tuple((names[index], upper.xreplace(start) - lower + 1) for index, lower, upper in limits)
    return [Term(term.factors, term.bounds + bounds) for term in terms(body.xreplace(start))]


def exponential(exponent):
    """Return the exponential of one term; of its integer multiples, the powers."""
    count, rest = exponent.as_coeff_Mul()
    if isinstance(rest, log):
        return rest.args[0] ** count
    if not count.is_Rational or rest == 1:
        return e(exponent)
    return e(rest / count.q) ** count.p


def assemble(term):
    """Return a term as one expression in its fixed form."""
    factors, bounds = without_deltas(term)
    factors = [factor for factor in Mul.make_args(Mul(*factors))]
    outside = Mul(*(factor for factor in factors if not factor.free_symbols & set(bounds)))
    inside = [factor for factor in factors if factor.free_symbols & set(bounds)]
    if any(isinstance(factor, Add) for factor in factors):  # a root squared, say
        again = Sum(Mul(*inside), *((index, 1, upper) for index, upper in bounds.items())) if bounds else Mul(*inside)
        return canonical(expand(outside) * again)
    for group in groups(inside, bounds):
        within = [factor for factor in inside if factor.free_symbols & set(group)]
        outside *= one_sum(Mul(*within), {index: bounds[index] for index in group})
    return expand(outside)


def without_deltas(term):
    """Carry out the Kronecker deltas whose sum runs over the range of the other index; return factors and bounds."""
    factors, bounds = list(term.factors), dict(term.bounds)
    kept = set()
    while True:
        factors = list(Mul.make_args(Mul(*factors)))
        delta = next((f for f in factors if isinstance(f.as_base_exp()[0], KroneckerDelta) and f not in kept), None)
        if delta is None:
            return factors, bounds
        a, b = delta.as_base_exp()[0].indices
        factors.remove(delta)
        one, other = (a, b) if a in bounds else (b, a)
        if one in bounds and reach(other, bounds) == bounds[one]:
            del bounds[one]
        else:
            one, other = sorted((a, b), key=str, reverse=True)
            kept.add(KroneckerDelta(a, b))
        factors = [again(factor.xreplace({one: other})) for factor in factors if factor not in kept]
        factors += kept


def again(factor):
    """Bring a factor back into its fixed form after an index in it has changed."""
    return canonical(factor) if factor.has(Sum) else factor


def reach(index, bounds):
    """Return the upper end of an index's range; an index that is neither summed nor declared has none."""
    return bounds.get(index, RANGE.get(index))


def groups(factors, bounds):
    """Split the summation indices into groups that no factor joins."""
    joined = [factor.free_symbols & set(bounds) for factor in factors]
    joined += [{index} | (upper.free_symbols & set(bounds)) for index, upper in bounds.items()]
    found = []
    for one in joined:
        touching = [group for group in found if group & one]
        found = [group for group in found if not group & one] + [one.union(*touching)]
    return found


def one_sum(body, bounds):
    """Return a sum in its fixed form: of all ways to name its indices, the first in order."""
    if body == 1 and len(bounds) == 1:
        return next(iter(bounds.values()))
    depth = 1 + max((int(name.name[1:].split("_")[0]) for name in named(body)), default=0)
    candidates = []
    for order in permutations(bounds):
        names = {index: Symbol(f"~{depth}_{n}", integer=True, positive=True) for n, index in enumerate(order)}
        limits = [(names[index], Integer(1), bounds[index].xreplace(names)) for index in order]
        candidates.append(Sum(body.xreplace(names), *reversed(limits)))
    return min(candidates, key=str)


def named(body):
    """Return the names that sums inside `body` have been given."""
    return {limit[0] for inner in body.atoms(Sum) for limit in inner.limits}
