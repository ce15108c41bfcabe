"""Scores of many tokens at once, Eq. (16), up to a term that all components share; and their backward pass.

A score is a quadratic function of the token, so with a centre c and x̃ = x − c it is an affine map of (x̃², x̃): one
matrix product for a whole block of tokens (`Expanded`). Expanding the square costs accuracy where a mean lies many
standard deviations from the centre. Then the product is taken in float64, and where that does not suffice either, the
differences x − μ are squared one coordinate at a time (`Differences`). `choose_form` decides by the mixture alone.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch.nn import functional

# The largest `spread` of a mixture for which the expanded form is used. As measured, the error of a responsibility is
# 0.5 to 3 rounding units times the spread: 2e-5 in float32 and 3e-11 in float64 here, and 3e-6 where float32 is
# computed in float64, about what the differences have in float32. The scores take the time 1 in float32, 3 in float64,
# 40 by differences.
LARGEST_SPREAD = {torch.float32: 128, torch.float64: 1e5}
LARGEST_SPREAD_OF_FLOAT32_IN_FLOAT64 = 1e10


def choose_form(mu, variance, log_prior, dtype):
    r"""Return the scores of a mixture as an object, in the cheapest form that is accurate enough.

    Parameters
    ----------
    mu, variance : tensor, (G, K, d_r)
    log_prior : tensor, (G, K)
    dtype : torch.dtype
        float32 or float64, the precision that the responsibilities are to have.

    Returns
    -------
    Expanded or Differences

    Notes
    -----
    The error of the expanded form is at most about three rounding units times the `spread` of the mixture, which no
    token changes. Where looking at values would make the device wait, as on CUDA, the expanded form is used for every
    mixture, with tokens and means taken from the centre of the means.
    """
    arguments = mu, variance, log_prior
    if mu.device.type != "cpu" or mu.numel() == 0:
        return Expanded.of(*arguments, dtype)
    equal = bool((variance.amin(-2) == variance.amax(-2)).all())
    for centred in (False, True):
        size = spread(mu, variance, centred, dtype)
        if size <= LARGEST_SPREAD[dtype]:
            return Expanded.of(*arguments, dtype, centred, equal)
    if dtype == torch.float32 and size <= LARGEST_SPREAD_OF_FLOAT32_IN_FLOAT64:
        return Expanded.of(*arguments, torch.float64, equal=equal)
    return Differences.of(*arguments, torch.float64)


def spread(mu, variance, centred, dtype=torch.float64):
    r"""Return :math:`\max_k \sum_m (\mu_{k,m} - c_m)^2 / \sigma^2_{k,m}`, how far a mean lies from the centre."""
    # where a centre is subtracted, in float64, since the difference may cancel
    mu, variance = (tensor.to(torch.float64 if centred else dtype) for tensor in (mu, variance))
    mu = mu - mu.mean(-2, keepdim=True) if centred else mu
    return float((mu * mu / variance).sum(-1).max())


@dataclass
class Form:
    """A mixture per group, and the gradients of it that the blocks of a backward pass add up."""

    mu: torch.Tensor  # (G, K, d_r), from the centre
    precision: torch.Tensor  # (G, K, d_r), 1 / σ²
    centre: torch.Tensor | None  # (G, 1, d_r), subtracted from means and tokens; None for 0
    offset: torch.Tensor  # (G, 1, K), the part of the scores that no token changes
    by_square: torch.Tensor | None  # (G, d_r, K), what multiplies x̃² in the scores; None for 0
    by_linear: torch.Tensor  # (G, d_r, K), what multiplies x̃
    squares: torch.Tensor  # (G, d_r, K), the sum of x̃² δ over tokens
    linear: torch.Tensor  # (G, d_r, K), the sum of x̃ δ
    total: torch.Tensor  # (G, 1, K), the sum of δ
    least: float = 0.0  # responsibilities up to here are 0

    def part(self, groups):
        """Return the same for some of the groups; what it adds up is added here."""
        values = (getattr(self, field.name) for field in fields(self))
        return type(self)(*(value[groups] if isinstance(value, torch.Tensor) else value for value in values))


class Expanded(Form):
    r"""Scores as an affine map of the features :math:`(\tilde x^2, \tilde x)`.

    .. math::
        s_{i,k} = -\tfrac12 (p_k - p_0)^\top \tilde x_i^2 + (p_k \tilde\mu_k)^\top \tilde x_i
        + \log\pi_k + \tfrac12 \sum_m \bigl[\log (p_{k,m}/p_{0,m}) - p_{k,m}\tilde\mu_{k,m}^2\bigr]

    with precisions :math:`p = 1/\sigma^2` and their minimum over the components :math:`p_0`. The two terms with
    :math:`p_0` are the same for all components; equal covariances leave no square at all.
    """

    @classmethod
    def of(cls, mu, variance, log_prior, dtype, centred=True, equal=False):
        """Prepare the weights and the offset of a mixture; `equal` says that all components have one covariance."""
        mu, variance, log_prior = mu.to(dtype), variance.to(dtype), log_prior.to(dtype)
        centre = mu.mean(-2, keepdim=True) if centred else None
        mu = mu - centre if centred else mu
        precision = variance.reciprocal()
        least = precision.amin(-2, keepdim=True)
        terms = (torch.log(precision) - torch.log(least)) - precision * mu * mu
        offset = (log_prior + terms.sum(-1) / 2)[:, None]
        by_square = None if equal else ((least - precision) / 2).mT.contiguous()
        by_linear = (precision * mu).mT.contiguous()
        sums = torch.zeros_like(by_linear), torch.zeros_like(by_linear), torch.zeros_like(offset)
        return cls(mu, precision, centre, offset, by_square, by_linear, *sums)

    def features(self, x, room, name):
        """Return x̃² (None where no score needs it) and x̃ of tokens (g, s, t, d_r)."""
        if self.centre is None and x.dtype == self.mu.dtype and x.shape[1] == 1:
            linear = x
        else:
            linear = room(f"{name} features", *x.shape, dtype=self.mu.dtype)
            linear.copy_(x) if self.centre is None else torch.sub(x, self.centre[:, None], out=linear)
        return None if self.by_square is None else self.squared(linear, room, name), linear

    def squared(self, linear, room, name):
        """Return x̃²."""
        return torch.mul(linear, linear, out=room(f"{name} squares", *linear.shape, dtype=linear.dtype))

    def scores(self, features, out):
        """Write the scores of tokens with the given features into `out` (g, s, t, K)."""
        squares, linear = features
        out = rows(out)
        torch.baddbmm(self.offset, rows(linear), self.by_linear, out=out)
        if squares is not None:
            out.baddbmm_(rows(squares), self.by_square)

    def backward(self, features, delta, room):
        """Add what δ (g, s, t, K) gives to the mixture, and return the gradient of the tokens."""
        squares, linear = features
        squares = self.squared(linear, room, "delta") if squares is None else squares
        self.squares.baddbmm_(rows(squares).mT, rows(delta))
        self.linear.baddbmm_(rows(linear).mT, rows(delta))
        self.total += rows(delta).sum(-2, keepdim=True)
        by_x = room("by x", *linear.shape, dtype=delta.dtype)
        torch.bmm(rows(delta), self.by_linear.mT, out=rows(by_x))
        if self.by_square is not None:
            by_squares = room("by squares", *linear.shape, dtype=delta.dtype)
            torch.bmm(rows(delta), self.by_square.mT, out=rows(by_squares))
            by_x.addcmul_(by_squares, linear, value=2)
        return by_x

    def gradients(self):
        """Return the gradients of mu, variance and log_prior from the sums so far."""
        squares, linear, total = self.squares.mT, self.linear.mT, self.total.mT
        by_mu = self.precision * (linear - self.mu * total)
        distances = squares - self.mu * (2 * linear - self.mu * total)
        return by_mu, self.precision * (self.precision * distances - total) / 2, self.total[:, 0]


class Differences(Form):
    r"""Scores as written, :math:`-\tfrac12 \sum_m (x_{i,m}-\mu_{k,m})^2/\sigma^2_{k,m}`, one coordinate at a time."""

    @classmethod
    def of(cls, mu, variance, log_prior, dtype):
        """Prepare the scales and the offset of a mixture."""
        mu, variance, log_prior = mu.to(dtype), variance.to(dtype), log_prior.to(dtype)
        precision = variance.reciprocal()
        least = precision.amin(-2, keepdim=True)
        offset = (log_prior + (torch.log(precision) - torch.log(least)).sum(-1) / 2)[:, None]
        scale = precision.sqrt().mT
        sums = torch.zeros_like(scale), torch.zeros_like(scale), torch.zeros_like(offset)
        return cls(mu, precision, None, offset, None, scale, *sums)

    def features(self, x, room, name):
        """Return the tokens themselves, in the precision of the scores."""
        return None, room(f"{name} features", *x.shape, dtype=self.mu.dtype).copy_(x)

    def distances(self, x, m):
        """Return (x − μ) / σ in coordinate m, (g, s, t, K)."""
        return (x[..., m, None] - self.mu[:, None, None, :, m]) * self.by_linear[:, m, None, None]

    def scores(self, features, out):
        """Write the scores of tokens into `out` (g, s, t, K)."""
        _, x = features
        out.copy_(self.offset[:, None])
        for m in range(x.shape[-1]):
            distance = self.distances(x, m)
            out.addcmul_(distance, distance, value=-0.5)

    def backward(self, features, delta, room):
        """Add what δ (g, s, t, K) gives to the mixture, and return the gradient of the tokens."""
        _, x = features
        by_x = room("by x", *x.shape, dtype=delta.dtype)
        self.total += rows(delta).sum(-2, keepdim=True)
        for m in range(x.shape[-1]):
            distance = self.distances(x, m).masked_fill_(delta == 0, 0)  # one that overflows belongs to a δ of 0
            pull = delta * distance
            self.squares[:, m] += (pull * distance).sum((1, 2))
            pull *= self.by_linear[:, m, None, None]
            self.linear[:, m] += pull.sum((1, 2))
            torch.sum(pull, dim=-1, out=by_x[..., m])
        return by_x.neg_()

    def gradients(self):
        """Return the gradients of mu, variance and log_prior from the sums so far."""
        by_variance = self.precision * (self.squares.mT - self.total.mT) / 2
        return self.linear.mT, by_variance, self.total[:, 0]


def responsibilities(form, x, room, name):
    """Return the features and the responsibilities of tokens (g, s, t, d_r), Eq. (3)."""
    features = form.features(x, room, name)
    gamma = room(name, *x.shape[:-1], form.mu.shape[-2])
    scores = gamma if form.mu.dtype == gamma.dtype else room("scores", *gamma.shape, dtype=form.mu.dtype)
    form.scores(features, scores)
    torch.softmax(scores, dim=-1, out=scores)
    if form.least:
        functional.threshold_(scores, form.least, 0)
    return features, scores if scores is gamma else gamma.copy_(scores)


def negligible(eps, dtype):
    """Return the largest responsibility that is taken for 0, since ε in the denominator hides it from any output.

    In float32 the products of smaller ones lie below the smallest normal number, which processors take slowly: a sharp
    mixture would cost ten times as much. With ε = 0 nothing is hidden, and all are kept. A larger ε than usual hides
    more, but not from the memory, and products of what is larger than this are normal numbers.
    """
    return 1e-13 * min(eps, 1e-6) if dtype == torch.float32 else 0.0


def rows(tokens):
    """View (g, s, t, width) as (g, s·t, width): the mixture is the same for all sequences of a group."""
    return tokens.flatten(1, 2)
