"""Language modelling: predict each symbol of a text from those before it in a window."""

from collections.abc import Iterator, Mapping
from functools import cache

import torch
from torch import Tensor

from .plays import play_text, titles
from .task import PARTS, Batch, check_part, spread
from .vocabulary import Symbols

__all__ = ["TextTask", "count_windows", "shakespeare", "windows"]


def count_windows(num_tokens: int, length: int) -> int:
    """Return how many windows a text has: they start at 0, 1, ... and each needs `length` tokens and the one after.

    Raises
    ------
    ValueError
        If the text is too short for one window.
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    if num_tokens < length + 1:
        raise ValueError(f"length must leave a next token, got {length} with a text of {num_tokens} tokens")
    return num_tokens - length


def windows(tokens: Tensor, starts: Tensor, length: int) -> Batch:
    """Cut windows from a text: inputs from each start on, targets one token later."""
    cut = tokens[starts[:, None] + torch.arange(length + 1)]
    return Batch(cut[:, :-1], cut[:, 1:])


class TextTask:
    """Predict the next symbol of a text that comes in three parts.

    Parameters
    ----------
    name, unit : str
    vocabulary : Symbols
    parts : mapping of str to Tensor
        The token numbers of ``"train"``, ``"validation"`` and ``"test"``, already apart.
    """

    num_classes = None
    default_length = 128

    def __init__(self, name: str, unit: str, vocabulary: Symbols, parts: Mapping[str, Tensor]):
        self.name, self.unit, self.vocabulary = name, unit, vocabulary
        self.parts = {part: parts[part] for part in PARTS}

    def train_batches(self, generator: torch.Generator, batch: int, length: int) -> Iterator[Batch]:
        """Yield windows that start anywhere in the training text, every start as likely as any other."""
        tokens = self.parts["train"]
        count = count_windows(len(tokens), length)
        while True:
            yield windows(tokens, torch.randint(count, (batch,), generator=generator), length)

    def evaluation(self, part: str, length: int, *, batch: int = 32, limit: int | None = None) -> Iterator[Batch]:
        """Yield windows that stand side by side, so that every token of them is predicted once.

        A token sees those before it in its window only: (length + 1) / 2 on average. What is left over at the end of
        the text, less than a window, is not used.
        """
        check_part(part)
        tokens = self.parts[part]
        count_windows(len(tokens), length)
        starts = spread((len(tokens) - 1) // length, length, limit) * length
        for start in range(0, len(starts), batch):
            yield windows(tokens, starts[start : start + batch], length)


@cache
def shakespeare() -> TextTask:
    """Return the characters of Shakespeare's plays, speakers' names among them, as a language to model.

    The parts are those of `gma_ref.models.tasks.plays`. Characters that occur fewer than ten times in the training
    plays are unknown: figures, a dollar sign, and the quotation marks that one edition has.
    """
    texts = {part: "".join(play_text(title) for title in titles(part)) for part in PARTS}
    vocabulary = Symbols(texts["train"])
    return TextTask(
        "shakespeare", "bits per character", vocabulary, {part: vocabulary.encode(text) for part, text in texts.items()}
    )
