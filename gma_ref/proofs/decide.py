"""Decide whether an expression is zero, for sums whose size is a symbol.

An expression becomes a sum of terms, each a product of factors under summation signs. Then, term by term: a Kronecker
delta under its own sum is carried out, sums that share no index are separated, summation indices get names by a fixed
rule, an exponential of a sum becomes a product. Two expressions with the same terms are equal. Otherwise what is left
is brought over a common denominator, and the same is asked of the numerator; last, of what stands under one sum. Each
rule is an identity wherever the denominators are not zero, with a sum over an empty range taken as 0, so "zero" is a
proof; what is not recognised as zero counts as not proved.
"""

from itertools import permutations, product
from typing import NamedTuple

import sympy
from sympy import Add, Dummy, Function, KroneckerDelta, Mul, Pow, Product, S, Sum, Symbol, exp, log

from .refute import refuted
from .symbols import RANGE, Apart, UpTo

e = Function("e", positive=True)  # the exponential, with no rule of its own


class Term(NamedTuple):
    """A product of factors, summed over indices from 1 to a bound each."""

    factors: tuple
    bounds: tuple  # (index, upper end)


def residual(expression):
    """Return 0 if the expression is zero, by the procedure above; else what is left of it."""
    return settle(canonical(expression))


def settle(left):
    """Return 0 if an expression in its fixed form is zero, else the expression."""
    if left == 0 or refuted(left):
        return left
    numerator, _ = sympy.fraction(sympy.together(left))
    if canonical(numerator) == 0:
        return S.Zero
    uppers = {upper for inner in left.atoms(Sum) for _, _, upper in inner.limits}
    names = {name for inner in left.atoms(Sum) for name, _, _ in inner.limits}
    for size in sorted((upper for upper in uppers if not upper.free_symbols & names), key=str):
        summand, rest = under_one_sum(left, size)
        if summand != 0 and rest != left and residual(summand) == 0:
            return settle(rest)
    return left


def under_one_sum(expression, size):
    """Gather all sums of one size into one; return what stands under it for one value of its index, and the rest."""
    index = Dummy("n", integer=True, positive=True)
    summand = rest = S.Zero
    for term in Add.make_args(expression):
        sums = [factor for factor in Mul.make_args(term) if isinstance(factor, Sum)]
        found = [(one, limit) for one in sums for limit in one.limits if limit[2] == size]
        if found:
            one, outer = found[0]
            inner = [limit for limit in one.limits if limit != outer]
            body = Sum(one.function, *inner) if inner else one.function
            summand += term / one * body.xreplace({outer[0]: index})
        elif size in Mul.make_args(term) and size.is_nonnegative:  # a constant, as many times
            summand += term / size
        else:
            rest += term
    return summand, rest


def canonical(expression):
    """Write an expression as a sum of terms in one fixed form."""
    return Add(*map(assemble, terms(sympy.sympify(expression))))


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
        body, *inner, outer = node.args
        return summed(Sum(body, *inner) if inner else body, *outer)
    if isinstance(node, Product):
        body, *limits = node.args
        return terms(exp(Sum(log(body), *limits)))
    if isinstance(node, exp):
        return [Term(tuple(map(exponential, Add.make_args(canonical(node.args[0])))), ())]
    if isinstance(node, log):
        parts = sympy.expand_log(node)
        return terms(parts) if parts != node else [Term((log(canonical(node.args[0])),), ())]
    if isinstance(node, Apart):
        return terms(1 - KroneckerDelta(*node.args))
    if isinstance(node, Function) and not isinstance(node, KroneckerDelta):
        return [Term((node.func(*map(canonical, node.args)),), ())]
    return [Term((node,), ())]


def times(choice):
    """Multiply terms; their summation indices are distinct."""
    return Term(sum((term.factors for term in choice), ()), sum((term.bounds for term in choice), ()))


