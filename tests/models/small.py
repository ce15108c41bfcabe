"""Small things that train in a moment: a text of a few symbols, and a model with all that can go wrong."""

import torch
from torch import nn

from gma_ref.models.settings import Settings
from gma_ref.models.tasks.language import TextTask
from gma_ref.models.tasks.vocabulary import Symbols


def alternating(size=600, symbols="abcde"):
    """A text of which each symbol but a few follows from the one before."""
    generator = torch.Generator().manual_seed(5)
    numbers = [0]
    for jump in torch.randint(20, (size,), generator=generator).tolist():
        numbers.append((numbers[-1] + 1 if jump else jump) % len(symbols))
    return "".join(symbols[number] for number in numbers)


def small_task():
    vocabulary = Symbols(alternating(), min_count=1)
    parts = {part: vocabulary.encode(alternating(n)) for part, n in (("train", 600), ("validation", 200), ("test", 90))}
    return TextTask("small", "bits per character", vocabulary, parts)


class SmallModel(nn.Module):
    """A language model that sees one token, with dropout and with a buffer."""

    def __init__(self, vocabulary=6, width=8, dropout=0.2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width, vocabulary)
        self.register_buffer("scale", torch.tensor(1.5))

    def forward(self, tokens):
        return self.out(self.dropout(torch.tanh(self.hidden(self.embedding(tokens)) * self.scale)))


def small_model(**options):
    torch.manual_seed(3)
    return SmallModel(**options)


def small_settings(**changes):
    chosen = {"steps": 10, "batch": 4, "length": 8, "evaluate_every": 4, "evaluation_tokens": 80, "lr": 0.02}
    return Settings(**chosen | changes)
