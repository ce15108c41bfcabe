"""Which symbols a model knows, and what becomes of those that it does not."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

__all__ = ["Numbers", "Symbols"]


class Numbers:
    """A vocabulary that is its token numbers: 0 to ``size`` - 1."""

    def __init__(self, size: int):
        self.size = size


class Symbols:
    """Symbols with numbers; number 0 is the unknown symbol.

    A symbol is known if it occurs at least `min_count` times in the *training* text. Every other symbol, in any part
    and at any time, is the unknown one. Rare symbols of the training text are unknown as well, so that a model learns
    how common the unknown one is, instead of meeting it in the evaluation for the first time.

    Parameters
    ----------
    symbols : iterable of str
        The symbols of the training text, in order: its characters or its words.
    unknown : str
        What `decode` writes for the unknown symbol; in the text it is the unknown symbol too.
    min_count : int
    separator : str
        What `decode` puts between two symbols.
    limit : int, optional
        Keep the most common ones only, so that there are at most `limit` with the unknown one.
    """

    def __init__(self, symbols: Iterable[str], *, unknown="\ufffd", min_count=10, separator="", limit=None):
        counts = Counter(symbols)
        del counts[unknown]
        # by count, then by symbol: the same vocabulary whatever the order in which symbols are met
        ranked = sorted((-count, symbol) for symbol, count in counts.items() if count >= min_count)
        kept = [symbol for _, symbol in ranked[: None if limit is None else limit - 1]]
        self.names = (unknown, *sorted(kept))
        self.separator = separator
        self._number = {symbol: number for number, symbol in enumerate(self.names)}

    @property
    def size(self) -> int:
        """How many symbols there are, the unknown one among them."""
        return len(self.names)

    def encode(self, text: Iterable[str]) -> Tensor:
        """Return the numbers of the symbols of a text (its characters; for words, a list of them), as int64."""
        return torch.from_numpy(np.fromiter((self._number.get(symbol, 0) for symbol in text), dtype=np.int64))

    def decode(self, tokens) -> str:
        """Return the text of token numbers (N,), or the symbol of one, ()."""
        return self.separator.join(self.names[token] for token in torch.atleast_1d(torch.as_tensor(tokens)).tolist())
