"""The experiments of the book, as data: what is varied, and what stays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from .settings import Settings

__all__ = ["EXPERIMENTS", "Grid"]


@dataclass(frozen=True)
class Grid:
    """Runs that share some settings and differ in others: every combination of the values is one run.

    Parameters
    ----------
    shared : mapping
        Settings of all runs.
    varied : mapping
        For each setting its values. A key may name several settings, ``"mixer, num_components"``, whose values then
        come together.
    tuned_by : str, optional
        The experiment whose best learning rate each run takes: the best on the validation part among the runs with the
        same ``alike``.
    alike : sequence of str
        The settings that must be the same there.
    """

    shared: Mapping[str, Any]
    varied: Mapping[str, Sequence] = field(default_factory=dict)
    tuned_by: str | None = None
    alike: Sequence[str] = ("task", "mixer", "length", "convolution")

    def runs(self) -> list[Settings]:
        """Return the settings of every run, in the order of the values, the last setting changing fastest."""
        found = []
        for values in product(*self.varied.values()):
            chosen = {}
            for names, value in zip(self.varied, values, strict=True):
                names = [name.strip() for name in names.split(",")]
                chosen |= zip(names, value if len(names) > 1 else (value,), strict=True)
            found.append(Settings(**{**self.shared, **chosen}))
        return found


MIXERS = ("softmax", "gma", "linear", "favor", "mamba")
RATES = (5e-4, 1e-3, 2e-3, 4e-3)

_LANGUAGE = {"task": "shakespeare", "steps": 1000, "batch": 16, "length": 128}
_GENRE = {"task": "genre", "steps": 400, "batch": 8, "length": 2048, "num_layers": 2, "d_model": 64}
_RECALL = {"task": "recall", "steps": 2000, "batch": 32, "num_layers": 2, "d_model": 64, "num_heads": 1}
_PAIRS = tuple({"num_pairs": pairs} for pairs in (4, 8, 16, 32))

EXPERIMENTS = {
    # every mixer gets the same rates and the same number of trials
    "language-rates": [Grid(_LANGUAGE, {"convolution": (4,), "mixer": MIXERS, "lr": RATES})],
    "language": [
        Grid(_LANGUAGE | {"test": True}, {"seed": (1, 2, 3), "mixer": MIXERS}, tuned_by="language-rates"),
    ],
    "genre-rates": [Grid(_GENRE, {"mixer": MIXERS[:4], "lr": RATES})],
    "genre": [Grid(_GENRE | {"test": True}, {"seed": (1, 2, 3), "mixer": MIXERS[:4]}, tuned_by="genre-rates")],
    "recall": [Grid(_RECALL, {"task_options": _PAIRS, "mixer": MIXERS[:4], "lr": RATES})],
    "digits": [Grid({"task": "digits", "steps": 500, "d_model": 64, "num_layers": 2}, {"mixer": MIXERS[:4]})],
}
