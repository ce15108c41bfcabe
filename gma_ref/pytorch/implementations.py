"""Which program computes Gaussian Mixture Attention."""

import torch

from .blocked import blocked_attention
from .naive import naive_attention

KNOWN = {"naive": naive_attention, "blocked": blocked_attention}

# The largest tensor of the naive form, tokens × K × width numbers, with which it is the faster one on a CPU, as it was
# measured forwards and backwards: it starts more quickly, which counts for a few tokens, such as a step of decoding.
FEW = 2**15


def choose(name, q, k, v, num_components):
    """Return the implementation of that name; for ``"auto"`` the one that is expected to be fastest.

    It looks at shapes and at the device alone. A compiler always gets the blocked form, of which one graph serves all
    lengths.
    """
    names = " or ".join(f'"{one}"' for one in ("auto", *KNOWN))
    if not isinstance(name, str):
        raise TypeError(f"implementation must be {names}, got {type(name).__name__}")
    if name == "auto":
        if torch.compiler.is_compiling() or q.device.type != "cpu":
            return blocked_attention
        few = max(q.numel(), k.numel(), v.numel()) * num_components <= FEW
        return naive_attention if few else blocked_attention
    if name not in KNOWN:
        reason = " (this version has no kernels in Triton)" if name == "triton" else ""
        raise ValueError(f'implementation must be {names}, got "{name}"{reason}')
    return KNOWN[name]
