"""Proofs for the backward pass of write and read (G6, B2), whatever keys each query may see."""

from sympy import KroneckerDelta, Sum, Symbol

from .claim import proves
from .routing import SOFTMAX, gamma
from .routing import score as score_of
from .steps import Equal
from .symbols import Definition, Partial, array, c, ell, fresh, i, j, k, n, p, r, total

eps = Symbol("epsilon", positive=True)
gamma_q, gamma_k, value = array("gamma^Q", positive=True), array("gamma^K", positive=True), array("V")
slot, mass = array("{\\tilde V}"), array("Z", positive=True)
denominator, output = array("D", positive=True), array("O")
scaled, pull = array("P"), array("r")
upstream = array("G")
sees = array("v", nonnegative=True)

LOSS = "The loss is differentiable; G is its gradient in O, so to first order the loss changes as the sum of G·O does."
SEES = "v is 1 where a query may see a key, else 0: all ones, a key mask, or a lower triangle."


def summed(body, *indices):
    """Sum over indices that were made for one definition."""
    return Sum(body, *((index, 1, size) for index, size in indices))


def read_denominator(query):
    """Return the denominator of a read, Eq. (7)."""
    one, size = fresh(k)
    return summed(gamma_q[query, one] * mass[one], (one, size)) + eps


def read_output(query, column):
    """Return an entry of a read, Eq. (7)."""
    one, size = fresh(k)
    return summed(gamma_q[query, one] * slot[one, column], (one, size)) / denominator[query]


def over_denominator(query, column):
    """Return the upstream gradient over the denominator."""
    return upstream[query, column] / denominator[query]


def against_output(query):
    """Return the gradient of the denominator: the upstream gradient along the output, turned."""
    one, size = fresh(c)
    return -summed(upstream[query, one] * output[query, one], (one, size)) / denominator[query]


def seen_slot(query, component, column):
    """Return an entry of the memory that a query sees."""
    key, size = fresh(j)
    return summed(sees[query, key] * gamma_k[key, component] * value[key, column], (key, size))


def seen_mass(query, component):
    """Return an entry of the normaliser that a query sees."""
    key, size = fresh(j)
    return summed(sees[query, key] * gamma_k[key, component], (key, size))


def seen_denominator(query):
    """Return the denominator over the keys that a query sees."""
    one, size = fresh(k)
    return summed(gamma_q[query, one] * seen_mass(query, one), (one, size)) + eps


def seen_output(query, column):
    """Return an entry of the output over the keys that a query sees."""
    one, size = fresh(k)
    return summed(gamma_q[query, one] * seen_slot(query, one, column), (one, size)) / denominator[query]


DENOMINATOR = Definition(denominator[i], read_denominator)
OUTPUT = Definition(output[i, c], read_output)
SCALED = Definition(scaled[i, c], over_denominator)
PULL = Definition(pull[i], against_output)
SEEN = [
    Definition(denominator[i], seen_denominator),
    Definition(output[i, c], seen_output),
    SCALED,
    PULL,
]

loss = total(upstream[n, p] * output[n, p], n, p)
