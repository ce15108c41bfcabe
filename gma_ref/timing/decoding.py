"""One step of decoding: a token that reads all before it, by GMA's state and by a cache of keys and values."""

import torch

from gma_ref import pytorch

from . import slow
from .compiled import program
from .method import Method, Prepared
from .softmax import fastest_softmax

__all__ = ["STEPS"]


def _last(tokens):
    """Return the one row that a step gives: the last."""
    return [tokens - 1]


def _gma_step(inputs, causal, training):
    """Read and write a state that N - 1 tokens have made; the new state is made and dropped."""
    q, k, v = (getattr(inputs, name).detach()[..., -1:, :].clone() for name in "qkv")
    leaves = {"q": q} | {name: getattr(inputs, name) for name in ("k", "v", "mu", "variance", "log_prior")}
    mixture = pytorch.GaussianMixture(inputs.mu, inputs.variance, inputs.log_prior)
    with torch.no_grad():
        gamma = pytorch.responsibilities(inputs.k[..., :-1, :], mixture)
        state = pytorch.write_memory(gamma, inputs.v[..., :-1, :])

    def forward():
        return pytorch.gaussian_mixture_attention(q, k, v, mixture, causal=True, state=state, return_state=True)[0]

    def at_the_end(wide, rows):
        return slow.gaussian_mixture(**_with_all_queries(wide), rows=rows, causal=True)

    return Prepared(leaves, forward, at_the_end, variant=program(inputs.problem))


def _softmax_step(inputs, causal, training):
    """Write key and value into their places in a cache that has room already, and read all of it."""
    q, k, v = (getattr(inputs, name).detach()[..., -1:, :].clone() for name in "qkv")
    leaves = {"q": q, "k": inputs.k, "v": inputs.v}
    cached_k, cached_v = inputs.k.detach().clone(), inputs.v.detach().clone()
    attend, variant = fastest_softmax(q, cached_k, cached_v, causal=False, training=False)

    def forward():
        cached_k[..., -1:, :], cached_v[..., -1:, :] = k, v
        return attend(q, cached_k, cached_v)

    def at_the_end(wide, rows):
        return slow.softmax(**_with_all_queries(wide), rows=rows, causal=True)

    return Prepared(leaves, forward, at_the_end, variant=variant)


def _with_all_queries(wide):
    """Return the tensors with the query of the last token in the place of all, of which only the last one is asked."""
    return wide | {"q": wide["q"].expand_as(wide["k"])}


STEPS = [
    Method(
        "gma_step",
        "GMA step",
        'one token: its responsibilities, write into a new state, read, as "auto" takes it; without projections',
        _gma_step,
        lambda problem, causal, training: 4 * problem.bytes_of_q,
        causal=(True,),
        trains=False,
        rows=_last,
        any_row=False,
        swept=False,
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
        any_row=False,
        swept=False,
    ),
]
