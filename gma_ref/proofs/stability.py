"""Proofs of the algebra behind the stability bounds (L1 to L6), for any K and d_r unless a claim says otherwise."""

from sympy import Matrix, Rational, Symbol, diff, exp, sqrt, symbols

from .claim import FIXED, proves
from .routing import POSITIVE_VARIANCE, SCORE, SOFTMAX, gamma, mu, score, variance, x
from .steps import Bounded, Equal
from .symbols import Apart, Definition, Partial, array, ell, i, k, m, r, total

gradient, precision = array("u"), array("p", positive=True)
lowest, width = symbols("a_0 D", real=True)
slope, below, above = array("a"), array("b", positive=True), array("c", positive=True)
part, plus, minus = array("h"), array("w^+", nonnegative=True), array("w^-", nonnegative=True)
POINT = Symbol("i", integer=True, positive=True)

BETWEEN = "D bounds the distance between any two of the u; in a direction, all slopes a lie in an interval of length D."


def inverse_variance(component, axis):
    """Return a precision."""
    return 1 / variance[component, axis]


def score_gradient(component, axis):
    """Return the gradient of a score in its token, u of the text."""
    return -(x[i, axis] - mu[component, axis]) * precision[component, axis]


PRECISION = Definition(precision[k, m], inverse_variance)
GRADIENT = Definition(gradient[k, m], score_gradient)
MIXTURE = [SOFTMAX, SCORE, GRADIENT, PRECISION]


@proves(
    "L1", "The score gradient, and what bounds it", assumptions=[POSITIVE_VARIANCE], where=[SCORE, GRADIENT, PRECISION]
)
def score_gradient_in_a_ball():
    """Differentiate the score by its token, and split the gradient."""
    floor = Symbol("sigma^2_min", positive=True)
    over = Symbol("t", nonnegative=True)
    return [
        Equal("split", gradient[k, m], mu[k, m] * precision[k, m] - x[i, m] * precision[k, m],
              "two vectors, of length at most M/σ²_min and R/σ²_min"),
        Bounded("precision", 1 / (floor + over), 1 / floor, over / (floor * (floor + over)),
                "a variance t above the floor"),
        Equal("gradient", Partial(score[i, k], x[i, m]), gradient[k, m], "the score's gradient is u"),
    ]  # fmt: skip


@proves("L2", "The Jacobian of the responsibilities, one component", assumptions=[POSITIVE_VARIANCE], where=MIXTURE)
def component_bound():
    """Differentiate a responsibility by the token, and centre."""
    average = total(gamma[i, ell] * gradient[ell, m], ell)
    differences = total(gamma[i, ell] * (gradient[k, m] - gradient[ell, m]), ell)
    own = gamma[i, k] * (1 - gamma[i, k])
    return [
        Equal("row of the Jacobian", Partial(gamma[i, k], x[i, m]), gamma[i, k] * (gradient[k, m] - average),
              "Eq. (17) times the gradients of the scores"),
        Equal("differences", gamma[i, k] * (gradient[k, m] - average), gamma[i, k] * differences,
              "responsibilities sum to 1, so the average can be taken apart"),
        Equal("their weights", gamma[i, k] * total(gamma[i, ell] * Apart(k, ell), ell), own,
              "each difference is at most D long, and that with itself is 0: at most D times this"),
        Bounded("a quarter", own, Rational(1, 4), (gamma[i, k] - Rational(1, 2)) ** 2, "so at most D/4"),
    ]  # fmt: skip


def point_between(component):
    """Return a slope anywhere in an interval of length D."""
    return lowest + width * below[component] / (below[component] + above[component])


BETWEEN_ENDS = Definition(slope[k], point_between)


@proves("L3", "From one direction to the sum of all changes", where=[BETWEEN_ENDS, SOFTMAX],
        assumptions=[BETWEEN, "Every point inside the interval; its ends by continuity."])  # fmt: skip
def variance_bound():
    """Bound the mean distance by the variance, and the variance by the interval."""
    mean = total(gamma[i, k] * slope[k], k)
    change = array("d")
    variance_of = total(gamma[i, k] * slope[k] ** 2, k) - mean**2
    inside = total(gamma[i, k] * below[k] * above[k] / (below[k] + above[k]) ** 2, k)
    pairs = total(gamma[i, k] * gamma[i, r] * (change[k] - change[r]) ** 2, k, r) / 2
    mean_square = total(gamma[i, k] * change[k] ** 2, k)
    return [
        Bounded("mean and root mean square", total(gamma[i, k] * change[k], k) ** 2, mean_square, pairs,
                "the weights sum to 1; d is the distance of a slope from the mean"),
        Bounded("variance on an interval", variance_of, width**2 / 4,
                width**2 * inside + (mean - lowest - width / 2) ** 2,
                "so the sum of the absolute changes is at most D/2"),
    ]  # fmt: skip


