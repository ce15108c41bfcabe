"""The bigram model against counts made by hand and by a slow loop."""

import math
from collections import Counter

import pytest
import torch

from gma_ref.models.tasks.bigram import bigram_loss


def test_loss_of_a_text_counted_by_hand():
    """In 0 1 0 1 1 the pairs are 01 twice, 10 and 11 once; with one added p(1|0) = 3/4, p(0|1) = p(1|1) = 1/2."""
    train = torch.tensor([0, 1, 0, 1, 1])
    assert bigram_loss(train, torch.tensor([0, 1, 0]), 2) == pytest.approx(-(math.log(3 / 4) + math.log(1 / 2)) / 2)


@pytest.mark.parametrize("smoothing", [1.0, 0.25])
def test_loss_is_that_of_a_loop_over_the_text(smoothing):
    generator = torch.Generator().manual_seed(0)
    train, held_out = (torch.randint(7, (n,), generator=generator) for n in (300, 120))
    pairs = Counter(zip(train.tolist(), train[1:].tolist(), strict=False))
    singles = Counter(train[:-1].tolist())
    total = 0.0
    for before, after in zip(held_out.tolist(), held_out[1:].tolist(), strict=False):
        total -= math.log((pairs[before, after] + smoothing) / (singles[before] + 9 * smoothing))
    assert bigram_loss(train, held_out, 9, smoothing) == pytest.approx(total / 119, rel=1e-12)


def test_symbols_that_were_never_seen_cost_what_a_uniform_guess_costs():
    assert bigram_loss(torch.tensor([0, 0]), torch.tensor([3, 2, 3]), 65) == pytest.approx(math.log(65))


def test_without_smoothing_known_pairs_are_finite_and_new_ones_are_not():
    train = torch.tensor([0, 1, 0, 1, 2])
    assert bigram_loss(train, torch.tensor([0, 1]), 4, smoothing=0.0) == pytest.approx(0.0)
    assert bigram_loss(train, torch.tensor([0, 2]), 4, smoothing=0.0) == math.inf


def test_text_without_a_pair_is_refused():
    with pytest.raises(ValueError, match=r"^evaluated must hold at least two tokens in one axis, got shape \(1,\)$"):
        bigram_loss(torch.tensor([0, 1]), torch.tensor([0]), 2)
