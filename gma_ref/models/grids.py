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
RATES = (1.5e-3, 3e-3, 6e-3, 12e-3)
SEEDS = (1, 2, 3)  # those of the tuning, seed 0, are not used again

# every mixer gets as many parameters, tokens, rates and trials; Mamba has no queries and keys that could be normalised,
# and its convolution is a part of it
_LANGUAGE = {"task": "shakespeare", "parameters": 650_000, "steps": 1000, "batch": 16, "length": 128}
_TESTED = _LANGUAGE | {"test": True}
_ALL = {"mixer, qk_norm": tuple((mixer, mixer != "mamba") for mixer in MIXERS)}
_ATTENTION = {"mixer, qk_norm": tuple((mixer, True) for mixer in MIXERS[:4])}
_BARE = {"mixer, qk_norm": tuple((mixer, False) for mixer in MIXERS[:4])}
_OTHERS = ("softmax", "linear", "favor")
_GMA = _LANGUAGE | {"mixer": "gma", "qk_norm": True, "lr": 6e-3}

# every model meets all numbers of pairs, and is asked about each; with 31 keys, K = 64 has a slot for every one. GMA's
# mixtures are placed by the first batch, which in single runs did better than any start that was drawn (recall-starts)
_RECALL = {"task": "recall", "length": 32, "batch": 32, "steps": 1000, "evaluate_every": 250, "qk_norm": True}
_RECALL |= {"num_layers": 2, "d_model": 32, "num_heads": 1, "parameters": 50_000, "final_tokens": None}
_STORED = {"num_pairs": "1,2,4,8", "vocabulary_size": 64, "strays": False}
_ORDERS = (_STORED, _STORED | {"interleaved": True})
_RECALL_GMA = _RECALL | {"mixer": "gma", "task_options": _STORED, "lr": 6e-3}
_ONE_SIZE = {"mixer, placement": tuple((mixer, 0.5 if mixer == "gma" else None) for mixer in MIXERS[:4])}
_SIZES = {
    "mixer, num_components, placement": (
        *((mixer, 64, None) for mixer in _OTHERS),
        *(("gma", K, 0.5) for K in (4, 16, 64, 256)),
    )
}

# whole sequences, seen from both sides, so that the convolution is symmetric; 24,576 characters a step at every length:
# genres show in how often letters come, so that many passages teach more than a large model would
_GENRE = {"task": "genre", "causal": False, "convolution": 3, "qk_norm": True, "parameters": 16_000}
_GENRE |= {"num_layers": 1, "d_model": 32, "num_heads": 1}
_GENRE |= {"steps": 200, "batch": 48, "length": 512}  # as many of each of the three genres
_GENRE |= {"evaluate_every": 50, "evaluation_tokens": 270_336, "final_tokens": None}  # 33 passages of 8,192
_READERS = {"mixer, num_components": (*((mixer, 64) for mixer in MIXERS[:4]), ("gma", 1))}  # the last routes nothing
_GENRE_RATES = (3e-3, 6e-3, 12e-3, 24e-3)


def _at_length(length, batch, shared, varied, tuned_by):
    """Return the runs that count at another length than that of the tuning, with its rates."""
    shared = shared | {"test": True, "batch": batch, "length": length}
    return [Grid(shared, {"seed": SEEDS} | varied, tuned_by=tuned_by, alike=("mixer",))]


