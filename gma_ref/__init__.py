"""Gaussian Mixture Attention, equation by equation.

``import gma_ref`` gives the NumPy reference; the other rooms load when they are first used.
"""

from importlib import import_module

__version__ = "0.1.0"

_ROOMS = ("equations", "plots", "reference", "shakespeare")


def __getattr__(name):
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_ROOMS])
