"""Linear attention as mixers: elu + 1 features, and the random features of FAVOR+."""

import math
from typing import NamedTuple

import torch

from gma_ref.models.linear_attention import elu_features, favor_features, linear_attention, orthogonal_directions
from gma_ref.pytorch.checks import without_autocast
from gma_ref.pytorch.numerics import compute_dtype, keep
from gma_ref.reference.checks import as_size

from .base import Attention, as_width


class Sums(NamedTuple):
    """The sums over all keys of features times [value, 1]: (B, H, m, width + 1), in float32 at least."""

    sums: torch.Tensor


class Linear(Attention):
    """Linear attention with the features elu(x) + 1.

    Parameters
    ----------
    eps : float
        Added to the denominator, above 0.
    **options
        As for every attention.

    Notes
    -----
    Features and sums are taken in float32 at least, without autocast. Source: Katharopoulos et al. (2020).
    """

    Memory = Sums

    def __init__(self, d_model, *, eps=1e-6, **options):
        super().__init__(d_model, **options)
        self.slots, self.value_width = self.width, self.width + 1
        self.eps = as_size("eps", eps)
        if self.eps == 0:
            raise ValueError("eps must be above 0, got 0: a row that no key reaches would be NaN")

    def features(self, x, query):
        """Return the features of queries or keys."""
        return elu_features(x)

    def attend(self, q, k, v, key_mask, memory):
        """Add the keys' features times values to the sums, and read them."""
        mask = None if key_mask is None else key_mask[:, None]
        given = {"q": q, "k": k, "v": v, "mask": mask, "state": None if memory is None else memory.sums}
        output, sums = without_autocast(q.device, self.summed, given)
        return output, Sums(sums)

    def summed(self, q, k, v, mask, state):
        """Return the outputs and the sums after them, in float32 at least."""
        dtype = compute_dtype(q, k, v)
        phi_q, phi_k = self.features(q.to(dtype), query=True), keep(mask, self.features(k.to(dtype), query=False))
        options = {"causal": self.causal, "eps": self.eps, "state": state, "return_state": True}
        return linear_attention(phi_q, phi_k, v.to(dtype), **options)


class Favor(Linear):
    """Linear attention with FAVOR+'s positive random features, whose products are the softmax kernel on average.

    Parameters
    ----------
    num_features : int, optional
        m; without it d log d for heads of width d, the usual number.
    feature_eps : float
        Added to each feature, the authors' own 1e-6 by default, so that the denominator is seldom near 0.
    eps : float
        Added to the denominator, above 0.
    **options
        As for linear attention.

    Notes
    -----
    The directions are drawn when the mixer is made, orthogonal within each d of them and the same for all heads; they
    are saved with the parameters but not trained. Keys are not scaled by the largest exponent of all keys, as in the
    published code, since causally that would be a look ahead. Source: Choromanski et al. (2021).
    """

    def __init__(self, d_model, *, num_features=None, feature_eps=1e-6, eps=1e-12, **options):
        super().__init__(d_model, eps=eps, **options)
        self.feature_eps = as_size("feature_eps", feature_eps)
        usual = max(1, int(self.width * math.log(self.width)))
        self.num_features = usual if num_features is None else as_width("num_features", num_features)
        self.slots = self.num_features
        self.register_buffer("directions", torch.empty(self.num_features, self.width))
        self.redraw()

    @torch.no_grad()
    def redraw(self, generator=None):
        """Draw other directions, as some train it with."""
        self.directions.copy_(orthogonal_directions(self.num_features, self.width, generator))

    def features(self, x, query):
        """Return the features of queries or keys; what is subtracted from an exponent never comes from another key."""
        return favor_features(x, self.directions.to(x.dtype), query=query, causal=True, eps=self.feature_eps)
