"""Softmax attention by PyTorch's own function, with a cache of keys and values."""

from typing import NamedTuple

import torch
from torch.nn import functional as F

from .base import Attention, as_width


class KeyValueCache(NamedTuple):
    """Keys and values (B, H, M, width) of the tokens seen so far, and which take part (B, M), or None: all."""

    k: torch.Tensor
    v: torch.Tensor
    taking_part: torch.Tensor | None


class Softmax(Attention):
    r"""Scaled dot-product attention, Eq. (1): softmax(QKᵀ/√d) V.

    Parameters
    ----------
    window : int, optional
        How many tokens each reads at most: its own and those just before. Causal mixers alone have one.
    **options
        As for every attention.

    Notes
    -----
    A row that no key reaches is 0. Source: Vaswani et al. (2017).
    """

    Memory = KeyValueCache
    slots = None  # one more for each token

    def __init__(self, d_model, *, window=None, **options):
        super().__init__(d_model, **options)
        self.window = None if window is None else as_width("window", window)
        if window is not None and not self.causal:
            raise ValueError("window needs causal=True")

    def attend(self, q, k, v, key_mask, cache):
        """Read the tokens of the cache and those given, and return the cache with both."""
        before = 0 if cache is None else cache.k.shape[-2]
        taking_part = self.joined_mask(key_mask, cache, k)
        if cache is not None:
            k, v = torch.cat([cache.k, k], dim=-2), torch.cat([cache.v, v], dim=-2)
        mask = self.mask_of_pairs(q.shape[-2], before, taking_part, q.device)
        if q.dtype != v.dtype:  # normalised in float32, beside values of 16 bits
            q, k = q.to(v.dtype), k.to(v.dtype)
        if mask is None:
            output = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal and q.shape[-2] > 1)
        else:
            reached = mask.any(dim=-1, keepdim=True)  # before PyTorch 2.5 a row without keys was NaN
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | ~reached)
            output = torch.where(reached, output, 0)
        if self.window is not None:
            old = max(0, k.shape[-2] - (self.window - 1))
            k, v = k[..., old:, :], v[..., old:, :]
            taking_part = taking_part if taking_part is None else taking_part[:, old:]
        return output, KeyValueCache(k, v, taking_part)

    def joined_mask(self, key_mask, cache, k):
        """Return which of the cached and the new keys take part (B, M + N); None where all do."""
        old = None if cache is None else cache.taking_part
        if old is None and key_mask is None:
            return None
        if old is None:
            before = 0 if cache is None else cache.k.shape[-2]
            old = key_mask.new_ones(len(k), before)
        new = old.new_ones(len(k), k.shape[-2]) if key_mask is None else key_mask
        return torch.cat([old, new], dim=1)

    def mask_of_pairs(self, tokens, before, taking_part, device):
        """Return which queries see which keys, (tokens, keys) or (B, 1, tokens, keys); None for PyTorch's own mask."""
        everywhere = self.window is None or before + tokens <= self.window
        if taking_part is None and (not self.causal or (everywhere and (before == 0 or tokens == 1))):
            return None
        seen = torch.ones(tokens, before + tokens, dtype=torch.bool, device=device)
        if self.causal:
            seen = seen.tril(before)
        if not everywhere:
            seen = seen.triu(before - self.window + 1)
        return seen if taking_part is None else seen & taking_part[:, None, None]
