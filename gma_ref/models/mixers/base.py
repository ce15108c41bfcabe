"""What all mixers share: checks, masks, steps, tokens that are not finite; and for most, the four projections."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from gma_ref.pytorch.checks import Tensors
from gma_ref.pytorch.nonfinite import finite_rows, give_back
from gma_ref.pytorch.numerics import keep
from gma_ref.reference.checks import as_count, as_flag

from .convolution import ShortConvolution
from .state import MixerState, map_state, tensors_of


class Mixer(nn.Module):
    """A layer that lets tokens (B, N, d_model) exchange what they hold; a subclass says how, between its projections.

    A subclass has ``enter`` and ``leave``, which see each token alone, and ``mix(tokens, key_mask, state)`` between
    them, which returns the mixed tokens and, causally, the state after them. ``Memory`` is the class of its memory, and
    ``kept()`` the shapes, without the batch, of the first tensor in it and of the recent tokens: None for nothing kept,
    and None in it for a size that grows.
    """

    def __init__(self, d_model, *, causal):
        super().__init__()
        self.d_model, self.causal = as_width("d_model", d_model), as_flag("causal", causal)

    def forward(self, x, *, key_mask=None, state=None, return_state=False):
        """Mix the tokens of each sequence.

        Parameters
        ----------
        x : Tensor, (B, N, d_model)
        key_mask : Tensor of bool, (N,) or (B, N), optional
            True: this token takes part. One that does not, such as padding, is a token of zeros that writes nothing,
            whatever it holds; its own output is of no meaning.
        state : MixerState, optional
            What the tokens before the first have left. It is not changed. Causal mixers alone have one.
        return_state : bool
            Whether to return the state after these tokens too.

        Returns
        -------
        y : Tensor, (B, N, d_model)
        state : MixerState
            Only with ``return_state=True``.

        Raises
        ------
        TypeError, ValueError
            If an argument is no such tensor or state, or if a mixer that is not causal is asked for a state.

        Notes
        -----
        Causally, changing a token changes no earlier output by a bit; one that is not finite makes its own output and
        the later ones NaN, and no other. Bidirectionally it makes all outputs of its sequence NaN.
        """
        key_mask = self._check(x, key_mask, state, as_flag("return_state", return_state))
        tokens = self.enter(keep(key_mask, x))
        lost = lost_outputs(tokens.detach(), self.causal)
        if lost is not None:
            tokens = torch.where(torch.isfinite(tokens), tokens, 0)
        mixed, state = self.mix(tokens, key_mask, state)
        y = self.leave(mixed)
        if lost is not None:
            y = give_back(y, torch.where(lost, torch.nan, 0).to(y.dtype)[..., None])
            at_end = lost.any(dim=1)
            state = map_state(lambda tensor: spoil(tensor, at_end), state)
        return (y, state) if return_state else y

    def step(self, x_t, state=None):
        """Take one more token (B, d_model) of a causal sequence; return its output and the state after it.

        The outputs are those of `forward` over the whole sequence.
        """
        Tensors().check("x_t", x_t, "B d_model")
        if x_t.ndim != 2:
            raise ValueError(f"x_t must have shape (B, {self.d_model}), got shape {tuple(x_t.shape)}")
        y, state = self(x_t[:, None], state=state, return_state=True)
        return y[:, 0], state

    def _check(self, x, key_mask, state, return_state):
        """Refuse what does not fit; return the mask as (B, N)."""
        tensors = Tensors()
        tensors.sizes["d_model"] = self.d_model, "the mixer"
        tensors.check("x", x, "B N d_model")
        if x.ndim != 3:
            raise ValueError(f"x must have shape (B, N, {self.d_model}), got shape {tuple(x.shape)}")
        if key_mask is not None:
            tensors.check_key_mask(key_mask, x.shape, "x")
            key_mask = key_mask.expand(x.shape[:2])
        if not self.causal and (return_state or state is not None):
            raise ValueError("a state needs causal=True: a bidirectional mixer sees all tokens at once")
        if state is not None:
            if not isinstance(state, MixerState) or not isinstance(state.memory, self.Memory):
                came = type(state.memory if isinstance(state, MixerState) else state).__name__
                raise TypeError(f"state must be one that this {type(self).__name__} has returned, got {came}")
            sizes = {len(tensor) for tensor in tensors_of(state)}
            if sizes != {len(x)}:
                raise ValueError(f"state must be that of {len(x)} sequences as x is, got {sorted(sizes)}")
            for part, tensor, shape in zip(
                ("memory", "recent"), (state.memory[0], state.recent), self.kept(), strict=True
            ):
                came = None if tensor is None else tuple(tensor.shape[1:])
                if not same_shape(came, shape):
                    raise ValueError(f"state.{part} must have shape {shape} after the batch, got {came}")
        return key_mask


class Attention(Mixer):
    """Queries, keys and values of width d_model in H heads, a short convolution if wanted, and an output projection.

    A subclass has ``attend(q, k, v, key_mask, memory)``, with (B, H, N, d_model / H) and a mask (B, N) or None, and
    ``slots``, how many rows a head's memory has.

    Parameters
    ----------
    d_model, num_heads : int
    causal : bool
    convolution : int
        The width of the short convolution of queries, keys and values, each with SiLU; 0 for none.
    qk_norm : bool
        Give every query and key of a head a root mean square of 1, after the convolution.

    Raises
    ------
    TypeError, ValueError
        If an argument has another kind or range, or if the heads do not divide the width.
    """

    def __init__(self, d_model, *, num_heads=1, causal=True, convolution=0, qk_norm=False):
        super().__init__(d_model, causal=causal)
        self.num_heads, self.qk_norm = as_width("num_heads", num_heads), as_flag("qk_norm", qk_norm)
        if self.d_model % self.num_heads:
            raise ValueError(f"d_model must be a multiple of num_heads, got {d_model} and {num_heads}")
        self.width = self.value_width = self.d_model // self.num_heads
        self.w_qkv = nn.Linear(self.d_model, 3 * self.d_model, bias=False)  # the three projections, side by side
        self.w_o = nn.Linear(self.d_model, self.d_model, bias=False)
        taps = as_count("convolution", convolution)
        self.convolution = ShortConvolution(3 * self.d_model, taps, causal=self.causal) if taps else None
        for projection in (self.w_qkv, self.w_o):
            nn.init.normal_(projection.weight, std=self.d_model**-0.5)

    def kept(self):
        """Return the shapes of the memory, in each head `slots` rows of values, and of the recent tokens."""
        rows = self.num_heads, self.slots, self.value_width
        return rows, None if self.convolution is None else (self.convolution.weight.shape[1] - 1, 3 * self.d_model)

    def enter(self, x):
        """Return queries, keys and values, side by side."""
        return self.w_qkv(x)

    def leave(self, mixed):
        """Join what the heads have found."""
        return self.w_o(mixed)

    def mix(self, tokens, key_mask, state):
        """Attend, head by head."""
        memory, recent = (None, None) if state is None else state
        (q, k, v), recent = self.heads(tokens, recent)
        output, memory = self.attend(q, k, v, key_mask, memory)
        mixed = output.to(tokens.dtype).transpose(1, 2).flatten(2)
        return mixed, MixerState(memory, recent) if self.causal else None

    def heads(self, tokens, recent=None):
        """Return q, k, v as (B, H, N, width), convolved and normalised if so wanted, and the last tokens."""
        if self.convolution is not None:
            tokens, recent = self.convolution(tokens, recent)
        q, k, v = tokens.unflatten(-1, (3, self.num_heads, self.width)).permute(2, 0, 3, 1, 4)
        if self.qk_norm:  # in float32 at least: the epsilon of 16 bits would count
            wide = torch.promote_types(q.dtype, torch.float32)
            q, k = (F.rms_norm(vectors.to(wide), (self.width,)) for vectors in (q, k))
        return (q, k, v), recent

    def project(self, x):
        """Return the q, k, v of whole sequences (B, N, d_model), each (B, H, N, width), as they come to be attended."""
        self._check(x, None, None, False)
        return self.heads(self.enter(x))[0]

    def extra_repr(self):
        """Say the sizes and switches where the module is printed."""
        names = "d_model", "num_heads", "causal", "qk_norm"
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def lost_outputs(tokens, causal):
    """Tell which outputs (B, N), or (B, 1) for all, a token that is not finite reaches; None where a CPU sees none.

    A GPU is not asked, since the host would wait for it.
    """
    if tokens.device.type == "cpu" and math.isfinite(tokens.sum()):
        return None
    lost = ~finite_rows(tokens)
    return lost.cumsum(dim=1) > 0 if causal else lost.any(dim=1, keepdim=True)


def same_shape(came, wanted):
    """Tell whether a shape is the one that is wanted, in which None stands for any size."""
    if came is None or wanted is None:
        return came is wanted
    return len(came) == len(wanted) and all(size in (None, one) for one, size in zip(came, wanted, strict=True))


def spoil(tensor, lost):
    """Return a state's tensor with NaN for the sequences that are lost; what is no number stays."""
    if not tensor.is_floating_point():
        return tensor
    return torch.where(lost.view(-1, *[1] * (tensor.ndim - 1)), torch.nan, tensor)


def as_width(name, value):
    """Return a width or a number of heads or slots: an integer that is at least 1."""
    if as_count(name, value) == 0:
        raise ValueError(f"{name} must be at least 1, got 0")
    return int(value)
