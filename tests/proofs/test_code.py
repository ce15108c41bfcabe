"""What is proved is what the package computes: the formula of each claim, evaluated, against the reference function."""

import numpy as np
import pytest

import gma_ref
from gma_ref.proofs import claim
from gma_ref.proofs import memory as write_read
from gma_ref.proofs.evaluate import evaluate
from gma_ref.proofs.routing import gamma, mu, prior, score, variance, x
from gma_ref.proofs.softmax import alpha, omega
from gma_ref.proofs.symbols import RANGE, K, N, c, d_r, d_v, i, j, k, m

SIZES = {K: 3, N: 4, d_r: 2, d_v: 5}
EPS = 0.1


@pytest.fixture(scope="module")
def numbers():
    """Random numbers for every array, and what follows from them by the package."""
    rng = np.random.default_rng(4)
    tokens, means = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    free, logits = rng.normal(size=(3, 2)), rng.normal(size=3)
    mixture = gma_ref.GaussianMixture.from_unconstrained(means, free, logits, eps_sigma=EPS)
    gamma_q, gamma_k = rng.dirichlet(np.ones(3), size=(2, 4))
    values = rng.normal(size=(4, 5))
    return {
        "mixture": mixture,
        "memory": gma_ref.write_memory(gamma_k, values),
        x: tokens,
        mu: means,
        omega: free,
        alpha: logits,
        variance: mixture.variance,
        prior: np.exp(mixture.log_prior),
        score: gma_ref.scores(tokens, mixture),
        gamma: gma_ref.responsibilities(tokens, mixture),
        write_read.gamma_q: gamma_q,
        write_read.gamma_k: gamma_k,
        write_read.value: values,
    }


def formula(label, step, numbers, over, side="right", definitions=(), **scalars):
    """Evaluate one side of a step, for every value of the indices `over`."""
    expression = getattr(claim(label).step(step), side)
    return evaluate(expression, over, SIZES, numbers, definitions or claim(label).definitions, **scalars)


def agree(computed, proved):
    """Compare with what is proved, to nearly all digits."""
    assert np.shape(computed) == np.shape(proved)
    np.testing.assert_allclose(computed, proved, rtol=1e-11, atol=1e-13)


def test_sizes_are_distinct_so_that_no_axis_passes_for_another():
    assert len(set(SIZES.values())) == len(SIZES) == len(set(RANGE.values()))


def test_densities_and_responsibilities(numbers):
    density = np.exp(gma_ref.log_density(numbers[x], numbers["mixture"]))
    agree(numbers[prior] * density, formula("16", "exponential", numbers, (i, k)))
    agree(gma_ref.scores(numbers[x], numbers["mixture"]), formula("16", "logarithm", numbers, (i, k), "left"))
    agree(numbers[gamma], formula("3", "Bayes' rule", numbers, (i, k)))
    one = gma_ref.GaussianMixture([[0.3]], [[1.7]], [0.0])
    density = claim("2").step("positive").left.subs({"x": 0})
    values = {symbol: {"x": 0.8, "mu": 0.3, "sigma^2": 1.7}[symbol.name] for symbol in density.free_symbols}
    agree(np.exp(gma_ref.log_density([[0.8]], one))[0, 0], float(density.subs(values)))


def test_parameters(numbers):
    mixture = numbers["mixture"]
    agree(mixture.variance - EPS, formula("14", "floor", numbers, (k, m), "left", epsilon_sigma=EPS))
    agree(np.exp(mixture.log_prior), formula("15", "positive", numbers, (k,), "left"))


def test_write(numbers):
    memory = numbers["memory"]
    agree(memory.Z, formula("6", "mass", numbers, (k,), "right", claim("7").definitions))
    agree(memory.V_tilde, formula("6", "slot", numbers, (k, c), "right", claim("7").definitions))


def test_read_and_weights(numbers):
    gamma_q, gamma_k, values = (numbers[name] for name in (write_read.gamma_q, write_read.gamma_k, write_read.value))
    weights = gma_ref.attention_weights(gamma_q, gamma_k, eps=EPS)
    output = gma_ref.read_memory(gamma_q, numbers["memory"], eps=EPS)
    agree(output, formula("7", "output", numbers, (i, c), "left", epsilon=EPS))
    agree(output, formula("8", "output", numbers, (i, c), "right", claim("7").definitions, epsilon=EPS))
    agree(gma_ref.affinity(gamma_q, gamma_k) @ values, formula("7", "numerator", numbers, (i, c)))
    agree(weights, formula("9", "positive", numbers, (i, j), "left", epsilon=EPS))
    agree(weights.sum(axis=-1), formula("9", "row sum", numbers, (i,), epsilon=EPS))
    agree(weights @ values, formula("10", "without ε in the weights", numbers, (i, c), epsilon=EPS))
    agree(weights @ values, formula("10", "exactly", numbers, (i, c), epsilon=EPS))
