"""Which models are measured, at which sizes, and how."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gma_ref.models.settings import Settings

__all__ = ["KINDS", "LONG_CONTEXT", "PARTS", "Kind", "Plan"]

ENDLESS = 10**9  # steps: the learning rate stays at the start of its rise, so that the weights hardly move
PARTS = {
    "step": "one step of the training loop: the batch drawn, loss, gradients, their norm cut, AdamW; new weights",
    "prefill": "the prompt of one text, with the logits at all its tokens, and the state after it",
    "decoding": "one more token of one text, from the state after the prompt to logits and a new state",
    "forward": "whole sequences of a training batch, seen at once, from tokens to logits, without gradients",
}


class Kind(NamedTuple):
    """A model to be measured; with `aside`, GMA goes on without its program in C."""

    name: str
    title: str
    mixer: str
    aside: bool = False


KINDS = (
    Kind("softmax", "softmax", "softmax"),
    Kind("gma", "GMA", "gma"),
    Kind("gma_pytorch", "GMA in PyTorch", "gma", aside=True),
    Kind("linear", "linear, elu + 1", "linear"),
    Kind("favor", "FAVOR+", "favor"),
    Kind("mamba", "Mamba", "mamba"),
)


@dataclass(frozen=True)
class Plan:
    """What is measured of the models, and how.

    Attributes
    ----------
    steps : tuple of (int, int)
        Sequences and tokens of a sequence, of the steps of training.
    prompts : tuple of int
        Tokens before the one that is decoded.
    passes : tuple of (int, int)
        Sequences and tokens, of the passes forward. With some, memory is measured at all sizes, else at the last.
    kinds : tuple of str
        The names of the models.
    task : str
        By its name, as in `gma_ref.models.tasks.TASKS`.
    model : dict
        What the models have in common, of `gma_ref.models.settings.Settings`.
    device, dtype, threads, repeats, seconds_per_point, seed, quick
        As in `gma_ref.timing.bench.Settings`.
    """

    steps: tuple = ((16, 128), (4, 512), (1, 2_048))
    prompts: tuple = (128, 1_024, 4_096)
    passes: tuple = ()
    kinds: tuple = tuple(kind.name for kind in KINDS)
    task: str = "shakespeare"
    model: dict = field(
        default_factory=lambda: {
            "parameters": 650_000,
            "num_layers": 3,
            "d_model": 128,
            "num_heads": 4,
            "convolution": 4,
            "num_components": 64,
        }
    )
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 2
    repeats: int = 9
    seconds_per_point: float = 10.0
    seed: int = 0
    quick: bool = False

    def settings(self, kind, batch=1, length=None):
        """Return the settings with which such a model would be trained."""
        budget = {"steps": ENDLESS, "evaluate_every": ENDLESS, "batch": batch, "length": length, "seed": self.seed}
        normalised = kind.mixer != "mamba"  # it has no queries and keys
        return Settings(task=self.task, mixer=kind.mixer, qk_norm=normalised, **budget, **self.model)


# the classifiers of passages, as the experiments "genre" train them
LONG_CONTEXT = {
    "task": "genre",
    "steps": ((48, 512), (12, 2_048), (3, 8_192)),
    "passes": ((48, 512), (12, 2_048), (3, 8_192)),
    "prompts": (),
    "kinds": ("softmax", "gma", "gma_pytorch", "linear", "favor"),
    "model": {
        "parameters": 16_000,
        "num_layers": 1,
        "d_model": 32,
        "num_heads": 1,
        "convolution": 3,
        "num_components": 64,
        "causal": False,
    },
}
