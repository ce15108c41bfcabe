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
        self.groups = tuple(title for part in PARTS for title in self.titles[part])
        self._plays = {part: [[] for _ in GENRES] for part in PARTS}  # by part and label, each with its number
        for part, group in self.titles.items():
            for title in group:
                play = self.vocabulary.encode(play_text(title, speakers))
                self._plays[part][label_of[title]].append((self.groups.index(title), play))

    def whole_plays(self, part: str) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the label of each play of a part and its tokens."""
        check_part(part, PARTS)
        for label, group in enumerate(self._plays[part]):
            for _, play in group:
                yield label, play

    def train_batches(self, generator: torch.Generator, batch: int, length: int) -> Iterator[Batch]:
        """Yield passages: of each genre as many, give or take one, from any of its plays and any place in it.

        Passages of a genre differ more from each other than genres do. Were the genres left to chance as well, a batch
        would say first of all which of them it has more of.
        """
        self._check_length("train", length)
        while True:
            labels = torch.randperm(batch, generator=generator) % self.num_classes
            passages = []
            for label in labels.tolist():
                group = self._plays["train"][label]
                _, play = group[torch.randint(len(group), (), generator=generator)]
                start = int(torch.randint(len(play) - length + 1, (), generator=generator))
                passages.append(play[start : start + length])
            yield Batch(torch.stack(passages), labels)

    def evaluation(self, part: str, length: int, *, batch: int = 32, limit: int | None = None) -> Iterator[Batch]:
        """Yield passages that stand side by side in their plays, equally many of each genre, the genres in turn."""
        check_part(part)
        self._check_length(part, length)
        cut = [side_by_side(group, length) for group in self._plays[part]]
        fewest = min(len(passages) for passages, _ in cut)
        limit = None if limit is None else limit // self.num_classes
        count = len(spread(fewest, length, limit))
        evenly = [torch.arange(count) * len(passages) // count for passages, _ in cut]
        passages, numbers = (
            torch.stack([both[which][rows] for both, rows in zip(cut, evenly, strict=True)], dim=1).flatten(0, 1)
            for which in (0, 1)
        )
        labels = torch.arange(self.num_classes).repeat(count)
        yield from batches_of(Batch(passages, labels, group=numbers), batch)

    def _check_length(self, part, length):
        shortest = min(len(play) for group in self._plays[part] for _, play in group)
        if not 1 <= length <= shortest:
            raise ValueError(f"length must be from 1 to {shortest:,}, the shortest play of {part}, got {length}")


def side_by_side(group, length):
    """Cut plays, each with its number, into passages; return these and the numbers of their plays."""
    cut = [play[: len(play) // length * length].view(-1, length) for _, play in group]
    numbers = torch.tensor([number for number, _ in group])
    return torch.cat(cut), numbers.repeat_interleave(torch.tensor(list(map(len, cut))))
