"""One step of decoding: a token that reads all before it, by GMA's state and by a cache of keys and values."""

import torch

from gma_ref import pytorch

from . import slow
from .method import Method, Prepared
from .softmax import fastest_softmax

__all__ = ["STEPS"]


def _last(tokens):
    """Return the one row that a step gives: the last."""
    return [tokens - 1]


def _gma_step(inputs, causal, training):
    """Read and write a state that N - 1 tokens have made; the new state is made and dropped."""
    leaves = {name: getattr(inputs, name) for name in ("q", "k", "v", "mu", "variance", "log_prior")}
    mixture = pytorch.GaussianMixture(inputs.mu, inputs.variance, inputs.log_prior)
    with torch.no_grad():
        gamma = pytorch.responsibilities(inputs.k[..., :-1, :], mixture)
        state = pytorch.write_memory(gamma, inputs.v[..., :-1, :])
    q, k, v = (leaves[name][..., -1:, :].clone() for name in "qkv")

    def forward():
        return pytorch.gaussian_mixture_attention(q, k, v, mixture, causal=True, state=state, return_state=True)[0]

    return Prepared(leaves, forward, lambda wide, rows: slow.gaussian_mixture(**wide, rows=rows, causal=True))


def _softmax_step(inputs, causal, training):
    """Write key and value into their places in a cache that has room already, and read all of it."""
    leaves = {name: getattr(inputs, name) for name in "qkv"}
    cached_k, cached_v = inputs.k.detach().clone(), inputs.v.detach().clone()
    q, k, v = (leaves[name].detach()[..., -1:, :].clone() for name in "qkv")
    attend, variant = fastest_softmax(q, cached_k, cached_v, causal=False, training=False)

    def forward():
        cached_k[..., -1:, :], cached_v[..., -1:, :] = k, v
        return attend(q, cached_k, cached_v)

    return Prepared(leaves, forward, lambda wide, rows: slow.softmax(**wide, rows=rows, causal=True), variant=variant)


STEPS = [
    Method(
        "gma_step",
        "GMA step",
        'one token: its responsibilities, write into a new state, read, as "auto" chooses; without projections',
        _gma_step,
        lambda problem, causal, training: 4 * problem.bytes_of_q,
        causal=(True,),
        trains=False,
        rows=_last,
    ),
    Method(
        "sdpa_step",
        "SDPA step",
        "one token: key and value into a cache with room, attention over the cache; without projections",
        _softmax_step,
        lambda problem, causal, training: 4 * problem.bytes_of_q,
        causal=(True,),
        trains=False,
        rows=_last,
    ),
]
