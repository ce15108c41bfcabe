"""The blocked form in C, compiled on this machine when asked for: `gma_ref.pytorch.native.build()`."""

from .library import build, built, switched_off
from .passes import backward, fits, forward

__all__ = ["backward", "build", "built", "fits", "forward", "switched_off"]
