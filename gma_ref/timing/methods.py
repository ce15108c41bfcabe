"""The attention functions that are compared, and the floor under them.

A figure of an attention function covers the function alone: queries, keys and values are there already, and come out
as outputs or as gradients. GMA's covers the responsibilities of queries and of keys.
"""

import functools

import torch

from gma_ref import pytorch
from gma_ref.models.linear_attention import elu_features, favor_features, linear_attention, orthogonal_directions
from gma_ref.pytorch import native

from . import slow
from .compiled import program
from .cumulative import cumulative_rows, cumulative_sums
from .method import Method, Prepared
from .softmax import fastest_softmax

__all__ = ["functions"]

ROUTED = "responsibilities of queries and keys, write and read; gradients of q, k, v and of the mixture"
FLOOR_BLOCK = 512  # tokens
SHARPER = 20  # times: variances of about 0.4 in place of 8


def _floor(inputs, causal, training):
    """Six bare products a head, over all tokens in blocks of 512, into one buffer: two each with q, k and v."""
    N = inputs.problem.tokens
    matrix = inputs.mu.to(inputs.q.dtype).mT.contiguous()  # (H, d_r, K)
    blocks = [tensor.flatten(0, 1).split(FLOOR_BLOCK, dim=-2) for tensor in (inputs.q, inputs.k, inputs.v)]
    matrix = matrix.repeat(inputs.problem.batch, 1, 1)
    buffers = {size: inputs.q.new_empty(len(matrix), size, matrix.shape[-1]) for size in {FLOOR_BLOCK, N % FLOOR_BLOCK}}

    def forward():
        for group in blocks:
            for block in group:
                buffer = buffers[block.shape[-2]]
                torch.bmm(block, matrix, out=buffer)
                torch.bmm(block, matrix, out=buffer)
        return buffer

    def last_product(wide, rows):
        return wide["v"].flatten(0, 1)[:, (N - 1) // FLOOR_BLOCK * FLOOR_BLOCK :] @ matrix.double()

    return Prepared({"v": inputs.v}, forward, last_product)


def _softmax(inputs, causal, training):
    leaves = {"q": inputs.q, "k": inputs.k, "v": inputs.v}
    attend, variant = fastest_softmax(*leaves.values(), causal=causal, training=training)
    return Prepared(
        leaves,
        lambda: attend(*leaves.values()),
        lambda wide, rows: slow.softmax(**wide, rows=rows, causal=causal),
        inputs.upstream if training else None,
        variant,
    )


def _gma(inputs, causal, training, implementation, sharper=1):
    """GMA by the package, with the gradients of q, k, v and of the mixture's three tensors."""
    leaves = {name: getattr(inputs, name) for name in ("q", "k", "v", "mu", "variance", "log_prior")}
    if sharper != 1:
        leaves["variance"] = inputs.variance.detach() / sharper
    attend = functools.partial(pytorch.gaussian_mixture_attention, implementation=implementation, causal=causal)
    variant = program(inputs.problem) if implementation == "auto" and sharper == 1 else None
    return _routed(leaves, attend, causal, inputs.upstream if training else None, variant)


def _cumulative_rows(inputs, causal, training):
    """Cumulative sums in the fastest order, into a buffer that is kept from call to call."""
    leaves = {name: getattr(inputs, name) for name in ("q", "k", "v", "mu", "variance", "log_prior")}
    room = inputs.v.new_empty(*inputs.k.shape[:-1], inputs.problem.components, inputs.problem.width)
    return _routed(leaves, functools.partial(cumulative_rows, room=room), causal, None)


def _cumulative_sums(inputs, causal, training):
    leaves = {name: getattr(inputs, name) for name in ("q", "k", "v", "mu", "variance", "log_prior")}
    return _routed(leaves, cumulative_sums, causal, inputs.upstream if training else None)


def _routed(leaves, attend, causal, upstream, variant=None):
    for leaf in leaves.values():
        leaf.requires_grad_()
    q, k, v, *parameters = leaves.values()
    mixture = pytorch.GaussianMixture(*parameters)
    return Prepared(
        leaves,
        lambda: attend(q, k, v, mixture),
        lambda wide, rows: slow.gaussian_mixture(**wide, rows=rows, causal=causal),
        upstream,
        variant,
    )


def _linear(inputs, causal, training, features=elu_features):
    leaves = {"q": inputs.q, "k": inputs.k, "v": inputs.v}
    return Prepared(
        leaves,
        lambda: linear_attention(features(inputs.q), features(inputs.k), inputs.v, causal=causal),
        lambda wide, rows: slow.linear(**wide, rows=rows, causal=causal),
        inputs.upstream if training else None,
    )


def _favor(inputs, causal, training):
    width = inputs.problem.width
    directions = orthogonal_directions(favor_count(width), width, torch.Generator().manual_seed(0)).to(inputs.q)
    leaves = {"q": inputs.q, "k": inputs.k, "v": inputs.v}

    def forward():
        phi_q = favor_features(inputs.q, directions, query=True)
        phi_k = favor_features(inputs.k, directions, query=False)
        return linear_attention(phi_q, phi_k, inputs.v, causal=causal, eps=0.0)  # no feature is 0

    return Prepared(
        leaves,
        forward,
        lambda wide, rows: slow.favor(**wide, directions=directions.double(), rows=rows, causal=causal),
        inputs.upstream if training else None,
    )


def favor_count(width):
    """Return the usual number of FAVOR+'s features, d log d."""
    return int(width * torch.tensor(float(width)).log().item())


def _per_token(of_forward, of_training):
    """Return a workspace of so many times the size of q."""
    return lambda problem, causal, training: (of_training if training else of_forward) * problem.bytes_of_q


def _quadratic(problem, causal, training):
    """Return what the largest trial of the kernels takes, and a few tensors like q."""
    return 8 * problem.bytes_of_q + 6 * 4 * problem.batch * problem.heads * 1024**2


def _prefixes(problem, causal, training):
    """Return the bytes of the prefix memories: three such tensors forward, five with gradients."""
    if not causal:
        return 12 * problem.bytes_of_q
    return (5 if training else 3) * (problem.components + 1) * problem.bytes_of_q


def _not_beside_itself(problem):
    """Return why GMA in PyTorch is not measured beside GMA, or None."""
    if program(problem) == "in C":
        return None
    return f"is GMA itself, for {problem.dtype} on {problem.device}"


def functions():
    """Return the attention functions and the floor, as they can be measured here and now."""
    return [
        Method(
            "floor",
            "floor",
            "six bare products a head, in cache",
            _floor,
            _per_token(1, 1),
            causal=(False,),
            trains=False,
        ),
        Method(
            "gma",
            "GMA",
            ROUTED + '; implementation="auto": the program in C where it has been built',
            functools.partial(_gma, implementation="auto"),
            _per_token(3, 8),
        ),
        Method(
            "gma_blocked",
            "GMA in PyTorch",
            'the same; implementation="blocked": what is taken where there is no program in C',
            functools.partial(_gma, implementation="blocked"),
            _per_token(3, 8),
            same_as="gma",
            missing="GMA is this form here" if native.missing() else None,
            refuses=_not_beside_itself,
        ),
        Method(
            "gma_naive",
            "GMA naive",
            'the same; implementation="naive": the form for teaching',
            functools.partial(_gma, implementation="naive"),
            _prefixes,
            same_as="gma",
        ),
        Method(
            "gma_cumulative",
            "GMA, row by row",
            "the same, but every prefix memory is made: token after token, into a buffer that is kept",
            _cumulative_rows,
            _prefixes,
            same_as="gma",
            causal=(True,),
            trains=False,
        ),
        Method(
            "gma_cumsum",
            "GMA, torch.cumsum",
            "the same, but every prefix memory is made: by torch.cumsum along the tokens, which lie last",
            _cumulative_sums,
            _prefixes,
            same_as="gma",
            causal=(True,),
        ),
        *(
            Method(
                f"{name}_sharp",
                f"{title}, sharp mixture",
                f"the same, with variances divided by {SHARPER}",
                functools.partial(_gma, implementation=implementation, sharper=SHARPER),
                _per_token(6, 16),
                same_as="gma_sharp",
                swept=False,
                missing="GMA is this form here" if name == "gma_blocked" and native.missing() else None,
                refuses=_not_beside_itself if name == "gma_blocked" else lambda problem: None,
            )
            for name, title, implementation in (("gma", "GMA", "auto"), ("gma_blocked", "GMA in PyTorch", "blocked"))
        ),
        Method(
            "sdpa",
            "SDPA",
            "scores, softmax and weighted sum by PyTorch's fastest kernel; gradients of q, k, v",
            _softmax,
            _quadratic,
            growth=2,
        ),
        Method(
            "elu",
            "linear, elu + 1",
            "features and weighted sums in plain PyTorch, not a fused kernel; gradients of q, k, v",
            _linear,
            _per_token(8, 24),
        ),
        Method(
            "favor",
            "FAVOR+",
            "d log d random features (266 at d = 64), and weighted sums in plain PyTorch; gradients of q, k, v",
            _favor,
            _per_token(24, 80),
        ),
    ]
