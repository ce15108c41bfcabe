"""Small trained models: token mixers with one interface, a plain Transformer around them, tasks, and training.

Its modules load when they are first used: ``mixers`` and ``transformer`` need PyTorch alone.
"""

from importlib import import_module

_LAZY = (
    "checkpoints",
    "evaluation",
    "experiments",
    "linear_attention",
    "mixers",
    "summary",
    "tasks",
    "training",
    "transformer",
)


def __getattr__(name):
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_LAZY})
