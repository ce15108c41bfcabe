"""The Mahalanobis trace trap (G7): what is constant, and what keeps its gradient."""

from sympy import Dummy, Sum

from .claim import ALGEBRA, FIXED, proves
from .routing import SOFTMAX, gamma, score
from .steps import Equal
from .symbols import Definition, N, Partial, array, d_r, fresh, i, k, m, n, p, total

weight = array("w", positive=True)
away, own = array("y"), array("{y^{(k)}}")
spread, spreads, covariance = array("S"), array("{S^{(k)}}"), array("S")
inverse, unit = array("T"), array("U")

AWAY = "y is the way from a mean to a token, y = x − μ, whatever tokens and means are; not all of a column is zero."


def second_moment(axis):
    """Return the weighted second moment of one coordinate about the mean."""
    token, size = fresh(i)
    numerator = Sum(weight[token] * away[token, axis] ** 2, (token, 1, size))
    return numerator / Sum(weight[token], (token, 1, size))


def second_moment_of(component, axis):
    """Return the second moment about a component's mean, weighted by its responsibilities."""
    token, size = fresh(i)
    numerator = Sum(gamma[token, component] * own[token, component, axis] ** 2, (token, 1, size))
    return numerator / Sum(gamma[token, component], (token, 1, size))


SPREAD = Definition(spread[m], second_moment)
SPREADS = Definition(spreads[k, m], second_moment_of)


@proves("G7", "The trace trap with fixed weights, diagonal covariance", part="diagonal covariance, fixed weights",
        assumptions=[AWAY], where=[SPREAD])  # fmt: skip
def trap_with_fixed_weights():
    """Sum the squared Mahalanobis distances to the moments of the same tokens."""
    everything = total(weight[i] * away[i, m] ** 2 / spread[m], i, m)
    return [
        Equal("one coordinate", total(weight[i] * away[i, m] ** 2 / spread[m], i), total(weight[i], i),
              "numerator and denominator are the same sum"),
        Equal("no gradient", Partial(everything, away[n, p]), 0, "so no token and no mean is moved"),
        Equal("constant", everything, d_r * total(weight[i], i), "the same for each coordinate"),
    ]  # fmt: skip


@proves("G7b", "The trace trap with responsibilities computed anew", row="G7", assumptions=[AWAY],
        part="diagonal covariance, weights computed anew", where=[SPREADS, SOFTMAX])  # fmt: skip
def trap_with_responsibilities():
    """Let the weights be responsibilities, and sum over one component or over all."""
    one = total(gamma[i, k] * own[i, k, m] ** 2 / spreads[k, m], i, m)
    everything = total(gamma[i, k] * own[i, k, m] ** 2 / spreads[k, m], i, m, k)
    mass = total(gamma[i, k], i)
    return [
        Equal("one component", one, d_r * mass, "its weights now depend on the tokens"),
        Equal("keeps a gradient", Partial(one, score[n, k]), d_r * gamma[n, k] * (1 - gamma[n, k]),
              "that of its mass, by Eq. (17b)"),
        Equal("all components", everything, d_r * N, "responsibilities sum to 1, so nothing is left to move"),
    ]  # fmt: skip


def covariance_of(row, column):
    """Return an entry of the weighted second moment about the mean."""
    token, size = fresh(i)
    numerator = Sum(weight[token] * away[token, row] * away[token, column], (token, 1, size))
    return numerator / Sum(weight[token], (token, 1, size))


def product_with_the_inverse(row, column):
    """Return an entry of the product of the inverse and the covariance."""
    axis = Dummy("h", integer=True, positive=True)  # not p, which the page prints as the column
    return Sum(inverse[row, axis] * covariance[axis, column], (axis, 1, d_r))


COVARIANCE = Definition(covariance[m, p], covariance_of)
PRODUCT = Definition(unit[m, p], product_with_the_inverse)


@proves("G7d", "The trace trap with fixed weights, full covariance of any size", row="G7", scope=ALGEBRA,
        part="full covariance, fixed weights", where=[COVARIANCE, PRODUCT],
        assumptions=[AWAY, "T is the inverse of S: U = T·S is the identity, whose trace is d_r."])  # fmt: skip
def trap_is_a_trace():
    """Gather the sum over tokens into the covariance, whatever the matrix between the two ways."""
    distances = total(weight[i] * away[i, m] * inverse[m, p] * away[i, p], i, m, p)
    return [
        Equal("trace", distances, total(weight[i], i) * total(unit[m, m], m),
              "the sum of the weights times the trace of the identity"),
    ]  # fmt: skip


@proves("G7c", "The trace trap with fixed weights, full covariance", row="G7", scope=FIXED,
        sizes="d_r = 2 and any number of tokens", part="full covariance, fixed weights",
        assumptions=[AWAY], where=[COVARIANCE])  # fmt: skip
def trap_with_full_covariance():
    """Write out the inverse of a 2 by 2 covariance."""
    determinant = covariance[1, 1] * covariance[2, 2] - covariance[1, 2] ** 2
    own_terms = away[i, 1] ** 2 * covariance[2, 2] + away[i, 2] ** 2 * covariance[1, 1]
    distance = (own_terms - 2 * away[i, 1] * away[i, 2] * covariance[1, 2]) / determinant
    mass = total(weight[i], i)
    return [
        Equal("numerator", total(weight[i] * distance * determinant, i), 2 * mass * determinant,
              "each sum over tokens is an entry of the covariance again"),
        Equal("constant", total(weight[i] * distance, i), 2 * mass, "d_r times the sum of the weights"),
    ]  # fmt: skip
