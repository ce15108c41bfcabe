"""The blocked form in C, compiled on this machine when asked for: `gma_ref.pytorch.native.build()`."""

from .decoding import step
from .library import build, built, missing
from .passes import backward, check, forward, serves

__all__ = ["backward", "build", "built", "check", "forward", "missing", "serves", "step"]
