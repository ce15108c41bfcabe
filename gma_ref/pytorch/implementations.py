"""Which program computes Gaussian Mixture Attention."""

import torch

from . import native
from .blocked import blocked_attention
from .naive import naive_attention
from .one_token import is_one_token, one_token_attention

# The largest tensor of the naive form, tokens × K × width numbers, with which it is the faster one on a CPU, as it was
# measured forwards and backwards: it starts more quickly, which counts for a few tokens, such as a step of decoding.
FEW = 2**15


def automatic(q, k, v, mu, variance, log_prior, *, key_mask, state, **options):
    """Call the implementation that is expected to be fastest, by shapes, dtypes and device alone.

    A compiler always gets the blocked form, of which one graph serves all lengths. That takes the program in C where
    there is one already.
    """
    # a compiler is not let near the comparison, of which it would make a graph for few tokens and one for many
    looks = q.device.type == "cpu" and not torch.compiler.is_compiling()
    given, rest = (q, k, v, mu, variance, log_prior), {"key_mask": key_mask, "state": state}
    if looks and is_one_token(*given, **rest):
        made = one_token_attention(*given, state=state, eps=options["eps"])
        if made is not None:
            return made
    if looks and max(q.numel(), k.numel(), v.numel()) * mu.shape[-2] <= FEW:
        return naive_attention(*given, **rest, **options)
    return blocked_attention(*given, **rest, **options, program="auto")


def native_attention(q, k, v, mu, variance, log_prior, *, key_mask, state, **options):
    """Call the blocked form by the program in C, or say why that cannot be."""
    tensors = {"q": q, "k": k, "v": v, "mixture.mu": mu, "mixture.variance": variance, "mixture.log_prior": log_prior}
    if state is not None:
        tensors |= {"state.V_tilde": state[0], "state.Z": state[1]}
    native.check(tensors)
    given, rest, made = (q, k, v, mu, variance, log_prior), {"key_mask": key_mask, "state": state}, None
    if is_one_token(*given, **rest):
        made = native.step(*given, state, options["eps"])
    return made or blocked_attention(*given, **rest, **options, program="native")


KNOWN = {"auto": automatic, "naive": naive_attention, "blocked": blocked_attention, "native": native_attention}


def choose(name):
    """Return the implementation of that name, or say why there is none."""
    if isinstance(name, str) and name in KNOWN:
        return KNOWN[name]
    names = " or ".join(f'"{one}"' for one in KNOWN)
    if not isinstance(name, str):
        raise TypeError(f"implementation must be {names}, got {type(name).__name__}")
    reason = " (this version has no kernels in Triton)" if name == "triton" else ""
    raise ValueError(f'implementation must be {names}, got "{name}"{reason}')
