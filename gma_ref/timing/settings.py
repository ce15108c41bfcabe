"""What a run measures, and how: its settings, and a single case."""

from dataclasses import dataclass
from typing import NamedTuple

from .inputs import Problem

__all__ = ["Case", "Settings"]


class Case(NamedTuple):
    """One thing to time: a method at a length, causal or not, with gradients or without."""

    method: str
    tokens: int
    causal: bool = True
    training: bool = False


@dataclass(frozen=True)
class Settings:
    """What a run measures, and how.

    Attributes
    ----------
    device, dtype : str
    threads : int
        Of PyTorch, while a `Bench` prepares or times.
    batch, heads, width, components, seed : int
        As in `Problem`.
    repeats : int
        Samples of each callable, at most.
    seconds_per_point : float
        A callable that would take longer for three samples is left out, and one that is slow gets fewer samples.
    shrink : int
        Divides every length: to try the harness in seconds.
    quick : bool
        Whether this is the short run.
    """

    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 2
    batch: int = 1
    heads: int = 4
    width: int = 64
    components: int = 64
    seed: int = 0
    repeats: int = 9
    seconds_per_point: float = 15.0
    shrink: int = 1
    quick: bool = False

    def problem(self, tokens, heads=None):
        """Return the problem of a length."""
        chosen = {name: getattr(self, name) for name in ("batch", "width", "components", "dtype", "device", "seed")}
        return Problem(max(2, tokens // self.shrink), heads=heads or self.heads, **chosen)
