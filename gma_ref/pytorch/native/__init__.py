"""The blocked form in C, compiled on this machine when asked for: `gma_ref.pytorch.native.build()`."""

from .library import build, built
from .passes import fits, forward

__all__ = ["build", "built", "fits", "forward"]
