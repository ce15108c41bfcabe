"""What every task offers, and the batches that it gives."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

__all__ = ["IGNORED", "PARTS", "Batch", "Task", "batches_of", "check_part", "spread"]

IGNORED = -100  # a target that is not asked for, as torch.nn.functional.cross_entropy has it
PARTS = ("train", "validation", "test")


class Batch(NamedTuple):
    """Sequences and what is to be said of them.

    ``inputs`` (B, N) are token numbers. ``targets`` are (B, N), one for each token, `IGNORED` where nothing is asked,
    or (B,), one for each sequence. ``key_mask`` (B, N) is True for tokens, False for padding, None without padding.
    ``group`` (B,), None without groups, tells to which of the task's groups each sequence belongs, by number.
    """

    inputs: Tensor
    targets: Tensor
    key_mask: Tensor | None = None
    group: Tensor | None = None

    def to(self, device) -> "Batch":
        """Return the batch on a device."""
        return Batch(*(None if part is None else part.to(device) for part in self))

    def rows(self, start: int, stop: int) -> "Batch":
        """Return some of the sequences."""
        return Batch(*(None if part is None else part[start:stop] for part in self))


class Task(Protocol):
    """What the training needs to know of a task.

    Attributes
    ----------
    name : str
    vocabulary
        With ``size``; with ``encode(text)`` and ``decode(tokens)`` where the task is text.
    unit : str
        ``"bits per character"``, ``"bits per word"`` or ``"accuracy"``: what `evaluate` calls the score.
    num_classes : int or None
        None where every token has a target.
    default_length : int
        The sequence length that is used where none is asked for.
    groups : tuple of str, optional
        What the sequences of an evaluation are divided into, such as plays; each group gets a score of its own.
    """

    name: str
    unit: str
    num_classes: int | None
    default_length: int

    def train_batches(self, generator: torch.Generator, batch: int, length: int) -> Iterator[Batch]:
        """Yield training batches without end.

        What is drawn for a batch is drawn when that batch is asked for, from `generator` alone: whoever seeds the
        generator before each batch can repeat any of them without those before it.
        """

    def evaluation(self, part: str, length: int, *, batch: int = 32, limit: int | None = None) -> Iterator[Batch]:
        """Yield the batches of ``"validation"`` or ``"test"``, the same at every call.

        `limit` is the most tokens wanted; sequences are then taken evenly from the whole part.
        """


def check_part(part: str, allowed: tuple[str, ...] = ("validation", "test")) -> None:
    """Refuse a part of the data that does not exist."""
    if part not in allowed:
        raise ValueError(f"part must be {' or '.join(map(repr, allowed))}, got {part!r}")


def spread(available: int, length: int, limit: int | None) -> Tensor:
    """Choose sequences evenly from `available` ones, at least one and at most `limit` tokens.

    >>> spread(10, 4, 12).tolist()
    [0, 3, 6]
    """
    wanted = available if limit is None else min(available, max(1, limit // length))
    return torch.arange(wanted) * available // wanted


def batches_of(whole: Batch, batch: int) -> Iterator[Batch]:
    """Cut sequences that are all there into batches; the last may be smaller."""
    for start in range(0, len(whole.inputs), batch):
        yield whole.rows(start, start + batch)
