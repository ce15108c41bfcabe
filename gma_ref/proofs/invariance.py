"""Proofs for what leaves the responsibilities as they are, and what follows for gradients (B10); the start (B8)."""

from sympy import Integral, Sum, Symbol, log, oo, pi, symbols

from .claim import FIXED, proves
from .memory_gradients import (
    DENOMINATOR,
    OUTPUT,
    PULL,
    SCALED,
    denominator,
    eps,
    gamma_q,
    mass,
    output,
    pull,
    scaled,
    slot,
)
from .memory_gradients import LOSS as READ_LOSS
from .memory_gradients import upstream as read_upstream
from .routing import POSITIVE_VARIANCE, SCORE, SOFTMAX, log_score, mu, normal, prior, variance, x
from .score_gradients import loss
from .softmax import LOSS, PRIOR
from .softmax import alpha as logit
from .steps import Equal
from .symbols import Definition, Partial, array, c, fresh, i, k, m, total

scale, shift = array("a", positive=True), array("t")


def moved_score(token, component):
    """Return the score of a token when token, means and variances are in other units, shifted."""
    axis, size = fresh(m)
    spread = scale[axis] ** 2 * variance[component, axis]
    way = (scale[axis] * x[token, axis] + shift[axis]) - (scale[axis] * mu[component, axis] + shift[axis])
    return log(prior[component]) - Sum(log(2 * pi * spread) + way**2 / spread, (axis, 1, size)) / 2


MOVED = Definition(array("s'")[i, k], moved_score)


@proves("B10", "What leaves the responsibilities as they are, and the sums of gradients that vanish for it",
        assumptions=[LOSS, POSITIVE_VARIANCE], where=[SOFTMAX, SCORE])  # fmt: skip
def invariances():
    """Change units and origin; then differentiate along each change."""
    tokens = total(Partial(loss, x[i, m]), i)
    means = total(Partial(loss, mu[k, m]), k)
    stretched = total(x[i, m] * Partial(loss, x[i, m]), i) + total(mu[k, m] * Partial(loss, mu[k, m]), k)
    spreads = 2 * total(variance[k, m] * Partial(loss, variance[k, m]), k)
    return [
        Equal("units and origin", moved_score(i, k) - log_score(i, k), -total(log(scale[m]), m),
              "each score changes by the same number, so the softmax does not"),
        Equal("shift", tokens + means, 0, "moving tokens and means together changes nothing"),
        Equal("stretch", stretched + spreads, 0, "nor does a change of units, coordinate by coordinate"),
    ]  # fmt: skip


@proves("B10b", "The priors' logits push against each other", row="B10", assumptions=[LOSS],
        where=[SOFTMAX, SCORE, PRIOR])  # fmt: skip
def logits_cancel():
    """Add the same to every logit."""
    return [Equal("sum", total(Partial(loss, logit[k]), k), 0, "α and α + c give the same priors")]


@proves("B10c", "Two sums of the backward pass that must agree", row="B10", assumptions=[READ_LOSS],
        where=[DENOMINATOR, OUTPUT, SCALED, PULL])  # fmt: skip
def sums_of_the_backward_pass():
    """Multiply gradients by what they are gradients of."""
    by_slots = total(gamma_q[i, k] * scaled[i, c] * slot[k, c], i, k, c)
    by_query = total(gamma_q[i, k] * (total(scaled[i, c] * slot[k, c], c) + pull[i] * mass[k]), k)
    along = total(read_upstream[i, c] * output[i, c], c)
    return [
        Equal("values", by_slots, total(along, i), "the output is linear in the values"),
        Equal("query responsibilities", by_query, eps * along / denominator[i], "only ε keeps the scale of a query"),
    ]


@proves("B8", "How far scores spread at the start", scope=FIXED, sizes="one coordinate",
        part="d_r independent ones add up",
        assumptions=["Tokens and means are independent and normal."])  # fmt: skip
def spread_at_the_start():
    """Take the variance over the means, then the mean over the tokens, for one coordinate."""
    mean, token = symbols("mu x", real=True)
    spread, tokens, means = (Symbol(name, positive=True) for name in ("sigma^2", "s_x", "s_mu"))

    def over_means(value):
        return Integral(value * normal(mean, 0, means**2), (mean, -oo, oo))

    part = -((token - mean) ** 2) / (2 * spread)
    given_token = (token**2 * means**2 + means**4 / 2) / spread**2
    both = (tokens**2 * means**2 + means**4 / 2) / spread**2
    return [
        Equal("one token", over_means(part**2) - over_means(part) ** 2, given_token, "the moments of a normal mean"),
        Equal("all tokens", Integral(given_token * normal(token, 0, tokens**2), (token, -oo, oo)), both,
              "times d_r: the variance τ² of a score"),
    ]  # fmt: skip
