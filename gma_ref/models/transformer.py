"""A plain pre-norm Transformer around any mixer: a causal language model, or a classifier of sequences."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from gma_ref.pytorch.numerics import keep, ratio

from .checks import check_stream, check_tokens
from .config import Config
from .mixers import make_mixer
from .parameters import parameter_groups
from .sampling import evaluating, generate

__all__ = ["Block", "Config", "StreamState", "Transformer", "parameter_groups"]

# Where embeddings start, beside layers that together add a variance of 1. They are the output weights too: with large
# ones a new model expects each token to come again, and takes longer to learn
SMALL = 0.05


class StreamState(NamedTuple):
    """What a model keeps of the tokens it has seen: how many they were, and the state of each layer's mixer."""

    position: int
    layers: tuple

    def select(self, index):
        """Return the states of some sequences of the batch, in the order given; one may come several times."""
        return StreamState(self.position, tuple(layer.select(index) for layer in self.layers))


class Block(nn.Module):
    """One layer: x + mixer(norm(x)), then x + MLP(norm(x)), wider inside and with GELU."""

    def __init__(self, config):
        super().__init__()
        d, inside = config.d_model, config.d_mlp or 4 * config.d_model
        options = {"num_heads": config.num_heads, "causal": config.causal} | config.mixer_options
        if config.mixer == "softmax" and config.causal:
            options.setdefault("window", config.max_len)
        self.norm_mixer, self.norm_mlp = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mixer = make_mixer(config.mixer, d, **options)
        self.mlp = nn.Sequential(nn.Linear(d, inside), nn.GELU(), nn.Linear(inside, d))
        self.dropout = nn.Dropout(config.dropout)
        for linear in (self.mlp[0], self.mlp[2]):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)
        with torch.no_grad():  # so that the sum of all layers has unit variance, whatever their number
            for last in (self.mixer.w_o, self.mlp[2]):
                last.weight *= (2 * config.num_layers) ** -0.5

    def forward(self, x, **options):
        """Return the tokens (B, N, d_model) after this layer, and the mixer's state, or None."""
        y = self.mixer(self.norm_mixer(x), **options)
        y, state = y if isinstance(y, tuple) else (y, None)
        x = x + self.dropout(y)
        return x + self.dropout(self.mlp(self.norm_mlp(x))), state


class Transformer(nn.Module):
    r"""A language model or a classifier, by its `Config`.

    Parameters
    ----------
    config : Config

    Notes
    -----
    Positions are the sines and cosines of Vaswani et al. (2017), added to the embedded tokens. Softmax attention needs
    positions; rotary ones are made for dot products, which a mixture does not take, and learned ones end with their
    table. These are the same for every mixer, cost no parameters, and run on as long as a stream does.
    """

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_model)
        nn.init.normal_(self.embedding.weight, std=SMALL)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.d_model)
        self.classifier = None if config.num_classes is None else nn.Linear(config.d_model, config.num_classes)

    def embed(self, tokens, start=0):
        """Return (B, N, d_model): embedded tokens, and the positions from `start` on."""
        embedded = self.embedding(tokens)
        waves = SMALL * positions(start, tokens.shape[1], self.config.max_len, self.config.d_model)
        return self.dropout(embedded + waves.to(embedded))

    def forward(self, tokens, *, key_mask=None):
        """Return logits: (B, N, vocabulary) of the next token at each, or (B, num_classes).

        Parameters
        ----------
        tokens : Tensor of integers, (B, N)
        key_mask : Tensor of bool, (N,) or (B, N), optional
            True: this token takes part.

        Raises
        ------
        TypeError, ValueError
            If the tokens or the mask have another kind or shape, or on a CPU if a token is outside the vocabulary.
        """
        check_tokens("tokens", tokens, "(B, N)", self.config.vocabulary)
        x = self.embed(tokens)
        for block in self.blocks:
            x, _ = block(x, key_mask=key_mask)
        x = self.norm(x)
        if self.classifier is None:
            return F.linear(x, self.embedding.weight)
        count = x.shape[1] if key_mask is None else key_mask.expand(tokens.shape).sum(dim=1, keepdim=True)
        total = keep(key_mask, x).sum(dim=1)
        return self.classifier(ratio(total, torch.as_tensor(count, device=x.device, dtype=x.dtype)))

    def prefill(self, tokens, state=None):
        """Read a piece (B, N) of a text; return its logits (B, N, vocabulary) and the `StreamState` after it.

        Without `state` the piece is the beginning; a state is not changed. Pieces and steps give the logits of
        `forward` over the whole. A classifier refuses, with a ValueError.
        """
        check_tokens("tokens", tokens, "(B, N)", self.config.vocabulary)
        check_stream(self, state)
        start, old = (0, [None] * len(self.blocks)) if state is None else state
        x, layers = self.embed(tokens, start), []
        for block, layer in zip(self.blocks, old, strict=True):
            x, layer = block(x, state=layer, return_state=True)
            layers.append(layer)
        return F.linear(self.norm(x), self.embedding.weight), StreamState(start + tokens.shape[1], tuple(layers))

    def step(self, token, state=None):
        """Read one more token (B,) of each text; return the logits (B, vocabulary) of the next, and the state."""
        check_tokens("token", token, "(B,)", self.config.vocabulary)
        logits, state = self.prefill(token[:, None], state)
        return logits[:, 0], state

    def generate(self, prompt, steps, temperature=1.0, top_k=None, generator=None):
        """Continue texts, token by token, without dropout.

        Parameters
        ----------
        prompt : Tensor of integers, (B, N) or (N,)
            At least one token.
        steps : int
        temperature : float
            Divides the logits; with 0 the likeliest token is always taken.
        top_k : int, optional
            Draw from the k likeliest only.
        generator : torch.Generator, optional
            For the draws; without it PyTorch's own.

        Yields
        ------
        Tensor of integers, (B,), or () for a prompt (N,)

        Raises
        ------
        TypeError, ValueError
            If an argument has another kind or range, or if the model is a classifier.
        FloatingPointError
            If a logit is not finite.
        """
        return generate(self, prompt, steps, temperature, top_k, generator)

    @torch.no_grad()
    def initialise_from(self, tokens, *, key_mask=None, entropy=0.5, generator=None):
        """Place the mixtures by a first batch of tokens (B, N), layer after layer, and return the model.

        Tokens that `key_mask` leaves out, such as padding, have no part in it. The rest is said at
        `gma_ref.pytorch.LearnedGaussianMixture.initialise_from`. Mixers without a mixture stay as they are.
        """
        check_tokens("tokens", tokens, "(B, N)", self.config.vocabulary)
        with evaluating(self):
            x = self.embed(tokens)
            for block in self.blocks:
                if hasattr(block.mixer, "initialise_from"):
                    placed_by = {"key_mask": key_mask, "entropy": entropy, "generator": generator}
                    block.mixer.initialise_from(block.norm_mixer(x), **placed_by)
                x, _ = block(x, key_mask=key_mask)
        return self


def positions(start, count, max_len, width):
    """Return (count, width) sines and cosines of positions from `start` on; from the last of `max_len` on, always that.

    In float64, since the angle of a late position has no digits to spare.
    """
    last = torch.inf if max_len is None else max_len - 1
    position = torch.arange(start, start + count, dtype=torch.float64).clamp_max(last)
    rate = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = position[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[:, :width]
