"""Gaussian Mixture Attention, equation by equation.

``import gma_ref`` gives the functions of the NumPy reference; the other modules load when they are first used.
"""

from importlib import import_module

from .reference import *  # noqa: F403
from .reference import __all__ as _reference_names

__version__ = "0.1.0"
__all__ = list(_reference_names)

_LAZY = (
    "characters",
    "counting",
    "diagnostics",
    "equations",
    "models",
    "plots",
    "proofs",
    "pytorch",
    "shakespeare",
    "timing",
    "word_vectors",
)


def __getattr__(name):
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_LAZY})
