"""Scores of many tokens at once, Eq. (16), up to a term that all components share; and their backward pass.

A score is a quadratic function of the token, so with a centre c and x̃ = x − c it is an affine map of (x̃², x̃): one
matrix product for a whole block of tokens (`Expanded`). Expanding the square costs accuracy where a mean lies many
standard deviations from the centre. Then the product is taken in float64, and where that does not suffice either, the
differences x − μ are squared one coordinate at a time (`Differences`). `choose_form` decides by the mixture alone.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, fields

import torch

# The expanded form is used up to this spread (`spread`) in each dtype; measured, see `choose_form`.
LARGEST_SPREAD = {torch.float32: 1e3, torch.float64: 1e4}
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
    The error of the expanded form is about the rounding unit times the `spread` of the mixture, which no token
    changes: 6e-5 in float32 and 1e-12 in float64 where it is last used, on a CPU. Where looking at values would make
    the device wait, as on CUDA, the expanded form is used for every mixture.
    """
    arguments = mu, variance, log_prior
    if mu.device.type != "cpu" or mu.numel() == 0:
        return Expanded.of(*arguments, dtype)
    size = spread(mu, variance)
    if size <= LARGEST_SPREAD[dtype]:
        return Expanded.of(*arguments, dtype)
    if dtype == torch.float32 and size <= LARGEST_SPREAD_OF_FLOAT32_IN_FLOAT64:
        return Expanded.of(*arguments, torch.float64)
    return Differences.of(*arguments, torch.float64)


def spread(mu, variance):
    r"""Return :math:`\max_k \sum_m (\mu_{k,m} - c_m)^2 / \sigma^2_{k,m}`, the squared distance of a mean to the centre."""
    mu, variance = mu.double(), variance.double()
    return float(((mu - mu.mean(-2, keepdim=True)) ** 2 / variance).sum(-1).max())


@dataclass
class Form:
    """A mixture per group, and the gradients of it that the blocks of a backward pass add up."""

    mu: torch.Tensor  # (G, K, d_r)
    precision: torch.Tensor  # (G, K, d_r), 1 / σ²
    weights: torch.Tensor  # see the subclasses
    centre: torch.Tensor  # (G, 1, d_r), subtracted from means and tokens
    offset: torch.Tensor  # (G, 1, K), the part of the scores that no token changes
    first: torch.Tensor  # (G, width, K), sums over tokens that give the gradients
    second: torch.Tensor  # (G, K, d_r)
    total: torch.Tensor  # (G, 1, K), the sum of δ over tokens

    def part(self, groups):
        """Return the same for some of the groups; what it adds up is added here."""
        return type(self)(*(getattr(self, field.name)[groups] for field in fields(self)))


