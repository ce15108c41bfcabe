"""ListOps of the Long Range Arena, for those who have a network: nested lists of digits, and what they come to."""

import csv
import tarfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from .fetch import copy_whole, need_files, opened
from .task import PARTS, Batch, check_part, spread
from .vocabulary import Numbers

__all__ = ["LRA_RELEASE", "ListOpsTask", "fetch_listops", "tokens_of"]

LRA_RELEASE = "https://storage.googleapis.com/long-range-arena/lra_release.gz"
_FILES = ("basic_train.tsv", "basic_val.tsv", "basic_test.tsv")
_HOW = f"fetch_listops(folder) takes them from {LRA_RELEASE}, in lra_release/listops-1000"

_SYMBOLS = ("", "[MIN", "[MAX", "[MED", "[SM", "]", *"0123456789")  # number 0 is padding
_NUMBER = {symbol: number for number, symbol in enumerate(_SYMBOLS) if symbol}


def fetch_listops(folder, url: str = LRA_RELEASE) -> Path:
    """Fetch the three files of ListOps out of the archive of the Long Range Arena; what is there is not fetched again.

    The archive (7.7 GB) is read as it comes and not kept; reading stops when the three files have come.

    Raises
    ------
    ConnectionError
        If the address cannot be read.
    FileNotFoundError
        If the archive has no such files.
    """
    folder = Path(folder)
    missing = {name for name in _FILES if not (folder / name).is_file()}
    if not missing:
        return folder
    with opened(url) as stream, tarfile.open(fileobj=stream, mode="r|gz") as archive:
        for member in archive:
            where, _, name = member.name.rpartition("/")
            if name in missing and where.endswith("listops-1000"):
                copy_whole(archive.extractfile(member), folder / name)
                missing.remove(name)
            if not missing:
                return folder
    raise FileNotFoundError(f"url must be an archive with listops-1000/{', '.join(sorted(missing))}, got {url}")


def tokens_of(source: str) -> Tensor:
    """Return the token numbers of one expression: ``"( ( [MAX 4 ) 3 ) ]"``; parentheses say nothing and are left out.

    Raises
    ------
    ValueError
        If a symbol is none of ListOps.
    """
    symbols = source.replace("(", " ").replace(")", " ").split()
    try:
        return torch.tensor([_NUMBER[symbol] for symbol in symbols], dtype=torch.int64)
    except KeyError as error:
        raise ValueError(f"source must hold operators and digits, got {error.args[0]!r}") from None


class ListOpsTask:
    """Say what a nested expression comes to, a digit: MIN, MAX, MED (median) and SM (sum modulo ten) of lists.

    Parameters
    ----------
    folder : path-like
        That holds ``basic_train.tsv``, ``basic_val.tsv`` and ``basic_test.tsv``, each with the columns *Source* and
        *Target*.

    Raises
    ------
    FileNotFoundError
        If a file is not there; the message says how to get it.

    Notes
    -----
    Source: Tay et al., "Long Range Arena: a benchmark for efficient transformers" (2021); Nangia & Bowman (2018).
    """

    name = "listops"
    unit = "accuracy"
    num_classes = 10
    default_length = 2048

    def __init__(self, folder="data/listops"):
        self.vocabulary = Numbers(len(_SYMBOLS))
        paths = need_files(folder, _FILES, _HOW)
        self.parts = {part: _read(path) for part, path in zip(PARTS, paths, strict=True)}

    def train_batches(self, generator: torch.Generator, batch: int, length: int) -> Iterator[Batch]:
        """Yield expressions drawn with repetition, cut to `length` tokens and filled up to the longest."""
        expressions, _ = self.parts["train"]
        while True:
            rows = torch.randint(len(expressions), (batch,), generator=generator)
            yield self._batch("train", rows, length)

    def evaluation(self, part: str, length: int, *, batch: int = 32, limit: int | None = None) -> Iterator[Batch]:
        """Yield the expressions of a part in their order."""
        check_part(part)
        for rows in spread(len(self.parts[part][0]), length, limit).split(batch):
            yield self._batch(part, rows, length)

    def _batch(self, part, rows, length):
        expressions, answers = self.parts[part]
        cut = [expressions[row][:length] for row in rows.tolist()]
        inputs = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True)
        return Batch(inputs, answers[rows], inputs > 0)


def _read(path: Path) -> tuple[list[Tensor], Tensor]:
    """Return the expressions of a file and their answers."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    if not rows or not {"Source", "Target"} <= rows[0].keys():
        raise ValueError(f"{path.name} must have the columns Source and Target and a row, got {list(rows[:1])}")
    return [tokens_of(row["Source"]) for row in rows], torch.tensor([int(row["Target"]) for row in rows])
