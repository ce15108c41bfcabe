"""Proofs of Part I: write and read, and the weights that they imply."""

from sympy import MatrixSymbol, OneMatrix, Sum, Symbol

from .claim import proves
from .steps import Equal, Positive
from .symbols import Definition, K, N, N_k, array, c, d_v, entry, fresh, i, j, k, other_key, total

eps = Symbol("epsilon", nonnegative=True)
gamma_q, gamma_k = array("gamma^Q", positive=True), array("gamma^K", positive=True)
value, slot = array("V"), array("{\\tilde V}")
mass, weight = array("Z", positive=True), array("A", positive=True)
affinity = array("{\\tilde A}", positive=True)

GAMMA_Q, GAMMA_K = MatrixSymbol("Gamma^Q", N, K), MatrixSymbol("Gamma^K", N_k, K)
VALUES = MatrixSymbol("V", N_k, d_v)
ONES = OneMatrix(N_k, 1)

ENTRIES = [
    Definition(gamma_q[i, k], lambda row, column: entry(GAMMA_Q, row, column)),
    Definition(gamma_k[j, k], lambda row, column: entry(GAMMA_K, row, column)),
    Definition(value[j, c], lambda row, column: entry(VALUES, row, column)),
]


def written(component, column):
    """Return one entry of the memory, Eq. (6)."""
    token, size = fresh(j)
    return Sum(gamma_k[token, component] * value[token, column], (token, 1, size))


def stored(component):
    """Return one entry of the normaliser, Eq. (6)."""
    token, size = fresh(j)
    return Sum(gamma_k[token, component], (token, 1, size))


def overlap(query, key):
    """Return one entry of the affinity, Eq. (11)."""
    component, size = fresh(k)
    return Sum(gamma_q[query, component] * gamma_k[key, component], (component, 1, size))


SLOT = Definition(slot[k, c], written)
MASS = Definition(mass[k], stored)
AFFINITY = Definition(affinity[i, j], overlap)


def implied(query, key):
    """Return one implied weight, Eq. (9)."""
    other, size = fresh(other_key)
    return affinity[query, key] / (Sum(affinity[query, other], (other, 1, size)) + eps)


WEIGHT = Definition(weight[i, j], implied)


def read(query, column):
    """Return one entry of the output, Eq. (8)."""
    return total(gamma_q[query, k] * slot[k, column], k) / denominator(query)


def denominator(query):
    """Return the denominator of Eq. (8)."""
    return total(gamma_q[query, k] * mass[k], k) + eps


@proves("6", "The write, slot by slot, is the matrix product of Eq. (5)", where=[*ENTRIES, SLOT, MASS])
def write_by_slots():
    """Compare the entries of Eq. (5) with the sums of Eq. (6)."""
    return [
        Equal("mass", entry(GAMMA_K.T * ONES, k), mass[k], "a product with the vector of ones is a sum"),
        Equal("slot", entry(GAMMA_K.T * VALUES, k, c), slot[k, c], "row k of the transpose is column k"),
    ]


@proves("8", "The read, token by token, is the matrix form of Eq. (7)", where=[*ENTRIES, SLOT, MASS],
        assumptions=["The denominator is not zero."])  # fmt: skip
def read_by_tokens():
    """Compare the entries of Eq. (7) with the sums of Eq. (8)."""
    numerator = entry(GAMMA_Q * GAMMA_K.T * VALUES, i, c)
    return [
        Equal("denominator", entry(GAMMA_Q * GAMMA_K.T * ONES, i) + eps, denominator(i), "the routed mass, and ε"),
        Equal("output", numerator / (entry(GAMMA_Q * GAMMA_K.T * ONES, i) + eps), read(i, c), "row by row"),
    ]


@proves("7", "Writing first or matching first: the output is the same", where=[SLOT, MASS, AFFINITY])
def order_of_products():
    """Exchange the sum over components with the sum over keys."""
    matched = total(affinity[i, j] * value[j, c], j)
    return [
        Equal("numerator", total(gamma_q[i, k] * slot[k, c], k), matched, "finite sums change places"),
        Equal("denominator", total(gamma_q[i, k] * mass[k], k), total(affinity[i, j], j), "the same with values of 1"),
        Equal("output", read(i, c), matched / (total(affinity[i, j], j) + eps), "the quotient of the two"),
    ]


@proves("9", "The implied weights are positive and sum to 1, less the share of ε", where=[AFFINITY, WEIGHT])
def weights_sum():
    """Sum a row of Eq. (9)."""
    routed = total(affinity[i, j], j)
    return [
        Positive("positive", weight[i, j], "responsibilities are positive, and ε is not negative"),
        Equal("what is missing", 1 - total(weight[i, j], j), eps / (routed + eps), "the share of ε"),
        Equal("row sum", total(weight[i, j], j), routed / (routed + eps), "the denominator does not depend on the key"),
    ]


@proves("10", "The output is the weighted sum of the values", where=[SLOT, MASS, AFFINITY, WEIGHT])
def output_is_attention():
    """Compare Eq. (8) with Eq. (10), exactly and in the paper's form without ε."""
    routed = total(affinity[i, other_key], other_key)
    plain = total(affinity[i, j] / routed * value[j, c], j)
    return [
        Equal("without ε in the weights", read(i, c), routed / (routed + eps) * plain, "the factor that ε costs"),
        Equal("exactly", read(i, c), total(weight[i, j] * value[j, c], j), "Eq. (9) put in"),
    ]


@proves("11", "The affinity is the inner product of two rows of responsibilities", where=[*ENTRIES, AFFINITY])
def affinity_is_an_overlap():
    """Compare an entry of the matrix product with the sum over components."""
    return [
        Equal("entry", entry(GAMMA_Q * GAMMA_K.T, i, j), affinity[i, j], "row i of one times row j of the other"),
    ]


@proves("AppB", "When writing first saves multiplications", assumptions=["As many queries as keys."])
def fewer_multiplications():
    """Count the products of the two orders, Appendix B."""
    match_first = N**2 * K + N**2 * d_v
    write_first = 2 * N * K * d_v
    threshold = 2 * K * d_v / (K + d_v)
    return [
        Positive("a positive factor", N * (K + d_v), "so that it cannot change a sign"),
        Equal("difference", match_first - write_first, N * (K + d_v) * (N - threshold),
              "writing first saves exactly when N > 2Kd_v/(K + d_v)"),
    ]  # fmt: skip
