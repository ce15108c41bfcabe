"""Proofs for the backward pass of write and read (G6, B2), whatever keys each query may see."""

from sympy import Sum, Symbol, exp

from .claim import proves
from .steps import Equal
from .symbols import Definition, Partial, array, b, c, ell, fresh, i, j, k, m, n, other_key, total

eps = Symbol("epsilon", nonnegative=True)
gamma_q, gamma_k, value = array("gamma^Q", positive=True), array("gamma^K", positive=True), array("V")
slot, mass = array("{\\tilde V}"), array("Z", positive=True)
denominator, output = array("D", positive=True), array("O")
scaled, pull = array("P"), array("r")
upstream, back_slot, back_mass = array("G"), array("{\\bar V}"), array("{\\bar Z}")
score_q, score_k, slope = array("s^Q"), array("s^K"), array("u")
mean, weight = array("m'"), array("w", positive=True)
sees = array("chi", nonnegative=True)

LOSS = "The loss is differentiable; G is its gradient in O, so to first order the loss changes as the sum of G·O does."
SEES = "χ is 1 where a query may see a key, else 0: all ones, a key mask, or a lower triangle."


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
SEEN_DENOMINATOR = Definition(denominator[i], seen_denominator)
SEEN_OUTPUT = Definition(output[i, c], seen_output)
SEEN_SLOT, SEEN_MASS = Definition(slot[i, k, c], seen_slot), Definition(mass[i, k], seen_mass)

loss = total(upstream[n, b] * output[n, b], n, b)


BACK = "A letter with a bar is the gradient of the loss in what the letter stands for."


@proves("G6", "Read and write, backwards", assumptions=[LOSS, BACK], where=[DENOMINATOR, OUTPUT, SCALED, PULL])
def backward_pass():
    """Differentiate the read by what it reads, and the write by what is written."""
    written = total(gamma_k[other_key, ell] * value[other_key, b], other_key)
    held = total(gamma_k[other_key, ell], other_key)
    memory_loss = total(back_slot[ell, b] * written, ell, b) + total(back_mass[ell] * held, ell)
    by_query = total(scaled[i, c] * slot[k, c], c) + pull[i] * mass[k]
    by_key = total(value[j, c] * back_slot[k, c], c) + back_mass[k]
    return [
        Equal("query responsibilities", Partial(loss, gamma_q[i, k]), by_query, "numerator and denominator"),
        Equal("slots", Partial(loss, slot[k, c]), total(gamma_q[i, k] * scaled[i, c], i), "every query reads the slot"),
        Equal("masses", Partial(loss, mass[k]), total(gamma_q[i, k] * pull[i], i), "through the denominator"),
        Equal("key responsibilities", Partial(memory_loss, gamma_k[j, k]), by_key, "into the slot and into its mass"),
        Equal("values", Partial(memory_loss, value[j, c]), total(gamma_k[j, k] * back_slot[k, c], k),
              "a value is written to every slot"),
    ]  # fmt: skip


@proves("G6b", "Read and write, backwards, for a causal query or a masked key", row="G6", assumptions=[LOSS, SEES],
        where=[SEEN_DENOMINATOR, SEEN_OUTPUT, SEEN_SLOT, SEEN_MASS, SCALED, PULL])  # fmt: skip
def backward_pass_of_what_is_seen():
    """Differentiate the read when each query sees its own keys."""
    by_query = total(scaled[i, c] * slot[i, k, c], c) + pull[i] * mass[i, k]
    by_key = total(sees[i, j] * gamma_q[i, k] * (total(scaled[i, c] * value[j, c], c) + pull[i]), i)
    by_value = total(sees[i, j] * gamma_q[i, k] * gamma_k[j, k] * scaled[i, c], i, k)
    return [
        Equal("query responsibilities", Partial(loss, gamma_q[i, k]), by_query, "with the memory of its own keys"),
        Equal("values", Partial(loss, value[j, c]), by_value, "from the queries that see the key"),
        Equal("key responsibilities", Partial(loss, gamma_k[j, k]), by_key, "from the queries that see the key"),
    ]


def softmax_of(score):
    """Return a definition's meaning: the softmax of an array of scores."""

    def meaning(token, component):
        other, size = fresh(ell)
        return exp(score[token, component]) / summed(exp(score[token, other]), (other, size))

    return meaning


def slot_mean(component, column):
    """Return an entry of a slot's mean, with ε as one more key of value 0 (S5)."""
    return slot[component, column] / (mass[component] + eps)


def mean_weight(query, component):
    """Return the weight of a slot's mean in an output (S5)."""
    other, size = fresh(ell)
    whole = summed(gamma_q[query, other] * (mass[other] + eps), (other, size))
    return gamma_q[query, component] * (mass[component] + eps) / whole


SOFTMAX_Q = Definition(gamma_q[i, k], softmax_of(score_q))
SOFTMAX_K = Definition(gamma_k[j, k], softmax_of(score_k))
MEAN, WEIGHT = Definition(mean[k, c], slot_mean), Definition(weight[i, k], mean_weight)
MEANS = [MEAN, WEIGHT, DENOMINATOR, OUTPUT, SOFTMAX_Q]
READ_KEYS = [SEEN_DENOMINATOR, SEEN_OUTPUT, SOFTMAX_Q, SOFTMAX_K]


@proves("B2", "Score gradients that no small denominator can blow up", assumptions=[LOSS], where=MEANS)
def bounded_score_gradients():
    """Differentiate the read by the scores of the query."""
    return [
        Equal("output", output[i, c], total(weight[i, k] * mean[k, c], k), "the weights are those of the slot means"),
        Equal("of the output", Partial(output[i, c], score_q[i, k]), weight[i, k] * (mean[k, c] - output[i, c]),
              "a softmax whose weights are w"),
        Equal("of the loss", Partial(loss, score_q[i, k]),
              total(weight[i, k] * upstream[i, c] * (mean[k, c] - output[i, c]), c), "nothing is divided by D"),
    ]  # fmt: skip


@proves("B2b", "An output and the scores of a key", row="B2", assumptions=[SEES], where=READ_KEYS)
def output_through_a_key():
    """Differentiate the output by a key's responsibilities, then by its scores."""
    gap = sees[i, j] * (value[j, c] - output[i, c]) / denominator[i]
    overlap = total(gamma_q[i, ell] * gamma_k[j, ell], ell)
    weight_of_key = sees[i, j] * overlap / denominator[i]
    moved = total(Partial(output[i, c], score_k[j, k]) * slope[k, m], k)
    own = total(gamma_k[j, k] * slope[k, m], k)
    shared = total(gamma_q[i, k] * gamma_k[j, k] * slope[k, m], k) / overlap
    return [
        Equal("scores", Partial(output[i, c], score_k[j, k]), gap * gamma_k[j, k] * (gamma_q[i, k] - overlap),
              "the value's distance from the output, times a centred responsibility"),
        Equal("key", moved, weight_of_key * (value[j, c] - output[i, c]) * (shared - own),
              "two averages of the slopes u of the scores are no farther apart than two of the u"),
    ]  # fmt: skip
