"""Which program computes Gaussian Mixture Attention."""

from .blocked import blocked_attention
from .naive import naive_attention

KNOWN = {"naive": naive_attention, "blocked": blocked_attention}


def choose(name):
    """Return the implementation of that name; for ``"auto"`` the one that is expected to be fastest."""
    names = " or ".join(f'"{one}"' for one in ("auto", *KNOWN))
    if not isinstance(name, str):
        raise TypeError(f"implementation must be {names}, got {type(name).__name__}")
    if name == "auto":
        return blocked_attention
    if name not in KNOWN:
        reason = " (this version has no kernels in Triton)" if name == "triton" else ""
        raise ValueError(f'implementation must be {names}, got "{name}"{reason}')
    return KNOWN[name]
