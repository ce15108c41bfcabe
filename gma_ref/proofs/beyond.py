"""Proofs for what goes beyond the paper, about stability: the read, and better constants (B1, B4, B6)."""

from sympy import Rational, Sum, Symbol, exp, sqrt, symbols

from .claim import ALGEBRA, FIXED, proves
from .memory_gradients import mean, output, weight
from .routing import score
from .steps import Bounded, Equal
from .symbols import Definition, Partial, array, c, ell, fresh, i, k, m, total

slope, held = array("u"), array("M", positive=True)
x_m, mu_k, mu_l = symbols("x mu_k mu_l", real=True)


def weight_of_mean(query, component):
    """Return the weight of a slot mean, a softmax of s + log(Z + ε)."""
    other, size = fresh(ell)
    return (
        exp(score[query, component]) * held[component] / Sum(exp(score[query, other]) * held[other], (other, 1, size))
    )


def mixed(query, column):
    """Return the output as a mixture of slot means."""
    component, size = fresh(k)
    return Sum(weight[query, component] * mean[component, column], (component, 1, size))


READ = [Definition(weight[i, k], weight_of_mean), Definition(output[i, c], mixed)]


@proves("B1", "The Jacobian of the read is a covariance", where=READ,
        assumptions=["The memory is fixed. M is Z + ε, m' the slot means, u the gradient of a score."])  # fmt: skip
def read_jacobian():
    """Chain the softmax over the slots with the gradients u of the scores."""
    mean_of_slope = total(weight[i, ell] * slope[ell, m], ell)
    moved = total(Partial(output[i, c], score[i, k]) * slope[k, m], k)
    covariance = total(weight[i, k] * (mean[k, c] - output[i, c]) * (slope[k, m] - mean_of_slope), k)
    return [
        Equal("one score", Partial(output[i, c], score[i, k]), weight[i, k] * (mean[k, c] - output[i, c]),
              "a softmax with the weights w"),
        Equal("covariance", moved, covariance, "of the slot means and of the gradients of the scores, under w"),
    ]  # fmt: skip


@proves("B1b", "With two slots the bound on the read is reached", row="B1", scope=FIXED, sizes="K = 2")
def read_bound_with_two_slots():
    """Write the covariance of two points."""
    w, m1, m2, u1, u2 = symbols("w m_1 m_2 u_1 u_2", real=True)
    means, slopes = w * m1 + (1 - w) * m2, w * u1 + (1 - w) * u2
    covariance = w * (m1 - means) * (u1 - slopes) + (1 - w) * (m2 - means) * (u2 - slopes)
    product = w * (1 - w) * (m1 - m2) * (u1 - u2)
    half = Rational(1, 2)
    return [
        Equal("two points", covariance, product, "the product of their distances, times w(1 − w)"),
        Bounded("weight", w * (1 - w), Rational(1, 4), (w - half) ** 2, "a parabola"),
        Equal("reached", covariance.subs(w, half), (m1 - m2) * (u1 - u2) / 4, "a quarter, where the weights are equal"),
    ]


@proves("B4", "The best constant from R, M and the smallest variance, coordinate by coordinate", scope=ALGEBRA,
        assumptions=["Precisions are s and t times the largest one, with s and t between 0 and 1."])  # fmt: skip
def best_constant():
    """Bound the square of one coordinate of u_k − u_ℓ, in units of the largest precision."""
    low, high, below, above = symbols("b c d e", positive=True)
    s, t = low / (low + high), below / (below + above)
    first, second = x_m - mu_k, x_m - mu_l
    square = (t * second - s * first) ** 2
    vertices = s * (1 - t) * first**2 + t * (1 - s) * second**2 + s * t * (mu_k - mu_l) ** 2
    bulge = s * high / (low + high) * first**2 + t * above / (below + above) * second**2
    ratio = 1 / (1 + Symbol("y", nonnegative=True))  # √2·M/R where R is the larger
    radius, reach = symbols("R M", positive=True)
    wide = (1 + ratio) * x_m**2 + (1 + 1 / ratio) * (mu_k**2 + mu_l**2)
    return [
        Bounded("vertices", square, vertices, bulge, "convex in s and in t, so a vertex is the worst"),
        Bounded("a mean and the token", first**2, 2 * x_m**2 + 2 * mu_k**2, (x_m + mu_k) ** 2, "R ≤ √2·M"),
        Bounded("two means", (mu_k - mu_l) ** 2, 2 * mu_k**2 + 2 * mu_l**2, (mu_k + mu_l) ** 2,
                "so the sum over the coordinates is at most 2R² + 4M²"),
        Bounded("far tokens", first**2, wide - (1 + 1 / ratio) * mu_l**2, ratio * (x_m + mu_k / ratio) ** 2,
                "R > √2·M, with q = √2·M/R"),
        Bounded("two means again", (mu_k - mu_l) ** 2, wide - (1 + ratio) * x_m**2,
                (mu_k + mu_l) ** 2 + (1 / ratio - 1) * (mu_k**2 + mu_l**2), "as q is at most 1"),
        Equal("their sum", (1 + sqrt(2) * reach / radius) * radius**2 + 2 * (1 + radius / (sqrt(2) * reach)) * reach**2,
              (radius + sqrt(2) * reach) ** 2, "the square of R + √2·M"),
    ]  # fmt: skip


