"""Proofs for the parameters and the gradients: Eqs. (14), (15), (17) to (19), for any K."""

from sympy import KroneckerDelta, Rational, S, Sum, Symbol, exp, log

from .claim import proves
from .routing import SOFTMAX, gamma, score
from .steps import Bounded, Equal, Positive
from .symbols import Definition, Partial, array, ell, fresh, i, k, m, n, r, total

omega, alpha = array("omega"), array("alpha")
eps_sigma = Symbol("epsilon_sigma", positive=True)
variance, prior = array("sigma^2", positive=True), array("pi", positive=True)
upstream, slope = array("g"), array("delta")


def softplus(component, axis):
    """Return the variance of Eq. (14)."""
    return log(1 + exp(omega[component, axis])) + eps_sigma


def softmax_of_logits(component):
    """Return the prior of Eq. (15)."""
    other, size = fresh(ell)
    return exp(alpha[component]) / Sum(exp(alpha[other]), (other, 1, size))


def centred(token, component):
    """Return the score gradient of Eq. (18)."""
    other, size = fresh(ell)
    mean = Sum(gamma[token, other] * upstream[token, other], (other, 1, size))
    return gamma[token, component] * (upstream[token, component] - mean)


LOSS = "The loss is differentiable; g is its gradient in γ, so to first order the loss changes as the sum of g·γ does."

VARIANCE = Definition(variance[k, m], softplus)
PRIOR = Definition(prior[k], softmax_of_logits)
SLOPE = Definition(slope[i, k], centred)


def sigmoid(value):
    """Return the sigmoid."""
    return 1 / (1 + exp(-value))


@proves("14", "The variance is above its floor and grows with ω, at the rate of a sigmoid", where=[VARIANCE])
def variance_of_omega():
    """Differentiate Eq. (14)."""
    return [
        Positive("floor", variance[k, m] - eps_sigma, "the logarithm of a number above 1"),
        Positive("rate", sigmoid(omega[k, m]), "so the variance grows with ω"),
        Equal("derivative", Partial(variance[k, m], omega[k, m]), sigmoid(omega[k, m]), "differentiate the softplus"),
    ]


@proves("15", "The priors lie on the simplex; their Jacobian is the softmax's", where=[PRIOR])
def priors_on_the_simplex():
    """Sum and differentiate Eq. (15)."""
    jacobian = prior[k] * (KroneckerDelta(k, r) - prior[r])
    return [
        Positive("positive", prior[k], "exponentials are positive"),
        Equal("sum", total(prior[k], k), 1, "numerators and denominator are the same sum"),
        Equal("Jacobian", Partial(prior[k], alpha[r]), jacobian, "quotient rule"),
    ]


@proves("17", "The Jacobian of the softmax", where=[SOFTMAX])
def softmax_jacobian():
    """Differentiate the softmax, for any K and any pair of components."""
    top = exp(score[i, r])
    bottom = total(exp(score[i, ell]), ell)
    rate = (KroneckerDelta(k, r) * bottom - exp(score[i, k])) * top / bottom**2
    return [
        Equal("denominator", Partial(bottom, score[i, k]), exp(score[i, k]), "one term of the sum holds the score k"),
        Equal("quotient rule", Partial(top / bottom, score[i, k]), rate, "numerator and denominator both move"),
        Equal("Jacobian", Partial(gamma[i, r], score[i, k]), gamma[i, r] * (KroneckerDelta(k, r) - gamma[i, k]),
              "written with responsibilities"),
    ]  # fmt: skip


@proves("17b", "A responsibility's sensitivity to its own score", where=[SOFTMAX])
def self_sensitivity():
    """Set j = k in Eq. (17), and bound the parabola."""
    own = gamma[i, k] * (1 - gamma[i, k])
    half = Rational(1, 2)
    return [
        Equal("derivative", Partial(gamma[i, k], score[i, k]), own, "Eq. (17) on the diagonal"),
        Bounded("at most a quarter", own, Rational(1, 4), (gamma[i, k] - half) ** 2, "the gap to ¼ is a square"),
    ]


@proves("18", "The gradient of the loss in a score", where=[SOFTMAX], assumptions=[LOSS])
def score_gradient():
    """Put the Jacobian into the chain rule, for any K."""
    by_chain_rule = total(upstream[i, r] * Partial(gamma[i, r], score[i, k]), r)
    product = total(upstream[i, r] * gamma[i, r] * (KroneckerDelta(r, k) - gamma[i, k]), r)
    centred_form = gamma[i, k] * (upstream[i, k] - total(gamma[i, r] * upstream[i, r], r))
    whole = total(upstream[n, r] * gamma[n, r], n, r)
    return [
        Equal("chain rule", by_chain_rule, product, "Eq. (17) in each term"),
        Equal("centred", product, centred_form, "carry out the sum with the 1{j = k}"),
        Equal("sums to zero", total(centred_form, k), S.Zero, "the responsibilities sum to 1"),
        Equal("gradient", Partial(whole, score[i, k]), centred_form, "differentiate the whole loss, all tokens"),
    ]
