"""PyTorch's dot-product attention by whichever of its kernels is the fastest here."""

import functools
import warnings

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from .clock import interleave

__all__ = ["fastest_softmax"]

_TRIED_AT = 1024  # tokens: one of the kernels makes N×N weights
# On a CPU PyTorch takes its flash kernel by itself wherever it can
_ON_CPU = (SDPBackend.MATH,)
_ON_CUDA = (
    SDPBackend.MATH,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
)


def fastest_softmax(q, k, v, *, causal, training):
    """Find out which kernel of ``scaled_dot_product_attention`` is the fastest for such inputs.

    PyTorch's own choice is kept unless another kernel is at least a tenth faster, since choosing takes time as well.

    Parameters
    ----------
    q, k, v : Tensor, (B, H, N, d)
        Only their shapes, dtype and device count. Above 1,024 queries, 1,024 tokens are tried.
    causal, training : bool
        What is tried: the causal form, and the backward pass as well.

    Returns
    -------
    attend : callable
        Of q, k, v.
    name : str
        ``"default"``, or the kernel's name.
    """
    shapes = [tensor.shape for tensor in (q, k, v)]
    if q.shape[-2] > _TRIED_AT:
        shapes = [(*shape[:-2], _TRIED_AT, shape[-1]) for shape in shapes]
    name = _fastest(tuple(map(tuple, shapes)), q.dtype, q.device, causal, training)
    return _kernels(q.is_cuda, causal)[name], name


def _kernels(on_cuda, causal):
    """Return the ways to call it, by name."""
    kernels = {"default": functools.partial(F.scaled_dot_product_attention, is_causal=causal)}
    for backend in _ON_CUDA if on_cuda else _ON_CPU:
        kernels[backend.name.removesuffix("_ATTENTION").lower()] = _with(backend, causal)
    return kernels


def _with(backend, causal):
    """Return the function with one kernel and no other allowed."""

    def attend(q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return attend


@functools.cache
def _fastest(shapes, dtype, device, causal, training):
    """Try the kernels on random tensors of these shapes, and return the name of the fastest."""
    with torch.random.fork_rng():
        tensors = tuple(torch.randn(shape, device=device).to(dtype).requires_grad_(training) for shape in shapes)
    trials = {
        name: _trial(attend, tensors, training) for name, attend in _kernels(device.type == "cuda", causal).items()
    }
    trials = {name: trial for name, trial in trials.items() if _works(trial)}
    times = interleave(trials, repeats=3, synchronise=torch.cuda.synchronize if device.type == "cuda" else None)
    best = min(times, key=lambda name: times[name].median)
    return best if times[best].median < 0.9 * times["default"].median else "default"


def _trial(attend, tensors, training):
    """Return a call to be timed."""

    def trial():
        with torch.set_grad_enabled(training):
            output = attend(*tensors)
        return torch.autograd.grad(output.sum(), tensors) if training else output

    return trial


def _works(trial):
    """Return whether a kernel takes such inputs: PyTorch says no by a RuntimeError, and warns why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trial()
        except RuntimeError:
            return False
    return True