@proves("L4", "From the sum of all changes to their length",
        assumptions=["The changes sum to 0: w⁺, what rises, and w⁻, what falls, have the same sum."])  # fmt: skip
def length_bound():
    """Compare the sum of squares with the square of the sum."""
    up, down = total(plus[k], k), total(minus[k], k)
    both = total(plus[k] ** 2, k) + total(minus[k] ** 2, k)
    cross = total(Apart(k, r) * plus[k] * plus[r], k, r) + total(Apart(k, r) * minus[k] * minus[r], k, r)
    return [
        Bounded("squares", both, up**2 + down**2, cross, "the products of different entries are not negative"),
        Equal("half the square", (up**2 + down**2), (up + down) ** 2 / 2 + (up - down) ** 2 / 2,
              "the sums are equal, so the last term is 0: the length is at most the sum over √2"),
    ]  # fmt: skip


@proves(
    "L4b", "The bounds L2 to L4 are reached", row="L4", scope=FIXED, sizes="K = 2, d_r = 2, equal covariances, midpoint"
)
def bounds_are_reached():
    """Put the midpoint of two means into the Jacobian."""
    p1, p2, distance1, distance2 = symbols("p_1 p_2 a_1 a_2", real=True)
    here = Matrix([0, 0])
    means = [Matrix([distance1, distance2]), Matrix([-distance1, -distance2])]
    precisions = Matrix([[p1, 0], [0, p2]])
    slopes = [precisions * (mean - here) for mean in means]
    largest = (slopes[0] - slopes[1]).dot(slopes[0] - slopes[1])
    half = Rational(1, 2)
    rows = [half * (slope - half * slopes[0] - half * slopes[1]) for slope in slopes]
    return [
        Equal("component", rows[0].dot(rows[0]), largest / 16, "the square of D/4"),
        Equal("opposite", (rows[0] + rows[1]).dot(rows[0] + rows[1]), 0, "what one gains the other loses: D/2 in sum"),
        Equal("length", sum(row.dot(row) for row in rows), largest / 8, "the square of D/(2√2)"),
    ]


@proves("L5", "How far two score gradients are apart", where=[GRADIENT])
def difference_of_gradients():
    """Collect what multiplies the token."""
    apart = -(precision[k, m] - precision[r, m]) * x[i, m]
    fixed = precision[k, m] * mu[k, m] - precision[r, m] * mu[r, m]
    shared = array("q", positive=True)
    equal = shared[m] * (mu[k, m] - x[i, m]) - shared[m] * (mu[r, m] - x[i, m])
    return [
        Equal("equal covariances", equal, shared[m] * (mu[k, m] - mu[r, m]), "the token drops out"),
        Equal("difference", gradient[k, m] - gradient[r, m], apart + fixed,
              "a part that grows with R, and one that does not"),
    ]  # fmt: skip


@proves("L6", "A mixture whose Jacobian grows without bound", scope=FIXED, sizes="the mixture named here")
def only_local():
    """Walk out on the diagonal of K = 2, d_r = 2, μ = 0, variances (1, 1/4) and (1/4, 1), equal priors."""
    first, second = symbols("x_1 x_2", real=True)
    far = Symbol("t", positive=True)
    scores = [-half_distance(first, second, 1, 4), -half_distance(first, second, 4, 1)]
    weights = [exp(score) / (exp(scores[0]) + exp(scores[1])) for score in scores]
    here = {first: far, second: far}
    slopes = [diff(weights[0], variable).subs(here) for variable in (first, second)]
    return [
        Equal("tie", weights[0].subs(here), Rational(1, 2), "the two determinants are equal, and so are the distances"),
        Equal("first coordinate", slopes[0], 3 * far / 4, "differentiate, then walk"),
        Equal("second coordinate", slopes[1], -3 * far / 4, "the other way"),
        Equal("length", sqrt(slopes[0] ** 2 + slopes[1] ** 2), 3 * sqrt(2) / 4 * far, "it grows with t"),
    ]


def half_distance(first, second, *precisions):
    """Return half the squared Mahalanobis distance to the origin."""
    return (precisions[0] * first**2 + precisions[1] * second**2) / 2
