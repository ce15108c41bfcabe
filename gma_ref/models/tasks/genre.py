"""Long passages: is this a comedy, a history or a tragedy? The plays that are asked about were never seen."""

from collections.abc import Iterator

import torch

from gma_ref.shakespeare import plays

from .plays import play_text, titles
from .task import PARTS, Batch, batches_of, check_part, spread
from .vocabulary import Symbols

__all__ = ["GENRES", "GenreTask"]

# Problem plays and romances are left out: their genre is what scholars dispute.
GENRES = {"comedy": ("comedies",), "history": ("histories",), "tragedy": ("tragedies", "roman")}


class GenreTask:
    """Say the genre of a passage of some thousand characters.

    Passages are cut from plays, never across two, and the plays of the three parts are disjoint, as
    `gma_ref.models.tasks.plays` has them. Speakers' names are left out by default, since they name the play rather than
    its kind. In each part every genre has the same number of passages, so that guessing is right one time in three.

    Parameters
    ----------
    speakers : bool
        Whether the speakers' names stand in the passages.
    """

    name = "genre"
    unit = "accuracy"
    num_classes = len(GENRES)
    default_length = 2048

    def __init__(self, speakers: bool = False):
        known_as = {genre: label for label, group in enumerate(GENRES.values()) for genre in group}
        label_of = {play.title: known_as[play.genre] for play in plays() if play.genre in known_as}
        self.titles = {part: tuple(title for title in titles(part) if title in label_of) for part in PARTS}
        self.vocabulary = Symbols("".join(play_text(title, speakers) for title in self.titles["train"]))
        self._plays = {part: [[] for _ in GENRES] for part in PARTS}  # by part and label
        for part, group in self.titles.items():
            for title in group:
                self._plays[part][label_of[title]].append(self.vocabulary.encode(play_text(title, speakers)))

    def train_batches(self, generator: torch.Generator, batch: int, length: int) -> Iterator[Batch]:
        """Yield passages: a genre at random, one of its plays at random, a place in it at random."""
        self._check_length("train", length)
        while True:
            labels = torch.randint(self.num_classes, (batch,), generator=generator)
            passages = []
            for label in labels.tolist():
                group = self._plays["train"][label]
                play = group[torch.randint(len(group), (), generator=generator)]
                start = int(torch.randint(len(play) - length + 1, (), generator=generator))
                passages.append(play[start : start + length])
            yield Batch(torch.stack(passages), labels)

    def evaluation(self, part: str, length: int, *, batch: int = 32, limit: int | None = None) -> Iterator[Batch]:
        """Yield passages that stand side by side in their plays, equally many of each genre, the genres in turn."""
        check_part(part)
        self._check_length(part, length)
        cut = [torch.cat([self._side_by_side(play, length) for play in group]) for group in self._plays[part]]
        fewest = min(map(len, cut))
        limit = None if limit is None else limit // self.num_classes
        count = len(spread(fewest, length, limit))
        chosen = [passages[torch.arange(count) * len(passages) // count] for passages in cut]
        labels = torch.arange(self.num_classes).repeat(count)
        yield from batches_of(Batch(torch.stack(chosen, dim=1).flatten(0, 1), labels), batch)

    @staticmethod
    def _side_by_side(play, length):
        return play[: len(play) // length * length].view(-1, length)

    def _check_length(self, part, length):
        shortest = min(len(play) for group in self._plays[part] for play in group)
        if not 1 <= length <= shortest:
            raise ValueError(f"length must be from 1 to {shortest:,}, the shortest play of {part}, got {length}")
