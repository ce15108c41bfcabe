"""Mamba's block as a mixer: the exception, with projections, a convolution, a gate and a state of its own."""

from typing import NamedTuple

import torch
from torch.nn import functional as F

from gma_ref.pytorch.numerics import keep
from gma_ref.reference.checks import as_count

from .base import Mixer, as_width
from .convolution import after, convolve
from .state import MixerState


class Hidden(NamedTuple):
    """The hidden state h (B, channels, state_dim)."""

    h: torch.Tensor


class Mamba(Mixer):
    r"""A selective state space model, by the parameters and the scan of ``mambapy``.

    .. math:: h_i = e^{\Delta_i A} h_{i-1} + \Delta_i B_i u_i, \qquad
              y_i = (C_i h_i + D u_i) \operatorname{SiLU}(z_i)

    with :math:`u` the convolved tokens, :math:`z` the gate, and Δ, B, C made from u.

    Parameters
    ----------
    convolution : int
        The width of the block's own convolution; 0 stands for 4, since the block has one in any case.
    expand : int
        Channels per unit of d_model. Mamba's own 2 is for a block that is there instead of attention *and* MLP; with
        1 it has as many parameters as the four projections of attention, about.
    state_dim : int
        Numbers kept per channel.
    num_heads, qk_norm
        Are there for the common interface: the block has no heads, and no queries and keys to be normalised.

    Raises
    ------
    ModuleNotFoundError
        If ``mambapy`` is not installed.

    Notes
    -----
    The library's own ``forward`` cannot start from a state, and computes the rates in float32 whatever the dtype.
    Source: Gu & Dao (2023), Algorithm 2.
    """

    Memory = Hidden

    def __init__(self, d_model, *, num_heads=1, causal=True, convolution=0, qk_norm=False, expand=1, state_dim=16):
        super().__init__(d_model, causal=causal)
        if not self.causal:
            raise ValueError("mamba must have causal=True: its state runs in one direction")
        if qk_norm:
            raise ValueError("mamba must have qk_norm=False: it has no queries and keys")
        MambaBlock, MambaConfig = library()
        config = MambaConfig(
            d_model=self.d_model,
            n_layers=1,
            expand_factor=as_width("expand", expand),
            d_state=as_width("state_dim", state_dim),
            d_conv=as_count("convolution", convolution) or 4,
        )
        self.block = MambaBlock(config)
        for projection in (self.block.in_proj, self.block.out_proj):
            torch.nn.init.normal_(projection.weight, std=projection.in_features**-0.5)

    @property
    def w_o(self):
        """The projection of the outputs."""
        return self.block.out_proj

    def kept(self):
        """Return the shapes of the hidden state, and of the recent tokens."""
        config = self.block.config
        return (config.d_inner, config.d_state), (config.d_conv - 1, config.d_inner)

    def enter(self, x):
        """Return channels and gates, side by side."""
        return self.block.in_proj(x)

    def leave(self, mixed):
        """Project the channels back."""
        return self.block.out_proj(mixed)

    def mix(self, tokens, key_mask, state):
        """Convolve, scan, and let the gates decide."""
        memory, recent = (None, None) if state is None else state
        u, z = tokens.chunk(2, dim=-1)
        u, recent = after(recent, u, self.block.config.d_conv - 1)
        u = F.silu(convolve(u, self.block.conv1d.weight[:, 0], self.block.conv1d.bias))
        y, h = self.scan(u, key_mask, None if memory is None else memory.h)
        return y * F.silu(z), MixerState(Hidden(h), recent)

    def scan(self, u, key_mask, h):
        """Return y (B, N, channels) before the gate, and the last hidden state."""
        from mambapy.pscan import pscan

        block = self.block
        rank, width = block.config.dt_rank, block.config.d_state
        delta, B, C = block.x_proj(u).split([rank, width, width], dim=-1)
        # no time passes at a token that takes no part: it neither writes nor lets the state decay
        delta = keep(key_mask, F.softplus(block.dt_proj(delta)))
        decay = torch.exp(delta[..., None] * -torch.exp(block.A_log))
        written = (delta * u)[..., None] * B[:, :, None]
        if h is None:
            h = torch.zeros_like(decay[:, :1].sum(dim=1))
        if not u.numel():
            return u, h
        # the first token brings what is left of the state along
        written = torch.cat([written[:, :1] + decay[:, :1] * h[:, None], written[:, 1:]], dim=1)
        hidden = pscan(decay, written) if u.shape[1] > 1 else written
        return (hidden @ C[..., None])[..., 0] + block.D * u, hidden[:, -1]


def library():
    """Return what is needed of ``mambapy``, or say how to get it."""
    try:
        from mambapy.mamba import MambaBlock, MambaConfig
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mambapy":
            raise
        message = 'mixer "mamba" needs mambapy: pip install --no-deps mambapy, or "gma-ref[mamba]"'
        raise ModuleNotFoundError(message, name="mambapy") from None
    return MambaBlock, MambaConfig
