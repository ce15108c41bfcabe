"""Evaluation: the unit is right, dropout is off, and every sequence counts."""

import math

import pytest
import torch
from torch import nn

from gma_ref.models.evaluation import bits, evaluate, is_better
from gma_ref.models.tasks import IGNORED, Batch
from tests.models.small import small_model, small_task


class Fixed(nn.Module):
    """Gives the same logits whatever comes."""

    def __init__(self, logits, pooled=False):
        super().__init__()
        self.logits, self.pooled = nn.Parameter(torch.tensor(logits)), pooled

    def forward(self, tokens):
        return self.logits.expand(*(tokens.shape[:1] if self.pooled else tokens.shape), -1)


def test_uniform_guess_among_65_symbols_costs_6_0224_bits():
    batch = Batch(torch.zeros(3, 5, dtype=torch.int64), torch.arange(15).view(3, 5))
    result = evaluate(Fixed([0.0] * 65), [batch], "bits per character")
    assert result["loss"] == pytest.approx(4.1744, abs=5e-5)
    assert result["score"] == pytest.approx(6.0224, abs=5e-5)
    assert bits(math.log(65)) == pytest.approx(math.log2(65))
    assert (result["sequences"], result["targets"]) == (3, 15)


def test_two_evaluations_are_equal_bit_for_bit_and_the_mode_is_restored():
    model, task = small_model(dropout=0.5), small_task()
    batches = list(task.evaluation("validation", 8))
    for mode in (True, False):
        model.train(mode)
        assert evaluate(model, batches, task.unit) == evaluate(model, batches, task.unit)
        assert all(module.training is mode for module in model.modules())
    model.train()
    assert not torch.equal(model(batches[0].inputs), model(batches[0].inputs))  # dropout would have shown


def test_mode_is_restored_after_an_error():
    model = small_model().train()
    with pytest.raises(IndexError):
        evaluate(model, [Batch(torch.full((1, 2), 99), torch.zeros(1, 2, dtype=torch.int64))], "accuracy")
    assert model.training


def test_batches_of_any_size_give_the_same():
    model, task = small_model(), small_task()
    results = [evaluate(model, task.evaluation("validation", 8, batch=size), task.unit) for size in (1, 7, 25)]
    for result in results[1:]:
        assert result["score"] == pytest.approx(results[0]["score"], rel=1e-6)
        assert result["standard_error"] == pytest.approx(results[0]["standard_error"], rel=1e-5)


def test_each_group_has_the_score_that_it_has_alone():
    targets = torch.tensor([[0, 1], [0, 0], [1, IGNORED], [0, 1], [1, 1]])
    batch = Batch(torch.zeros(5, 2, dtype=torch.int64), targets, group=torch.tensor([2, 0, 0, 2, 0]))
    model, names = Fixed([1.0, 0.0]), ("some", "none", "others")
    result = evaluate(model, [batch.rows(0, 3), batch.rows(3, 5)], "accuracy", groups=names)
    assert list(result["groups"]) == ["some", "others"]  # a group without sequences has no score
    for number, name in ((0, "some"), (2, "others")):
        rows = batch.group == number
        alone = evaluate(model, [Batch(batch.inputs[rows], targets[rows])], "accuracy")
        assert result["groups"][name] == {key: alone[key] for key in ("score", "standard_error", "sequences")}
    assert result["groups"]["some"]["score"] == pytest.approx(1 / 3)
    without = evaluate(model, [batch], "accuracy")
    assert without == {key: value for key, value in result.items() if key != "groups"}


def test_accuracy_counts_what_is_asked_for_alone():
    targets = torch.tensor([[1, IGNORED, 0], [IGNORED, 1, IGNORED]])
    batch = Batch(torch.zeros(2, 3, dtype=torch.int64), targets)
    result = evaluate(Fixed([0.0, 2.0]), [batch], "accuracy")
    assert result["score"] == 0.75  # a half and a whole: sequences weigh the same
    assert result["targets"] == 3
    assert result["standard_error"] == pytest.approx(0.25)


def test_accuracy_of_whole_sequences_and_its_standard_error():
    batches = [Batch(torch.zeros(4, 3, dtype=torch.int64), torch.tensor([1, 1, 1, 0]))] * 25
    result = evaluate(Fixed([0.0, 2.0], pooled=True), batches, "accuracy")
    assert result["score"] == 0.75
    assert result["standard_error"] == pytest.approx(math.sqrt(0.75 * 0.25 / 99))


def test_masks_reach_the_model_only_where_there_is_padding():
    class Masked(Fixed):
        def forward(self, tokens, *, key_mask):
            self.seen = key_mask
            return super().forward(tokens)

    model, mask = Masked([0.0, 1.0], pooled=True), torch.tensor([[True, False]])
    evaluate(model, [Batch(torch.zeros(1, 2, dtype=torch.int64), torch.tensor([1]), mask)], "accuracy")
    assert torch.equal(model.seen, mask)


def test_nothing_to_evaluate_is_refused():
    with pytest.raises(ValueError, match=r"^batches must ask for something, got no target$"):
        evaluate(small_model(), [], "accuracy")


def test_high_accuracy_is_better_and_few_bits_are():
    assert is_better(0.9, 0.8, "accuracy")
    assert not is_better(0.8, 0.8, "accuracy")
    assert is_better(1.9, 2.0, "bits per character")
    assert not is_better(math.nan, 2.0, "bits per character")
    assert is_better(5.0, None, "bits per word")