class Expanded(Form):
    r"""Scores as an affine map of the features :math:`(\tilde x^2, \tilde x)`.

    .. math::
        s_{i,k} = -\tfrac12 (p_k - p_0)^\top \tilde x_i^2 + (p_k \tilde\mu_k)^\top \tilde x_i
        + \log\pi_k + \tfrac12 \sum_m \bigl[\log (p_{k,m}/p_{0,m}) - p_{k,m}\tilde\mu_{k,m}^2\bigr]

    with precisions :math:`p = 1/\sigma^2` and their minimum over the components :math:`p_0`. The two terms with
    :math:`p_0` are the same for all components; equal covariances leave no square at all.
    """

    @classmethod
    def of(cls, mu, variance, log_prior, dtype):
        """Prepare the weights and the offset of a mixture."""
        mu, variance, log_prior = mu.to(dtype), variance.to(dtype), log_prior.to(dtype)
        centre = mu.mean(-2, keepdim=True)
        mu = mu - centre
        precision = variance.reciprocal()
        least = precision.amin(-2, keepdim=True)
        weights = torch.cat([(least - precision) / 2, precision * mu], dim=-1).mT.contiguous()
        terms = torch.log(precision / least) - precision * mu * mu
        offset = (log_prior + terms.sum(-1) / 2)[:, None]
        sums = torch.zeros_like(weights), torch.zeros_like(mu), torch.zeros_like(offset)
        return cls(mu, precision, weights, centre, offset, *sums)

    def features(self, x, room, name):
        """Return (x̃², x̃) of tokens (g, s, t, d_r)."""
        d_r = x.shape[-1]
        phi = room(f"{name} features", *x.shape[:-1], 2 * d_r, dtype=self.mu.dtype)
        squares, linear = phi[..., :d_r], phi[..., d_r:]
        torch.sub(x, self.centre[:, None], out=linear)
        torch.mul(linear, linear, out=squares)
        return phi

    def scores(self, phi, out):
        """Write the scores of tokens with the given features into `out` (g, s, t, K)."""
        torch.baddbmm(self.offset, rows(phi), self.weights, out=rows(out))

    def backward(self, phi, delta, room):
        """Add what δ (g, s, t, K) gives to the mixture, and return the gradient of the tokens."""
        self.first.baddbmm_(rows(phi).mT, rows(delta))
        self.total += rows(delta).sum(-2, keepdim=True)
        by_phi = room("by features", *phi.shape, dtype=phi.dtype)
        torch.bmm(rows(delta), self.weights.mT, out=rows(by_phi))
        d_r = phi.shape[-1] // 2
        squares, linear = by_phi[..., :d_r], by_phi[..., d_r:]
        return linear.addcmul_(squares, phi[..., d_r:], value=2)

    def gradients(self):
        """Return the gradients of mu, variance and log_prior from the sums so far."""
        squares, linear = self.first.mT.chunk(2, dim=-1)
        total = self.total.mT
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
        offset = (log_prior + torch.log(precision / least).sum(-1) / 2)[:, None]
        sums = torch.zeros_like(mu), torch.zeros_like(mu), torch.zeros_like(offset)
        return cls(mu, precision, precision.sqrt(), torch.zeros_like(mu[:, :1]), offset, *sums)

    def features(self, x, room, name):
        """Return the tokens themselves, in the precision of the scores."""
        return room(f"{name} features", *x.shape, dtype=self.mu.dtype).copy_(x)

    def distances(self, x, m):
        """Return (x − μ) / σ in coordinate m, (g, s, t, K)."""
        return (x[..., m, None] - self.mu[:, None, None, :, m]).mul_(self.weights[:, None, None, :, m])

    def scores(self, x, out):
        """Write the scores of tokens into `out` (g, s, t, K)."""
        out.copy_(self.offset[:, None])
        for m in range(x.shape[-1]):
            distance = self.distances(x, m)
            out.addcmul_(distance, distance, value=-0.5)

    def backward(self, x, delta, room):
        """Add what δ (g, s, t, K) gives to the mixture, and return the gradient of the tokens."""
        by_x = room("by features", *x.shape, dtype=x.dtype)
        self.total += rows(delta).sum(-2, keepdim=True)
        for m in range(x.shape[-1]):
            distance = self.distances(x, m).masked_fill_(delta == 0, 0)  # one that overflows belongs to a δ of 0
            pull = delta * distance
            self.second[..., m] += torch.sum(pull * distance, dim=(1, 2))
            pull *= self.weights[:, None, None, :, m]
            self.first[..., m] += pull.sum(dim=(1, 2))
            torch.sum(pull, dim=-1, out=by_x[..., m])
        return by_x.neg_()

    def gradients(self):
        """Return the gradients of mu, variance and log_prior from the sums so far."""
        by_variance = self.precision * (self.second - self.total.mT) / 2
        return self.first, by_variance, self.total[:, 0]


def responsibilities(form, x, room, name):
    """Return the features and the responsibilities of tokens (g, s, t, d_r), Eq. (3)."""
    phi = form.features(x, room, name)
    gamma = room(name, *x.shape[:-1], form.mu.shape[-2])
    if phi.dtype == gamma.dtype:
        form.scores(phi, gamma)
        return phi, torch.softmax(gamma, dim=-1, out=gamma)
    scores = room("scores", *gamma.shape, dtype=phi.dtype)
    form.scores(phi, scores)
    return phi, gamma.copy_(torch.softmax(scores, dim=-1, out=scores))


def rows(tokens):
    """View (g, s, t, width) as (g, s·t, width): the mixture is the same for all sequences of a group."""
    return tokens.flatten(1, 2)


@contextlib.contextmanager
def full_precision(device):
    """Take products as written: no autocast to 16 bits and, on CUDA, no TF32."""
    with torch.autocast(device.type, enabled=False):
        if device.type != "cuda":
            yield
            return
        allowed = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = allowed
