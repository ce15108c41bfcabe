"""Proofs about the matrix of weights: its bounds, its rank, its slots (S1 to S5, B7, B11)."""

from sympy import Integer, Sum

from .claim import ALGEBRA, proves
from .memory import AFFINITY, WEIGHT, affinity, eps, gamma_k, gamma_q, weight
from .memory_gradients import SOFTMAX_K, SOFTMAX_Q, mass, slot
from .routing import softmax
from .steps import Bounded, Equal, Positive
from .symbols import Apart, Definition, K, N, UpTo, array, c, ell, fresh, i, j, k, n, total

vector, kept = array("b"), array("b", nonnegative=True)
mean_weight, share, held = array("w", positive=True), array("h", positive=True), array("M", positive=True)
SIMPLEX = [SOFTMAX_Q, SOFTMAX_K]


@proves("S1", "The affinity lies between 0 and 1; a row of weights and ε's share sum to 1",
        where=[AFFINITY, WEIGHT, *SIMPLEX])  # fmt: skip
def bounds_of_the_affinity():
    """Write 1 as the product of two sums of responsibilities."""
    routed = total(affinity[i, j], j)
    unmatched = total(gamma_q[i, k] * gamma_k[j, ell] * Apart(k, ell), k, ell)
    return [
        Positive("above 0", affinity[i, j], "responsibilities are positive"),
        Bounded("at most 1", affinity[i, j], Integer(1), unmatched, "what the two put on different components"),
        Equal(
            "convex", total(weight[i, j], j) + eps / (routed + eps), 1, "so outputs are averages of the values and 0"
        ),
        Equal("row sum", total(weight[i, j], j), routed / (routed + eps), "at most 1"),
    ]


@proves(
    "S2",
    "Bidirectional weights have rank at most K; so have the causal ones left of a cut",
    scope=ALGEBRA,
    where=[AFFINITY, WEIGHT],
)
def rank_at_most_k():
    """Multiply by any vector: what comes out depends on K numbers."""
    routed = total(affinity[i, n], n) + eps
    past = Sum(affinity[i, n], (n, 1, i)) + eps
    left_of_cut = Sum(affinity[i, j] / past * vector[j], (j, 1, ell))
    through_slots = total(gamma_q[i, k] * total(gamma_k[j, k] * vector[j], j), k)
    held = Sum(gamma_k[j, k] * vector[j], (j, 1, ell))
    return [
        Equal("affinity", total(affinity[i, j] * vector[j], j), through_slots,
              "the vector enters through K sums, so the image has at most K dimensions"),
        Equal("same rank", routed * weight[i, j], affinity[i, j], "rows are only scaled"),
        Positive("by a positive number", routed, "so scaling loses no rank"),
        Equal("left of a cut", left_of_cut, total(gamma_q[i, k] * held, k) / past,
              "keys up to a cut, queries after it: again K sums"),
    ]  # fmt: skip


@proves("S2b", "Causal weights have full rank", scope=ALGEBRA, row="S2", where=[AFFINITY])
def full_rank_when_causal():
    """Look at the diagonal and above it."""
    past = Sum(affinity[i, n], (n, 1, i)) + eps
    triangle = UpTo(j, i) * affinity[i, j] / past
    return [
        Equal("triangle", total(triangle * vector[j], j), Sum(affinity[i, j] * vector[j], (j, 1, i)) / past,
              "no later key enters"),
        Positive("diagonal", affinity[i, i] / past, "a triangular matrix with such a diagonal can be inverted"),
    ]  # fmt: skip


@proves("S3", "The slots hold as many keys as take part", where=[SOFTMAX_K],
        assumptions=["b is 1 for a key that takes part, 0 for one that is masked or comes later."])  # fmt: skip
def mass_counts_keys():
    """Sum the normaliser over the slots."""
    return [Equal("count", total(kept[j] * gamma_k[j, k], j, k), total(kept[j], j), "each key spreads a mass of 1")]


def weight_of_a_mean(query, component):
    """Return the weight of a slot's mean in an output."""
    other, size = fresh(ell)
    whole = Sum(gamma_q[query, other] * (mass[other] + eps), (other, 1, size))
    return gamma_q[query, component] * (mass[component] + eps) / whole


MEAN_WEIGHT = Definition(mean_weight[i, k], weight_of_a_mean)


@proves("S5", "An output mixes slot means, in which ε is one more key of value 0", where=[MEAN_WEIGHT, SOFTMAX_Q])
def output_mixes_slot_means():
    """Move Z + ε from the denominator of the mean into its weight."""
    output = total(gamma_q[i, k] * slot[k, c], k) / (total(gamma_q[i, k] * mass[k], k) + eps)
    return [
        Positive("positive", mean_weight[i, k], "masses are positive, and so is ε"),
        Equal("sum", total(mean_weight[i, k], k), 1, "by their denominator"),
        Equal("denominator", total(gamma_q[i, k] * (mass[k] + eps), k), total(gamma_q[i, k] * mass[k], k) + eps,
              "responsibilities sum to 1"),
        Equal("output", output, total(mean_weight[i, k] * (slot[k, c] / (mass[k] + eps)), k), "Z + ε cancels"),
    ]  # fmt: skip


def mass_of(component):
    """Return what all keys put into a slot."""
    key, size = fresh(j)
    return Sum(gamma_k[key, component], (key, 1, size))


MASS = Definition(mass[k], mass_of)


@proves("B11", "The mean affinity of keys is at least 1/K", where=[MASS, SOFTMAX_K])
def effective_number_of_slots():
    """Average the overlap of all pairs of keys."""
    shares = total((mass[k] / N) ** 2, k)
    pairs = total(gamma_k[j, k] * gamma_k[n, k], j, n, k) / N**2
    return [
        Equal("pairs", pairs, shares, "the square of a sum is a sum over pairs"),
        Bounded("at least", 1 / K, shares, total((mass[k] / N - 1 / K) ** 2, k), "equal shares make it smallest"),
    ]


def share_of(key, component):
    """Return the share of a slot that a key holds; ε holds the rest."""
    other, size = fresh(n)
    return gamma_k[key, component] / (Sum(gamma_k[other, component], (other, 1, size)) + eps)


SHARE, READ = Definition(share[j, k], share_of), Definition(mean_weight[i, k], softmax)


@proves("B7", "K slots give the right keys a total weight of at most K", where=[SHARE, READ],
        assumptions=["Keys are numbered so that the right key of query i is key i, a different one for each query.",
                     "M is Z + ε, and w the weights of the slot means (S5): any weights that sum to 1."])  # fmt: skip
def capacity():
    """Bound the diagonal of the weights by what the slots hold."""
    whole = total(gamma_q[i, ell] * held[ell], ell)
    read = gamma_q[i, k] * held[k] / whole
    others = total(mean_weight[i, ell] * Apart(k, ell), ell)
    by_stabilizer = eps / (total(gamma_k[j, k], j) + eps)
    gap = total(by_stabilizer, k) + total(others * share[i, k], i, k)
    return [
        Equal("weight", total(gamma_q[i, k] * gamma_k[i, k], k) / whole, total(read * (gamma_k[i, k] / held[k]), k),
              "a weight is a read of the shares that its key holds"),
        Equal("shares", total(share[i, k], i), 1 - by_stabilizer, "all keys together hold less than one slot each"),
        Bounded("capacity", total(mean_weight[i, k] * share[i, k], i, k), K, gap, "summed over the right keys"),
    ]  # fmt: skip
