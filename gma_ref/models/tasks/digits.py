"""Handwritten digits, pixel by pixel: 8 × 8 images of scikit-learn as sequences of 64 tokens."""

from collections.abc import Iterator

import numpy as np
import torch

from .task import PARTS, Batch, batches_of, check_part, spread
from .vocabulary import Numbers

__all__ = ["DigitsTask"]

_SIZES = {"train": 1197, "validation": 300, "test": 300}


class DigitsTask:
    """Say which digit it is, from its 64 pixels in reading order, each a token of 17 shades.

    The 1,797 images are put into an order of their own, once for all, and the parts are taken from it one after the
    other.
    """

    name = "digits"
    unit = "accuracy"
    num_classes = 10
    default_length = 64

    def __init__(self):
        try:
            from sklearn.datasets import load_digits
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError("The digits are those of scikit-learn: pip install scikit-learn") from missing
        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(labels))
        ends = np.cumsum(list(_SIZES.values()))
        self.vocabulary = Numbers(17)
        self.parts = {
            part: Batch(*(torch.from_numpy(array[rows].astype(np.int64)) for array in (images, labels)))
            for part, rows in zip(PARTS, np.split(order, ends[:-1]), strict=True)
        }

    def train_batches(self, generator: torch.Generator, batch: int, length: int = 64) -> Iterator[Batch]:
        """Yield images of the training part, drawn with repetition."""
        self._check_length(length)
        images, labels = self.parts["train"][:2]
        while True:
            rows = torch.randint(len(labels), (batch,), generator=generator)
            yield Batch(images[rows], labels[rows])

    def evaluation(self, part: str, length: int = 64, *, batch: int = 32, limit: int | None = None) -> Iterator[Batch]:
        """Yield the images of a part in their order."""
        check_part(part)
        self._check_length(length)
        images, labels = self.parts[part][:2]
        rows = spread(len(labels), length, limit)
        yield from batches_of(Batch(images[rows], labels[rows]), batch)

    def _check_length(self, length):
        if length != self.default_length:
            raise ValueError(f"length must be {self.default_length}, the pixels of an image, got {length}")
