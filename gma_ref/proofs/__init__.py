"""Proofs, step by step, each step decided by SymPy.

``claim("17").check()`` decides one, ``claim("17").show()`` displays it, ``python -m gma_ref.proofs`` checks all.
"""

from . import causal, memory, routing, score_gradients, softmax  # noqa: F401  they register their claims
from .claim import Claim, ProofError, claim, claims

__all__ = ["Claim", "ProofError", "claim", "claims"]