def summed(body, index, lower, upper):
    """Return the terms of a sum, with a new name for its index, which starts at 1."""
    name = Dummy(index.name, integer=True, positive=True)
    size = upper - lower + 1
    last, rest = size.as_coeff_Add()
    if last.is_positive and rest.is_nonnegative:  # so many terms more than the sum to `rest`
        shorter = summed(body, index, lower, rest + lower - 1) if rest != 0 else []
        return shorter + [one for step in range(last) for one in terms(body.xreplace({index: rest + lower + step}))]
    return [
        Term(term.factors, (*term.bounds, (name, size))) for term in terms(body.xreplace({index: name + lower - 1}))
    ]


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
    factors, bounds = without_reciprocals(factors, bounds)
    outside = Mul(*(factor for factor in factors if not factor.free_symbols & bounds.keys()))
    inside = [factor for factor in factors if factor.free_symbols & bounds.keys()]
    if any(isinstance(factor, Add) for factor in factors):  # a root squared, say
        limits = [(index, 1, upper) for index, upper in bounds.items()]
        return canonical(outside * nested(Mul(*inside), limits))
    for group in groups(inside, bounds):
        within = [factor for factor in inside if factor.free_symbols & group]
        outside *= one_sum(Mul(*within), {index: bounds[index] for index in group})
    return sympy.expand_mul(outside)


def without_deltas(term):
    """Carry out the deltas, and the limits 1{j ≤ i}, of sums over the range of the other index."""
    factors, bounds = list(term.factors), dict(term.bounds)
    kept = set()
    while True:
        factors = list(Mul.make_args(Mul(*factors)))
        marks = [factor for factor in factors if is_mark(factor) and factor not in kept]
        if not marks:
            return factors, bounds
        mark = min(marks, key=str)
        factors.remove(mark)
        mark = mark.as_base_exp()[0]
        a, b = mark.args[:2]
        if isinstance(mark, UpTo):
            if a in bounds and reach(b, bounds) == bounds[a]:
                bounds[a] = b
            else:
                kept.add(mark)
        else:
            one, other = (a, b) if a in bounds and reach(b, bounds) == bounds[a] else (b, a)
            if one in bounds and reach(other, bounds) == bounds[one]:
                del bounds[one]
                marked = set()
            else:
                other, one = sorted((a, b), key=str)
                marked = {mark}
            factors = [again(factor.xreplace({one: other})) for factor in factors]
            bounds = {index: upper.xreplace({one: other}) for index, upper in bounds.items()}
            kept = {other_mark.xreplace({one: other}) for other_mark in kept} | marked
        factors = [factor for factor in factors if factor not in kept] + sorted(kept, key=str)


def is_mark(factor):
    """Tell whether a factor is a mark, 0 or 1, or its power with a positive integer, which is the same."""
    base, power = factor.as_base_exp()
    return isinstance(base, KroneckerDelta | UpTo) and power.is_Integer and power.is_positive


def without_reciprocals(factors, bounds):
    """Cancel a sum against its own reciprocal."""
    for reciprocal in factors:
        base, power = reciprocal.as_base_exp()
        if not (isinstance(base, Sum) and len(base.limits) == 1 and power.is_Integer and power < 0):
            continue
        for index in bounds:
            within = [factor for factor in factors if index in factor.free_symbols]
            needed = any(index in upper.free_symbols for upper in bounds.values())
            if not needed and one_sum(Mul(*within), {index: bounds[index]}) == base:
                left = [factor for factor in factors if factor not in within and factor != reciprocal]
                left += Mul.make_args(reciprocal * base)
                return without_reciprocals(left, {one: upper for one, upper in bounds.items() if one != index})
    return factors, bounds


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
    if body == 1 and len(bounds) == 1 and all(size.is_nonnegative for size in bounds.values()):
        return next(iter(bounds.values()))
    depth = 1 + max((int(name.name[1:].split("_")[0]) for name in named(body)), default=0)
    candidates = []
    for order in permutations(bounds):
        if any(bounds[outer].free_symbols & set(order[place:]) for place, outer in enumerate(order)):
            continue  # an inner index cannot bound an outer one
        names = {index: Symbol(f"~{depth}_{place}", integer=True, positive=True) for place, index in enumerate(order)}
        limits = [(names[index], 1, bounds[index].xreplace(names)) for index in order]
        candidates.append(nested(body.xreplace(names), limits))
    return min(candidates, key=str)


def nested(body, limits):
    """Sum over the limits, the first outermost."""
    return Sum(body, *reversed(list(limits))) if limits else body


def named(body):
    """Return the names that sums inside `body` have been given."""
    return {limit[0] for inner in body.atoms(Sum) for limit in inner.limits}
