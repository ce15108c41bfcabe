"""Proofs of the algebra behind the stability bounds (L1 to L6), for any K and d_r unless a claim says otherwise."""

from sympy import Rational, Symbol, exp, sqrt, symbols

from .claim import ALGEBRA, FIXED, proves
from .routing import POSITIVE_VARIANCE, SCORE, SOFTMAX, gamma, mu, score, variance, x
from .steps import Bounded, Equal
from .symbols import Apart, At, Definition, Partial, array, ell, i, k, m, r, total

gradient, row, precision = array("u"), array("J"), array("p", positive=True)
lowest, width = symbols("a_0 D", real=True)
slope, below, above = array("a"), array("b", positive=True), array("c", positive=True)
plus, minus = array("w^+", nonnegative=True), array("w^-", nonnegative=True)

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
    "L1",
    "The score gradient, and what bounds it",
    scope=ALGEBRA,
    assumptions=[POSITIVE_VARIANCE],
    where=[SCORE, GRADIENT, PRECISION],
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


@proves(
    "L2",
    "The Jacobian of the responsibilities, one component",
    scope=ALGEBRA,
    assumptions=[POSITIVE_VARIANCE],
    where=MIXTURE,
)
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


@proves("L3", "From one direction to the sum of all changes", scope=ALGEBRA, where=[BETWEEN_ENDS, SOFTMAX],
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


@proves("L4", "From the sum of all changes to their length", scope=ALGEBRA,
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


def row_at_the_midpoint(component, axis):
    """Return an entry of the Jacobian where both responsibilities are ½."""
    mean = (gradient[1, axis] + gradient[2, axis]) / 2
    return (gradient[component, axis] - mean) / 2


ROW = Definition(row[k, m], row_at_the_midpoint)


@proves("L4b", "The bounds L2 to L4 are reached", row="L4", scope=FIXED, sizes="K = 2 and any d_r", where=[ROW],
        part="that the bounds are reached",
        assumptions=["Equal covariances, so that u₁ − u₂ is the same everywhere (L5), of length D.",
                     "J is the row of L2 with γ₁ = γ₂ = ½."])  # fmt: skip
def bounds_are_reached():
    """Look where the two responsibilities are equal."""
    square = total((gradient[1, m] - gradient[2, m]) ** 2, m)
    return [
        Equal("component", total(row[1, m] ** 2, m), square / 16, "the square of D/4"),
        Equal("opposite", row[1, m], -row[2, m], "what one gains the other loses: D/2 in sum"),
        Equal("length", total(row[1, m] ** 2, m) + total(row[2, m] ** 2, m), square / 8, "the square of D/(2√2)"),
    ]


@proves("L5", "How far two score gradients are apart", scope=ALGEBRA, where=[GRADIENT])
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


x_1, x_2 = symbols("x_1 x_2", real=True)
first = array("gamma")


def weight_of_first(component):
    """Return the first of two responsibilities with μ = 0, precisions (1, 4) and (4, 1), equal priors."""
    scores = -(x_1**2 + 4 * x_2**2) / 2, -(4 * x_1**2 + x_2**2) / 2
    return exp(scores[component - 1]) / (exp(scores[0]) + exp(scores[1]))


FIRST = Definition(first[1], weight_of_first)


@proves("L6", "A mixture whose Jacobian grows without bound", scope=FIXED, where=[FIRST],
        sizes="K = 2, d_r = 2, μ = 0, variances (1, ¼) and (¼, 1), equal priors")  # fmt: skip
def only_local():
    """Differentiate, then walk out on the diagonal."""
    far = Symbol("t", positive=True)
    slopes = [At(Partial(first[1], variable), far, x_1, x_2) for variable in (x_1, x_2)]
    return [
        Equal("tie", At(first[1], far, x_1, x_2), Rational(1, 2), "equal distances, equal determinants"),
        Equal("first coordinate", slopes[0], 3 * far / 4, "differentiate, then put in (t, t)"),
        Equal("second coordinate", slopes[1], -3 * far / 4, "the other way"),
        Equal("squared length", slopes[0] ** 2 + slopes[1] ** 2, (3 * sqrt(2) / 4 * far) ** 2, "it grows with t"),
    ]