EXPERIMENTS = {
    # GMA with one thing changed at a time; the first row is what is changed, with seeds that show how far chance goes
    "language-ablation": [
        Grid(_GMA, {"seed": (0, 4, 5)}),
        Grid(_GMA, {"num_components": (16, 32, 128)}),
        Grid(_GMA, {"mixture_lr_factor": (1e-4, 5.0)}),  # with the first the mixtures stay as they were drawn
        Grid(_GMA, {"qk_norm": (False,)}),
        Grid(_GMA, {"convolution": (0,)}),
        Grid(_GMA, {"placement": (0.5,)}),
        Grid(_GMA, {"num_heads": (2, 8)}),
        Grid(_GMA, {"mixer_options": tuple({"initial_variance": value} for value in (1.0, 2.4, 16.0))}),
        Grid(_GMA, {"mixer_options": ({"shared_mixture": True},)}),
        Grid(_GMA | {"mixer_options": {"shared_mixture": True}}, {"num_components": (128,)}),
    ],
    # what the others have of the same: the norm left out, more heads, other numbers of features
    "language-ingredients": [
        Grid(_LANGUAGE, {"mixer": _OTHERS, "qk_norm": (False,)}, tuned_by="language-rates", alike=("mixer",)),
        Grid(
            _LANGUAGE | {"qk_norm": True},
            {"mixer": _OTHERS, "num_heads": (8,)},
            tuned_by="language-rates",
            alike=("mixer",),
        ),
        Grid(
            _LANGUAGE | {"qk_norm": True, "mixer": "favor"},
            {"mixer_options": tuple({"num_features": count} for count in (64, 256))},
            tuned_by="language-rates",
            alike=("mixer",),
        ),
    ],
    "language-rates": [Grid(_LANGUAGE, _ALL | {"lr": RATES})],
    "language": [Grid(_TESTED, {"seed": SEEDS} | _ALL, tuned_by="language-rates")],
    "language-512": _at_length(512, 4, _LANGUAGE, _ATTENTION, "language-rates"),
    "language-2048": _at_length(2048, 1, _LANGUAGE, _ATTENTION, "language-rates"),
    "language-plain-rates": [Grid(_LANGUAGE | {"convolution": 0}, _ATTENTION | {"lr": RATES})],
    "language-plain": [
        Grid(_TESTED | {"convolution": 0}, {"seed": SEEDS} | _ATTENTION, tuned_by="language-plain-rates"),
    ],
    "language-bare-rates": [Grid(_LANGUAGE | {"convolution": 0}, _BARE | {"lr": RATES})],
    "language-bare": [
        Grid(_TESTED | {"convolution": 0}, {"seed": SEEDS} | _BARE, tuned_by="language-bare-rates"),
    ],
    # K is what is varied in recall, so GMA has one rate, that of K = 64, for all
    "recall-rates": [Grid(_RECALL, {"task_options": _ORDERS} | _ONE_SIZE | {"lr": RATES})],
    "recall": [
        Grid(
            _RECALL | {"test": True},
            {"task_options": _ORDERS, "seed": SEEDS} | _SIZES,
            tuned_by="recall-rates",
            alike=("mixer", "task_options"),
        ),
    ],
    # where a mixture begins, GMA at K = 64
    "recall-starts": [
        Grid(_RECALL_GMA, {"seed": (0, 4, 5), "placement": (None, 0.5)}),
        Grid(_RECALL_GMA, {"placement": (0.15, 0.3, 0.7, 0.9)}),
        Grid(_RECALL_GMA, {"mixer_options": tuple({"initial_variance": value} for value in (1.0, 2.4))}),
        Grid(_RECALL_GMA | {"placement": 0.5}, {"mixture_lr_factor": (1e-4, 5.0)}),
    ],
    "recall-plain": [
        Grid(
            _RECALL | {"convolution": 0, "task_options": _STORED},
            _ONE_SIZE,
            tuned_by="recall-rates",
            alike=("mixer", "task_options"),
        ),
    ],
    "genre-rates": [Grid(_GENRE, _ATTENTION | {"lr": _GENRE_RATES})],
    "genre": [Grid(_GENRE | {"test": True}, {"seed": SEEDS} | _READERS, tuned_by="genre-rates")],
    "genre-2048": _at_length(2048, 12, _GENRE, _READERS, "genre-rates"),
    "genre-8192": _at_length(8192, 3, _GENRE, _READERS, "genre-rates"),
}
