"""Proofs for the chain rule, Eq. (19), and for what a score depends on: Appendix D (G1 to G5)."""

from sympy import Function, KroneckerDelta, Rational, Symbol, log

from .claim import proves
from .routing import POSITIVE_VARIANCE, SCORE, SOFTMAX, gamma, mu, score, x
from .softmax import LOSS, PRIOR, SLOPE, VARIANCE, omega, prior, sigmoid, slope, upstream, variance
from .softmax import alpha as logit
from .steps import Equal
from .symbols import Apart, Definition, Partial, a, array, c, f, i, k, m, n, p, r, total

theta = Symbol("theta", real=True)
any_score = Function("s", real=True)
ANY_SCORE = Definition(score[i, k], lambda token, component: any_score(token, component, theta))

tokens = array("X")
weight_q, weight_k, weight_v = array("W^Q"), array("W^K"), array("W^V")
back_q, back_k, back_v = array("{\\bar Q}"), array("{\\bar K}"), array("{\\bar V}")

pull = (x[i, m] - mu[k, m]) / variance[k, m]
loss = total(upstream[n, r] * gamma[n, r], n, r)


@proves("19", "The chain rule through the scores", where=[SLOPE, SOFTMAX, ANY_SCORE],
        assumptions=[LOSS, "Each score is any differentiable function of the parameter θ."])  # fmt: skip
def chain_rule():
    """Differentiate the loss by a parameter on which every score may depend."""
    moved = Partial(score[i, k], theta)
    jacobian = gamma[i, r] * (KroneckerDelta(r, k) - gamma[i, k])
    return [
        Equal("expanded", Partial(loss, theta), total(upstream[i, r] * jacobian * moved, i, k, r),
              "through every score of every token, with Eq. (17) written out"),
        Equal("chain rule", Partial(loss, theta), total(slope[i, k] * moved, i, k), "Eq. (18) put in"),
    ]  # fmt: skip


@proves("G1", "A score and the means", where=[SCORE], assumptions=[POSITIVE_VARIANCE])
def through_the_mean():
    """Differentiate Eq. (16) by a mean."""
    return [
        Equal("another mean", Apart(k, r) * Partial(score[i, k], mu[r, m]), 0, "a score sees its own mean alone"),
        Equal("its mean", Partial(score[i, k], mu[k, m]), pull, "the precision times the way to the token"),
    ]


@proves("G2", "A responsibility and the means", where=[SOFTMAX, SCORE], assumptions=[POSITIVE_VARIANCE])
def responsibility_through_the_mean():
    """Differentiate the softmax of Eq. (16) by a mean."""
    other = Apart(r, k) * Partial(gamma[i, r], mu[k, m])
    both = gamma[i, r] * (KroneckerDelta(r, k) - gamma[i, k]) * pull
    return [
        Equal("its own mean", Partial(gamma[i, k], mu[k, m]), gamma[i, k] * (1 - gamma[i, k]) * pull,
              "Eq. (17b) times G1"),
        Equal("another's mean", other, -Apart(r, k) * gamma[i, r] * gamma[i, k] * pull, "the components compete"),
        Equal("in one line", Partial(gamma[i, r], mu[k, m]), both, "Eq. (17) times G1"),
    ]  # fmt: skip


@proves("G3", "A score and the free parameters of the variances", where=[SCORE, VARIANCE],
        assumptions=["The floor of the variances is positive."])  # fmt: skip
def through_the_variance():
    """Differentiate Eq. (16) by a variance, then by the ω behind it."""
    square = (x[i, m] - mu[k, m]) ** 2 / variance[k, m]
    slope_of_omega = Rational(1, 2) * sigmoid(omega[k, m]) / variance[k, m] * (square - 1)
    spread, point = Symbol("v", positive=True), Symbol("x", real=True)
    one = -Rational(1, 2) * (log(spread) + point**2 / spread)
    return [
        Equal(
            "by the variance",
            Partial(one, spread),
            (point**2 / spread - 1) / (2 * spread),
            "one coordinate of Eq. (16)",
        ),
        Equal("another ω", Apart(k, r) * Partial(score[i, k], omega[r, m]), 0, "a score sees its own variances alone"),
        Equal("its ω", Partial(score[i, k], omega[k, m]), slope_of_omega, "times the slope of Eq. (14), a sigmoid"),
    ]


@proves("G4", "The prior logits collect the score gradients", where=[SLOPE, SOFTMAX, SCORE, PRIOR], assumptions=[LOSS])
def through_the_prior():
    """Differentiate Eq. (16) by a logit; in the loss the second term drops out."""
    long_form = total(slope[i, k] * (KroneckerDelta(k, r) - prior[r]), i, k)
    return [
        Equal("a score", Partial(score[i, k], logit[r]), KroneckerDelta(k, r) - prior[r], "log-softmax"),
        Equal("no net push", total(slope[i, k], k), 0, "Eq. (18) sums to 0 over the components"),
        Equal("chain rule", long_form, total(slope[i, r], i), "so the term with the prior drops out"),
        Equal("logit", Partial(loss, logit[k]), total(slope[i, k], i), "differentiate the whole loss"),
    ]


@proves("G5", "A score and its token; the loss and the projections", where=[SCORE], assumptions=[POSITIVE_VARIANCE])
def through_the_token():
    """Differentiate Eq. (16) by the token, and Eq. (4) by weights and tokens."""
    routed = total(back_q[n, p] * total(tokens[n, f] * weight_q[f, p], f), n, p)
    keys = total(back_k[n, p] * total(tokens[n, f] * weight_k[f, p], f), n, p)
    values = total(back_v[n, c] * total(tokens[n, f] * weight_v[f, c], f), n, c)
    back = total(back_q[i, p] * weight_q[a, p], p) + total(back_k[i, p] * weight_k[a, p], p)
    return [
        Equal("its token", Partial(score[i, k], x[i, m]), -pull, "the mean's gradient with the sign turned"),
        Equal("weights", Partial(routed, weight_q[a, m]), total(tokens[n, a] * back_q[n, m], n),
              "the tokens transposed times the gradient of the product"),
        Equal("tokens", Partial(routed + keys + values, tokens[i, a]), back + total(back_v[i, c] * weight_v[a, c], c),
              "one term from each of the three projections"),
    ]  # fmt: skip
