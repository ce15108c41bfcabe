"""Proofs of Part I: densities and responsibilities, write and read, and why nobody needs the matrix of weights."""

from sympy import Integral, Product, Sum, Symbol, exp, log, oo, pi, sqrt, symbols

from .claim import FIXED, proves
from .steps import Equal, Positive
from .symbols import Definition, array, ell, fresh, i, k, m, total

x, mu = array("x"), array("mu")
variance = array("sigma^2", positive=True)
prior = array("pi", positive=True)
score, gamma = array("s"), array("gamma", positive=True)

POSITIVE_VARIANCE = "Every variance and every prior is positive."


def normal(point, mean, spread):
    """Return the density of one coordinate, Eq. (2)."""
    return exp(-((point - mean) ** 2) / (2 * spread)) / sqrt(2 * pi * spread)


def weighted_density(token, component):
    """Return prior times density of a component, for any d_r."""
    axis, size = fresh(m)
    one = normal(x[token, axis], mu[component, axis], variance[component, axis])
    return prior[component] * Product(one, (axis, 1, size))


def log_score(token, component):
    """Return the score of Eq. (16)."""
    axis, size = fresh(m)
    spread = variance[component, axis]
    summand = log(2 * pi * spread) + (x[token, axis] - mu[component, axis]) ** 2 / spread
    return log(prior[component]) - Sum(summand, (axis, 1, size)) / 2


def softmax(token, component):
    """Return the softmax of the scores."""
    other, size = fresh(ell)
    return exp(score[token, component]) / Sum(exp(score[token, other]), (other, 1, size))


SCORE = Definition(score[i, k], log_score)
SOFTMAX = Definition(gamma[i, k], softmax)


@proves(
    "2",
    "The density of a coordinate integrates to 1",
    scope=FIXED,
    sizes="one coordinate",
    part="that its mass is 1",
    assumptions=["The variance is positive. With a diagonal covariance the coordinates integrate one by one."],
)
def density_has_mass_one():
    """Integrate Eq. (2); with a diagonal covariance the coordinates integrate one by one."""
    point, mean = symbols("x mu", real=True)
    spread = Symbol("sigma^2", positive=True)
    density = normal(point, mean, spread)
    return [
        Positive("positive", density, "an exponential over a root"),
        Equal("mass", Integral(density, (point, -oo, oo)), 1, "the Gaussian integral, for one coordinate"),
    ]


@proves("16", "The score is the logarithm of prior times density", assumptions=[POSITIVE_VARIANCE], where=[SCORE])
def score_is_a_logarithm():
    """Compare the exponential of Eq. (16) with prior times Eq. (2)."""
    return [
        Equal("exponential", exp(score[i, k]), weighted_density(i, k), "the exponential of a sum is a product"),
        Equal("logarithm", score[i, k], log(weighted_density(i, k)), "the logarithm of a product is a sum"),
    ]


@proves(
    "3", "The responsibilities are the softmax of the scores", assumptions=[POSITIVE_VARIANCE], where=[SCORE, SOFTMAX]
)
def responsibilities_are_a_softmax():
    """Compare Bayes' rule, Eq. (3), with the softmax of Eq. (16)."""
    bayes = weighted_density(i, k) / total(weighted_density(i, ell), ell)
    return [
        Positive("positive", gamma[i, k], "a quotient of positive numbers"),
        Equal("rows sum to 1", total(gamma[i, k], k), 1, "numerators and denominator are the same sum"),
        Equal("Bayes' rule", gamma[i, k], bayes, "Eq. (16) put into the softmax"),
    ]
