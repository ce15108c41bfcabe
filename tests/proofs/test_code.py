"""What is proved is what the package computes, Part I: the formula of each claim against the reference function."""

import numpy as np
import pytest

import gma_ref
from gma_ref.proofs import claim
from gma_ref.proofs.evaluate import evaluate
from gma_ref.proofs.symbols import RANGE, c, i, j, k, m
from gma_ref.reference.attention import causal_read
from tests.formulas import EPS, SIZES, agree, as_many_keys, formula, random_arrays


@pytest.fixture(scope="module")
def own():
    return random_arrays()[0]


@pytest.fixture(scope="module")
def arrays():
    return random_arrays()[1]


def test_sizes_are_distinct_so_that_no_axis_passes_for_another():
    assert len(set(SIZES.values())) == len(SIZES) == len(set(RANGE.values()))


def test_densities(own, arrays):
    density = np.exp(gma_ref.log_density(own["x"], own["mixture"]))
    agree(np.exp(own["mixture"].log_prior) * density, formula("16", "exponential", arrays, (i, k)))
    one = gma_ref.GaussianMixture([[0.3]], [[1.7]], [0.0])
    proved = formula("2", "positive", arrays, (), "left", **{"x": 0.8, "mu": 0.3, "sigma^2": 1.7})
    agree(np.exp(gma_ref.log_density([[0.8]], one))[0, 0], proved)


def test_scores_and_responsibilities(own, arrays):
    agree(gma_ref.scores(own["x"], own["mixture"]), formula("16", "logarithm", arrays, (i, k), "left"))
    agree(gma_ref.scores(own["x"], own["mixture"]), formula("16", "logarithm", arrays, (i, k), "right"))
    agree(gma_ref.responsibilities(own["x"], own["mixture"]), formula("3", "Bayes' rule", arrays, (i, k), "left"))
    agree(gma_ref.responsibilities(own["x"], own["mixture"]), formula("3", "Bayes' rule", arrays, (i, k), "right"))


def test_parameters(own, arrays):
    mixture = own["mixture"]
    agree(mixture.variance - EPS, formula("14", "floor", arrays, (k, m), "left"))
    agree(np.exp(mixture.log_prior), formula("15", "positive", arrays, (k,), "left"))


def test_write(own, arrays):
    sums = claim("7").definitions
    agree(own["memory"].Z, formula("6", "mass", arrays, (k,), definitions=sums))
    agree(own["memory"].V_tilde, formula("6", "slot", arrays, (k, c), definitions=sums))


def test_read_and_weights(own, arrays):
    gamma_q, gamma_k = own["gamma_q"], own["gamma_k"]
    weights = gma_ref.attention_weights(gamma_q, gamma_k, eps=EPS)
    output = gma_ref.read_memory(gamma_q, own["memory"], eps=EPS)
    sums = claim("7").definitions
    agree(output, formula("8", "output", arrays, (i, c), definitions=sums))
    agree(output, formula("7", "output", arrays, (i, c), "left"))
    agree(output, formula("7", "output", arrays, (i, c), "right"))
    agree(gma_ref.affinity(gamma_q, gamma_k), formula("11", "entry", arrays, (i, j), definitions=sums))
    agree(gma_ref.affinity(gamma_q, gamma_k) @ own["v"], formula("7", "numerator", arrays, (i, c)))
    agree(weights, formula("9", "positive", arrays, (i, j), "left"))
    agree(weights.sum(axis=-1), formula("9", "row sum", arrays, (i,)))
    agree(output, formula("10", "without ε in the weights", arrays, (i, c)))
    agree(output, formula("10", "exactly", arrays, (i, c)))


def test_multiplications():
    first, saved = (claim("AppB").step("difference").left, claim("AppB").step("difference").right)
    sizes = {symbol: {"N": 7, "K": 3, "d_v": 5}[symbol.name] for symbol in first.free_symbols}
    cost = gma_ref.routing_cost(7, 7, 3, 2, 5)
    write_first = cost["write"] + cost["read"]
    assert first.subs(sizes) == saved.subs(sizes) == 7 * 7 * (3 + 5) - write_first


def test_causal_form(own, arrays):
    sizes, own, arrays = as_many_keys(own, arrays)

    def proved(label, step, over, side="right"):
        return formula(label, step, arrays, over, side, sizes=sizes)

    gamma_q, gamma_k, v = own["gamma_q"], own["gamma_k"], own["v"]
    memory = gma_ref.prefix_memory(gamma_k, v)
    mass, slots = claim("5b").definitions[::-1]
    agree(memory.Z, formula_of(mass, arrays, (i, k), sizes))
    agree(memory.V_tilde, formula_of(slots, arrays, (i, k, c), sizes))
    weights = gma_ref.attention_weights(gamma_q, gamma_k, causal=True, eps=EPS)
    output = causal_read(gamma_q, gamma_k, v, EPS)
    agree(output, proved("8b", "output", (i, c), "left"))
    agree(output, proved("8b", "output", (i, c), "right"))
    agree(weights.sum(axis=-1), proved("9b", "row sum", (i,)))
    agree(np.tril(weights), np.tril(proved("9b", "positive", (i, j), "left")))
    agree(output, proved("10b", "exactly", (i, c)))
    agree(weights, proved("R3", "entry", (i, j), "left"))
    agree(output, proved("R3", "output", (i, c), "left"))


def formula_of(definition, arrays, over, sizes):
    """Evaluate what a definition says."""
    return evaluate(definition.entry, over, sizes, arrays, [definition])
