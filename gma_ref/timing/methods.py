"""The attention functions that are compared, and the floor under them.

A figure of an attention function covers the function alone: queries, keys and values are there already, and come out
as outputs or as gradients. GMA's covers the responsibilities of queries and of keys.
"""

import functools

import torch

from gma_ref import pytorch

from . import slow
from .linear import elu_features, favor_features, linear_attention, orthogonal_directions
from .method import Method, Prepared
from .softmax import fastest_softmax

__all__ = ["FUNCTIONS", "ROUTED", "gaussian_mixture"]

FLOOR_BLOCK = 512  # tokens


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

    def last_product(leaves, rows):
        return inputs.v.double().flatten(0, 1)[:, (N - 1) // FLOOR_BLOCK * FLOOR_BLOCK :] @ matrix.double()

    return Prepared({}, forward, last_product)


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


def gaussian_mixture(inputs, causal, training, attend):
    """Take the gradients of q, k, v and of the mixture's three tensors."""
    leaves = {name: getattr(inputs, name) for name in ("q", "k", "v", "mu", "variance", "log_prior")}
    for leaf in leaves.values():
        leaf.requires_grad_()
    mixture = pytorch.GaussianMixture(inputs.mu, inputs.variance, inputs.log_prior)
    return Prepared(
        leaves,
        lambda: attend(inputs.q, inputs.k, inputs.v, mixture, causal=causal),
        lambda wide, rows: slow.gaussian_mixture(**wide, rows=rows, causal=causal),
        inputs.upstream if training else None,
    )


def plain_responsibilities(x, mixture):
    """Return Eq. (3) by two products, the square multiplied out: fast, and good for mixtures that lie near 0.

    Parameters
    ----------
    x : Tensor, (..., N, d_r)
    mixture : gma_ref.pytorch.GaussianMixture

    Returns
    -------
    Tensor, (..., N, K)
    """
    precision = 1 / mixture.variance
    offset = mixture.log_prior - (mixture.variance.log() + mixture.mu**2 * precision).sum(dim=-1) / 2
    by_square, by_linear = -precision.mT / 2, (mixture.mu * precision).mT
    x = x.to(mixture.mu.dtype)
    return torch.softmax(x**2 @ by_square + x @ by_linear + offset[..., None, :], dim=-1)


def cumulative_sums(q, k, v, mixture, *, causal, eps=1e-6):
    r"""Causal GMA by the prefix memories of all tokens, Eqs. (5b) and (8b), as fast as that goes in plain PyTorch.

    .. math:: \tilde V^{(i)} = \sum_{j \le i} \gamma^K_j v_j^\top, \qquad
              o_i = \frac{\gamma^Q_i \tilde V^{(i)}}{\gamma^Q_i Z^{(i)} + \epsilon}

    Parameters
    ----------
    q, k, v : Tensor, (..., N, width)
    mixture : gma_ref.pytorch.GaussianMixture
    causal : bool
        True; a bidirectional form needs no prefixes.
    eps : float

    Returns
    -------
    Tensor, (..., N, d_v)
    """
    gamma_q, gamma_k = plain_responsibilities(q, mixture), plain_responsibilities(k, mixture)
    V_tilde = (gamma_k[..., None] * v[..., None, :]).cumsum_(dim=-3)  # in place: half the time of a new tensor
    d = (gamma_q * gamma_k.cumsum(dim=-2)).sum(dim=-1, keepdim=True)
    return ((gamma_q[..., None, :] @ V_tilde)[..., 0, :] / (d + eps)).to(v.dtype)


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


_blocked = functools.partial(pytorch.gaussian_mixture_attention, implementation="blocked")
_naive = functools.partial(pytorch.gaussian_mixture_attention, implementation="naive")
ROUTED = "responsibilities of queries and keys, write and read; gradients of q, k, v and of the mixture"

FUNCTIONS = [
    Method(
        "floor", "floor", "six bare products a head, in cache", _floor, _per_token(1, 1), causal=(False,), trains=False
    ),
    Method("gma", "GMA blocked", ROUTED, functools.partial(gaussian_mixture, attend=_blocked), _per_token(3, 8)),
    Method("gma_naive", "GMA naive", ROUTED, functools.partial(gaussian_mixture, attend=_naive), _prefixes),
    Method(
        "gma_cumulative",
        "GMA cumulative",
        ROUTED + "; every prefix memory is made",
        functools.partial(gaussian_mixture, attend=cumulative_sums),
        _prefixes,
        causal=(True,),
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
