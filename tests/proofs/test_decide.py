"""The procedure behind the proofs: what is zero is seen to be, and nothing else, by algebra alone or with numbers."""

import pytest
from sympy import KroneckerDelta, Sum, Symbol, exp, log

from gma_ref.proofs import decide
from gma_ref.proofs.claim import Claim
from gma_ref.proofs.decide import residual
from gma_ref.proofs.refute import refuted
from gma_ref.proofs.routing import SCORE, SOFTMAX, gamma, score
from gma_ref.proofs.steps import Equal
from gma_ref.proofs.symbols import Apart, At, K, N, Partial, UpTo, array, ell, i, j, k, n, r, total, unfold

a, b, w = array("a"), array("b"), array("w", positive=True)
f = array("f")

ZERO = {
    "names of indices": total(a[k], k) - total(a[ell], ell),
    "order of sums": total(f[i, k], i, k) - total(f[i, k], k, i),
    "sums that share no index": total(a[i] * b[k], i, k) - total(a[i], i) * total(b[k], k),
    "square of a sum": total(a[k], k) ** 2 - total(a[k] * a[ell], k, ell),
    "delta": total(KroneckerDelta(k, ell) * a[ell], ell) - a[k],
    "delta between free indices": KroneckerDelta(k, ell) * (a[k] - a[ell]),
    "all pairs": total(Apart(k, ell) * a[k] * a[ell], k, ell) - total(a[k], k) ** 2 + total(a[k] ** 2, k),
    "triangle": total(UpTo(n, i) * a[n], n) - Sum(a[n], (n, 1, i)),
    "square of a mark": UpTo(j, i) ** 2 * KroneckerDelta(k, ell) ** 3 - UpTo(j, i) * KroneckerDelta(k, ell),
    "as many ones as earlier tokens": Sum(1, (j, 1, i - 1)) - (i - 1),
    "last term": Sum(a[j], (j, 1, i + 1)) - Sum(a[j], (j, 1, i)) - a[i + 1],
    "constant": total(1, k) - K,
    "exponential": exp(a[k] + b[k]) * exp(-a[k]) - exp(b[k]),
    "logarithm": log(w[k] ** 2 * exp(a[k])) - 2 * log(w[k]) - a[k],
    "common denominator": 1 / w[k] + 1 / w[ell] - (w[k] + w[ell]) / (w[k] * w[ell]),
    "sum against its reciprocal": total(w[k], k) / total(w[ell], ell) - 1,
    "under one sum": total(w[k] / (w[k] + 1), k) + total(1 / (w[k] + 1), k) - K,
    "derivative": Partial(total(a[k] ** 2, k), a[ell]) - 2 * a[ell],
    "derivative with the index of the sum": Partial(total(a[k] ** 2, k), a[k]) - 2 * a[k],
}
NOT_ZERO = {
    "another entry": a[k] - a[ell],
    "another range": total(a[k], k) - Sum(a[i], (i, 1, N)),
    "a trace is not a sum": total(f[k, k], k) - total(f[k, ell], k, ell),
    "transposed": total(f[i, n] * a[i], i, n) - total(f[i, n] * a[n], i, n),
    "delta over a shorter range": Sum(KroneckerDelta(j, n) * a[j], (j, 1, i)) - a[n],
    "delta across ranges": total(KroneckerDelta(k, i) * a[k], k) - a[i],
    "triangle of queries and keys": total(UpTo(j, i) * a[j], j) - Sum(a[j], (j, 1, i)),
    "a key is no query": total(KroneckerDelta(j, i) * a[j], j) - a[i],
    "upper triangle": total(UpTo(i, n) * a[n], n) - Sum(a[n], (n, 1, i)),
    "sum over a triangle": total(Sum(f[i, n], (n, 1, i)), i) - total(f[i, n], i, n),
    "sum over the other triangle": Sum(f[i, j], (j, 1, i), (i, 1, N)) - Sum(f[j, i], (j, 1, i), (i, 1, N)),
    "reciprocal of a sum": total(w[k], k) * total(1 / w[k], k) - K**2,
    "product of sums": total(a[k] * b[k], k) - total(a[k], k) * total(b[k], k),
    "half an exponential": exp(a[k] / 2) - exp(a[k]),
    "any power of a delta": KroneckerDelta(k, ell) ** Symbol("y", real=True) - KroneckerDelta(k, ell),
    "power of a limit that may be 0": UpTo(j, i) ** (n - 1) - UpTo(j, i),
    "reciprocal of a mark": 1 / UpTo(j, i) - UpTo(j, i),
    "reciprocal of a mark in a product": 1 / (KroneckerDelta(k, ell) * w[k]) - KroneckerDelta(k, ell) / w[k],
    "number of ones where it may be negative": Sum(1, (j, 1, i - 2)) - (i - 2),
    "last terms of what may be empty": Sum(a[j], (j, 1, 2 - i)) - Sum(a[j], (j, 1, -i)) - a[1 - i] - a[2 - i],
    "derivative at another entry": Partial(total(a[k] ** 2, k), a[ell]) - 2 * a[r],
}


@pytest.fixture(params=[True, False], ids=["with numbers", "by algebra alone"])
def numbers(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(decide, "refuted", lambda expression: False)


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("name", ZERO)
def test_zero_is_recognised(name):
    assert residual(unfold(ZERO[name], ())) == 0


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("name", NOT_ZERO)
def test_nothing_else_is_taken_for_zero(name):
    assert residual(unfold(NOT_ZERO[name], ())) != 0


@pytest.mark.parametrize("name", ZERO)
def test_numbers_refute_nothing_that_is_zero(name):
    assert not refuted(unfold(ZERO[name], ()))


def test_derivative_by_what_is_defined_is_refused():
    false = Claim("", "", "any size", (), (SOFTMAX, SCORE), lambda: [Equal("x", Partial(gamma[i, k], score[i, k]), 0)])
    with pytest.raises(ValueError, match=r"^s\[i, k\] is defined, so nothing can be differentiated by it"):
        false.check()
    same_name = Partial(gamma[i, k], array("s", positive=True)[i, k])
    with pytest.raises(ValueError, match="is defined"):
        unfold(same_name, (SCORE,))
    with pytest.raises(ValueError, match="or put in for it"):
        unfold(At(gamma[i, k], 0, score[i, k]), (SOFTMAX, SCORE))
    assert unfold(Partial(score[i, k], score[i, k]), (SOFTMAX,)) == 1


def test_numbers_refute_what_is_not_zero():
    assert refuted(unfold(NOT_ZERO["product of sums"], ()))
