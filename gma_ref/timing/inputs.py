"""The problem that every method is given, and its tensors: the same numbers for all of them."""

import zlib
from dataclasses import dataclass
from functools import cached_property

import torch

__all__ = ["Inputs", "Problem"]


@dataclass(frozen=True)
class Problem:
    """Sizes, dtype and device of one problem.

    Attributes
    ----------
    tokens, batch, heads, width, components : int
        N, B, H, d_r = d_v, and K.
    dtype, device : str
        Of all tensors.
    seed : int
        Of the draws, which are the same on every device.
    """

    tokens: int
    batch: int = 1
    heads: int = 4
    width: int = 64
    components: int = 64
    dtype: str = "float32"
    device: str = "cpu"
    seed: int = 0

    @property
    def bytes_of_q(self):
        """Bytes of the queries, the unit in which memory is told."""
        return self.batch * self.heads * self.tokens * self.width * getattr(torch, self.dtype).itemsize


class Inputs:
    """The tensors of a problem, each drawn when it is first asked for and then kept.

    Queries, keys, values and the incoming gradient are standard normal. The mixture's means are too; its variances lie
    between 0.75 √d_r and 1.25 √d_r, so that no component owns every token, and differ, so that no term can be left out.
    """

    def __init__(self, problem):
        self.problem = problem

    @cached_property
    def q(self):
        """Queries, (B, H, N, d_r)."""
        return self.normal("q", *self._per_head)

    @cached_property
    def k(self):
        """Keys, (B, H, N, d_r)."""
        return self.normal("k", *self._per_head)

    @cached_property
    def v(self):
        """Values, (B, H, N, d_v)."""
        return self.normal("v", *self._per_head)

    @cached_property
    def upstream(self):
        """The gradient that comes in from above, (B, H, N, d_v): neither constant nor of stride 0."""
        return self.normal("upstream", *self._per_head)

    @cached_property
    def x(self):
        """Tokens for a whole layer, (B, N, H d_r)."""
        return self.normal("x", self.problem.batch, self.problem.tokens, self.problem.heads * self.problem.width)

    @cached_property
    def upstream_x(self):
        """The gradient that comes into a whole layer, shaped as `x`."""
        return self.normal("upstream_x", *self.x.shape)

    @cached_property
    def mu(self):
        """Means, (H, K, d_r)."""
        return self._for_mixture("mu")

    @cached_property
    def variance(self):
        """Variances, (H, K, d_r)."""
        return self.problem.width**0.5 * (0.75 + 0.5 * self._for_mixture("variance", torch.rand))

    @cached_property
    def log_prior(self):
        """Logarithms of the priors, (H, K)."""
        return torch.log_softmax(0.3 * self._for_mixture("log_prior")[..., 0], dim=-1)

    def normal(self, name, *shape):
        """Return a standard normal tensor that depends on the problem's seed and the name alone."""
        return self._draw(name, torch.randn, shape, getattr(torch, self.problem.dtype))

    def _for_mixture(self, name, function=torch.randn):
        """Return a tensor of (H, K, d_r) in float32 at least: a mixture is kept in full even where tokens are not."""
        problem = self.problem
        dtype = torch.promote_types(getattr(torch, problem.dtype), torch.float32)
        return self._draw(name, function, (problem.heads, problem.components, problem.width), dtype)

    def _draw(self, name, function, shape, dtype):
        generator = torch.Generator().manual_seed(self.problem.seed + zlib.crc32(name.encode()))
        return function(*shape, generator=generator, dtype=torch.float32).to(self.problem.device, dtype)

    @property
    def _per_head(self):
        problem = self.problem
        return problem.batch, problem.heads, problem.tokens, problem.width
