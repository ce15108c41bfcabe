"""PyTorch's dot-product attention by whichever of its kernels is the fastest here."""

import statistics
import warnings

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from .clock import interleave

__all__ = ["fastest_softmax"]

_TRIED_AT = 1024  # tokens: one of the kernels makes N×N weights


def fastest_softmax(q, k, v, *, causal, training):
    """Find out which kernel of ``scaled_dot_product_attention`` is the fastest for such inputs.

    PyTorch's own choice is kept unless another kernel is at least a tenth faster, since choosing takes time as well.

    Parameters
    ----------
    q, k, v : Tensor, (B, H, N, d)
        With more than 1,024 queries, their first 1,024 tokens are tried.
    causal, training : bool
        What is tried: the causal form, and the backward pass as well.

    Returns
    -------
    attend : callable
        Of q, k, v.
    name : str
        ``"default"``, or the kernel's name.
    """
    attend = {"default": _default(causal)}
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        attend[backend.name.removesuffix("_ATTENTION").lower()] = _with(backend, causal)
    if q.shape[-2] > _TRIED_AT:
        q, k, v = (tensor[..., :_TRIED_AT, :] for tensor in (q, k, v))
    tried = tuple(tensor.detach().requires_grad_(training) for tensor in (q, k, v))
    trials = {name: _trial(call, tried, training) for name, call in attend.items()}
    trials = {name: trial for name, trial in trials.items() if _works(trial)}
    synchronise = torch.cuda.synchronize if q.is_cuda else None
    times = interleave(trials, repeats=5, synchronise=synchronise)
    medians = {name: statistics.median(one.samples) for name, one in times.items()}
    best = min(medians, key=medians.get)
    if medians[best] > 0.9 * medians["default"]:
        best = "default"
    return attend[best], best


def _default(causal):
    """Return the function as everybody calls it."""
    return lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _with(backend, causal):
    """Return the function with one kernel and no other allowed."""

    def attend(q, k, v):
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return attend


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