@proves("B6", "Two components, one broader in every coordinate: a bound for every token", scope=ALGEBRA,
        part="the squares of one pair",
        assumptions=["The precision of ℓ exceeds that of k by e in every coordinate, 0 < e ≤ β."])  # fmt: skip
def pair_of_comparable_components():
    """Complete the square in the difference of two scores."""
    precision, excess = array("p", positive=True), array("e", positive=True)
    token, mean_k, mean_l = array("x"), array("\\mu^{(k)}"), array("\\mu^{(\\ell)}")
    spare = array("f", nonnegative=True)
    odds = Symbol("c_0", real=True)
    steep = precision[m] + excess[m]
    push = precision[m] * (token[m] - mean_k[m]) - steep * (token[m] - mean_l[m])
    centre = (steep * mean_l[m] - precision[m] * mean_k[m]) / excess[m]
    squares = steep * (token[m] - mean_l[m]) ** 2 - precision[m] * (token[m] - mean_k[m]) ** 2
    least = precision[m] * steep * (mean_k[m] - mean_l[m]) ** 2 / excess[m]
    above = excess[m] * (token[m] - centre) ** 2
    return [
        Equal("square", squares, above - least, "so the difference of the scores, δ, has a smallest value, c"),
        Equal("above it", odds + total(squares, m) / 2 - (odds - total(least, m) / 2), total(above, m) / 2,
              "δ − c, with the priors and the determinants in the first term"),
        Equal("push", push, -excess[m] * (token[m] - centre), "the difference of the two gradients, one coordinate"),
        Bounded("length", total(excess[m] ** 2 * (token[m] - centre) ** 2, m),
                total((excess[m] + spare[m]) * excess[m] * (token[m] - centre) ** 2, m),
                total(spare[m] * excess[m] * (token[m] - centre) ** 2, m),
                "with e + f = β: the squared length is at most 2β(δ − c)"),
    ]  # fmt: skip


@proves("B5", "Two scores along a ray: the algebra that decides who wins far out", scope=ALGEBRA,
        part="two scores along a ray",
        assumptions=["Determinants and priors are left out: they do not change along the ray."])  # fmt: skip
def along_a_ray():
    """Put x = t·h into two scores and their gradients."""
    here, other = array("p", positive=True), array("q", positive=True)
    mean_k, mean_l, direction = array("\\mu^{(k)}"), array("\\mu^{(\\ell)}"), array("h")
    far = Symbol("t", real=True)

    def scored(precision, centre):
        return -total(precision[m] * (far * direction[m] - centre[m]) ** 2, m) / 2

    quadratic = -(far**2) / 2 * total((here[m] - other[m]) * direction[m] ** 2, m)
    linear = far * total((here[m] * mean_k[m] - other[m] * mean_l[m]) * direction[m], m)
    constant = total(other[m] * mean_l[m] ** 2 - here[m] * mean_k[m] ** 2, m) / 2
    fixed = here[m] * mean_k[m] - other[m] * mean_l[m]
    apart = -here[m] * (far * direction[m] - mean_k[m]) + other[m] * (far * direction[m] - mean_l[m])
    return [
        Equal("gradients", apart, -far * (here[m] - other[m]) * direction[m] + fixed,
              "they part in proportion to t, where the precisions differ along h"),
        Equal("scores", scored(here, mean_k) - scored(other, mean_l), quadratic + linear + constant,
              "the squares decide; where they are equal along h, the means do"),
    ]  # fmt: skip
