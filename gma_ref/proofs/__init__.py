"""Proofs, step by step, each step decided by SymPy.

``claim("17").check()`` decides one, ``claim("17").show()`` displays it, ``python -m gma_ref.proofs`` checks all.
"""

from . import (  # noqa: F401  they register their claims
    beyond,
    causal,
    invariance,
    memory,
    memory_gradients,
    routing,
    score_gradients,
    softmax,
    stability,
    structure,
    trace_trap,
)
from .claim import Claim, ProofError, claim, claims

__all__ = ["Claim", "ProofError", "claim", "claims"]
