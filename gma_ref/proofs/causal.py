"""Proofs of Part I: the causal form, where each query reads what the keys up to its own place have written."""

from sympy import Sum

from .claim import proves
from .memory import AFFINITY, affinity, eps, gamma_k, gamma_q, value
from .steps import Equal, Positive
from .symbols import Definition, N, UpTo, array, c, fresh, i, j, k, n, total

slot, mass = array("{\\tilde V}"), array("Z", positive=True)
weight = array("A", positive=True)


SELF = "Queries and keys come from the same N tokens, in one order."


def up_to(body, index, end):
    """Sum `body` over the tokens up to `end`."""
    return Sum(body, (index, 1, end))


def prefix_slot(token, component, column):
    """Return an entry of the memory after a token, Eq. (5b)."""
    earlier, _ = fresh(n)
    return up_to(gamma_k[earlier, component] * value[earlier, column], earlier, token)


def prefix_total(token, component):
    """Return an entry of the normaliser after a token, Eq. (5b)."""
    earlier, _ = fresh(n)
    return up_to(gamma_k[earlier, component], earlier, token)


def implied_by_the_past(query, key):
    """Return one causal weight, Eq. (9b), for a key that is not later."""
    earlier, _ = fresh(n)
    return affinity[query, key] / (up_to(affinity[query, earlier], earlier, query) + eps)


SLOT = Definition(slot[i, k, c], prefix_slot)
MASS = Definition(mass[i, k], prefix_total)
WEIGHT = Definition(weight[i, j], implied_by_the_past)


def causal_read(query, column):
    """Return an entry of the causal output, Eq. (8b)."""
    return total(gamma_q[query, k] * slot[query, k, column], k) / causal_denominator(query)


def causal_denominator(query):
    """Return the denominator of Eq. (8b)."""
    return total(gamma_q[query, k] * mass[query, k], k) + eps


@proves("5b", "The memory after a token is the memory before it and one term more", where=[SLOT, MASS])
def prefix_memory_is_a_running_sum():
    """Split the last term off the sums of Eq. (5b)."""
    added = gamma_k[i + 1, k] * value[i + 1, c]
    return [
        Equal("first token", slot[1, k, c], gamma_k[1, k] * value[1, c], "the sum has one term"),
        Equal("next mass", mass[i + 1, k], mass[i, k] + gamma_k[i + 1, k], "the last term of the sum"),
        Equal("next slot", slot[i + 1, k, c], slot[i, k, c] + added, "the last term of the sum"),
    ]


@proves("8b", "The causal read is a read of the keys up to its place", where=[SLOT, MASS, AFFINITY], assumptions=[SELF])
def causal_order_of_products():
    """Exchange the sum over components with the sum over earlier keys."""
    routed = up_to(affinity[i, j], j, i)
    matched = up_to(affinity[i, j] * value[j, c], j, i)
    return [
        Equal("denominator", causal_denominator(i), routed + eps, "finite sums change places"),
        Equal("output", causal_read(i, c), matched / (routed + eps), "and in the numerator"),
    ]


@proves(
    "9b",
    "The causal weights are positive and sum to 1, less the share of ε",
    where=[AFFINITY, WEIGHT],
    assumptions=[SELF],
)
def causal_weights_sum():
    """Sum a row of Eq. (9b) up to the diagonal."""
    routed = up_to(affinity[i, j], j, i)
    return [
        Positive("positive", weight[i, j], "responsibilities are positive, and ε is not negative"),
        Equal(
            "row sum", up_to(weight[i, j], j, i), routed / (routed + eps), "the denominator is the same for all keys"
        ),
    ]


@proves(
    "10b",
    "The causal output is the weighted sum of the values up to its place",
    where=[SLOT, MASS, AFFINITY, WEIGHT],
    assumptions=[SELF],
)
def causal_output_is_attention():
    """Compare Eq. (8b) with Eq. (10b), exactly and in the paper's form without ε."""
    routed = up_to(affinity[i, n], n, i)
    plain = up_to(affinity[i, j] / routed * value[j, c], j, i)
    return [
        Equal(
            "without ε in the weights", causal_read(i, c), routed / (routed + eps) * plain, "the factor that ε costs"
        ),
        Equal("exactly", causal_read(i, c), up_to(weight[i, j] * value[j, c], j, i), "Eq. (9b) put in"),
    ]


@proves(
    "R3",
    "The causal weights are the lower triangle of the affinity, normalised",
    where=[SLOT, MASS, AFFINITY, WEIGHT],
    assumptions=[SELF],
)
def causal_weights_are_a_triangle():
    """Compare the masked matrix form with Eqs. (8b) and (9b)."""
    row = total(UpTo(n, i) * affinity[i, n], n) + eps
    triangle = UpTo(j, i) * affinity[i, j] / row
    return [
        Equal("row", row, causal_denominator(i), "the zeros above the diagonal add nothing"),
        Equal("entry", triangle, UpTo(j, i) * weight[i, j], "Eq. (9b) for keys that are not later"),
        Equal("output", Sum(triangle * value[j, c], (j, 1, N)), causal_read(i, c), "the triangle times the values"),
    ]
