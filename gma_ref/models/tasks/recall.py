"""Multi-query associative recall (MQAR): pairs of a key and a value are told, then keys are asked for."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from gma_ref.reference.checks import as_count

from .task import IGNORED, Batch, batches_of, check_part
from .vocabulary import Numbers

__all__ = ["RecallTask", "interleave", "store_then_query"]

_HELD_OUT_SEEDS = {"validation": 1, "test": 2}
_HELD_OUT_SEQUENCES = 512


def store_then_query(
    count: int, length: int, num_pairs: int, size: int, power: float, generator, strays: bool = True
) -> Batch:
    r"""Make sequences in which all pairs are told first: the recipe of Zoology.

    1. Keys are drawn from 1 ... V/2 - 1 and values from V/2 ... V - 1, D of each without repetition. The sequence
       begins with :math:`k_1 v_1 k_2 v_2 \dots k_D v_D`.
    2. The rest has S = (N - 2D)/2 places of two tokens. D of them are drawn without repetition, place r = 1 ... S with
       probability proportional to :math:`a\,r^{a-1}`; key i stands at the first token of the i-th, and is to be
       answered with its value there. With a = 0.01 most questions come soon; a = 1 spreads them evenly.
    3. Every token that is left is drawn from all V tokens; without `strays` from the values alone, since a key that
       comes by chance may give that key a second meaning.

    Parameters
    ----------
    count : int
        Sequences.
    length : int
        N, tokens of a sequence.
    num_pairs : int
        D, pairs in a sequence.
    size : int
        V, tokens of the vocabulary.
    power : float
        The exponent a.
    generator : torch.Generator
    strays : bool
        Whether tokens that neither tell nor ask may be keys.

    Returns
    -------
    Batch
        Targets are `IGNORED` except where a key is asked for.

    Notes
    -----
    Source: Arora, Eyuboglu et al., "Zoology: Measuring and improving recall in efficient language models" (2023), and
    ``zoology/data/multiquery_ar.py`` of HazyResearch/zoology, with its defaults ``num_passes=1`` and
    ``random_non_queries=True``. The figures of that paper have ``random_non_queries=False``, which leaves token 0 in
    place of step 3.
    """
    keys, values = draw_pairs(count, num_pairs, size, generator)
    shape, lowest = (count, length), 0 if strays else size // 2
    inputs = torch.randint(lowest, size, shape, generator=generator)
    targets = torch.full(shape, IGNORED)
    told = 2 * num_pairs
    inputs[:, 0:told:2], inputs[:, 1:told:2] = keys, values
    places = torch.arange(1, (length - told) // 2 + 1, dtype=torch.float64)
    weights = (power * places ** (power - 1)).expand(count, -1)
    drawn = torch.multinomial(weights, num_pairs, generator=generator)
    asked = told + 2 * drawn
    inputs = inputs.scatter(1, asked, keys)
    return Batch(inputs, targets.scatter(1, asked, values))


def interleave(count: int, length: int, num_pairs: int, size: int, power: float, generator) -> Batch:
    """Make sequences in which questions stand between the pairs: ours, with keys and values as in Zoology.

    Of the N/2 places of two tokens 2D are drawn, every choice as likely as any other, and divided at random into D
    twos. At the earlier place of a two a key and its value are told, at the later one the key is asked for. Every other
    token is drawn from the values. `power` is not used.
    """
    keys, values = draw_pairs(count, num_pairs, size, generator)
    shape = (count, length)
    inputs = torch.randint(size // 2, size, shape, generator=generator)
    targets = torch.full(shape, IGNORED)
    drawn = torch.rand(count, length // 2, generator=generator)
    places = drawn.topk(2 * num_pairs).indices  # in random order
    twos = places.view(count, num_pairs, 2).sort().values
    earlier, later = (2 * twos).unbind(-1)
    inputs = inputs.scatter(1, earlier, keys).scatter(1, later, keys)
    inputs = inputs.scatter(1, earlier + 1, values)
    return Batch(inputs, targets.scatter(1, later, values))


def draw_pairs(count, num_pairs, size, generator) -> tuple[Tensor, Tensor]:
    """Draw keys from the lower half of the vocabulary, without 0, and values from the upper half."""
    half = size // 2
    keys = 1 + torch.rand(count, half - 1, generator=generator).topk(num_pairs).indices
    values = half + torch.rand(count, size - half, generator=generator).topk(num_pairs).indices
    return keys, values


def numbers_in(listed: int | str) -> tuple[int, ...]:
    """Return the numbers of a list such as ``"4,8,16"``; one number is a list too.

    >>> numbers_in("4,8,16")
    (4, 8, 16)
    """
    if not isinstance(listed, str):
        return (as_count("num_pairs", listed),)
    try:
        numbers = tuple(map(int, listed.split(",")))
    except ValueError as error:
        raise ValueError(f'num_pairs must be a number, or several as in "4,8,16", got {listed!r}') from error
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"num_pairs must name each number once, got {listed}")
    return numbers


def joined(groups: list[Batch]) -> Batch:
    """Put groups of sequences one after the other, and number them."""
    sizes = torch.tensor([len(group.inputs) for group in groups])
    return Batch(
        torch.cat([group.inputs for group in groups]),
        torch.cat([group.targets for group in groups]),
        group=torch.arange(len(groups)).repeat_interleave(sizes),
    )


class RecallTask:
    """Answer each key that is asked for with the value that was told beside it.

    Training sequences are drawn afresh; those of validation and test are drawn once, from seeds of their own.

    Parameters
    ----------
    num_pairs : int or str
        D, pairs in a sequence, each asked for once. Several numbers, as in ``"4,8,16"``, are mixed: a training sequence
        has any of them, each as likely as the others, and each is a group of the evaluation.
    vocabulary_size : int
        V, tokens of the vocabulary. Zoology has 8,192, and says that more than a thousand help to tell methods apart.
    interleaved : bool
        Whether questions stand between the pairs.
    power : float
        How soon the questions come, without `interleaved`.
    strays : bool
        Whether tokens that neither tell nor ask may be keys, without `interleaved`; with it they never are.
    """

    name = "recall"
    unit = "accuracy"
    num_classes = None
    default_length = 128

    def __init__(
        self,
        num_pairs: int | str = 8,
        vocabulary_size: int = 1024,
        interleaved: bool = False,
        power: float = 0.01,
        strays: bool = True,
    ):
        self.num_pairs = numbers_in(num_pairs)
        if not all(1 <= pairs < vocabulary_size // 2 for pairs in self.num_pairs):
            raise ValueError(f"num_pairs must be from 1 to {vocabulary_size // 2 - 1}, got {num_pairs}")
        if not power > 0:
            raise ValueError(f"power must be positive, got {power}")
        self.groups = tuple(f"{pairs} pair{'s' * (pairs > 1)}" for pairs in self.num_pairs)
        self.power = power
        self.vocabulary = Numbers(vocabulary_size)
        self._make = interleave if interleaved else partial(store_then_query, strays=strays)

    def train_batches(self, generator: torch.Generator, batch: int, length: int) -> Iterator[Batch]:
        """Yield new sequences without end."""
        self._check_length(length)
        while True:
            chosen = torch.randint(len(self.num_pairs), (batch,), generator=generator)
            counts = chosen.bincount(minlength=len(self.num_pairs)).tolist()
            yield joined([self._draw(*each, length, generator) for each in zip(counts, self.num_pairs, strict=True)])

    def evaluation(self, part: str, length: int, *, batch: int = 32, limit: int | None = None) -> Iterator[Batch]:
        """Yield at most 512 sequences of each number of pairs, equally many; they are the same at every call."""
        check_part(part)
        self._check_length(length)
        wanted = _HELD_OUT_SEQUENCES if limit is None else max(1, limit // (length * len(self.num_pairs)))
        drawn = []
        for pairs in self.num_pairs:  # whatever the other numbers are
            generator = torch.Generator().manual_seed(_HELD_OUT_SEEDS[part])
            drawn.append(self._draw(_HELD_OUT_SEQUENCES, pairs, length, generator).rows(0, wanted))
        yield from batches_of(joined(drawn), batch)

    def _draw(self, count, pairs, length, generator):
        return self._make(count, length, pairs, self.vocabulary.size, self.power, generator)

    def _check_length(self, length):
        most = max(self.num_pairs)
        if length % 2 or length < 4 * most:
            raise ValueError(f"length must be even and at least 4 × {most} (num_pairs), got {length}")
        if length >= self.vocabulary.size:
            raise ValueError(f"length must be below vocabulary_size = {self.vocabulary.size}, got {length}")
