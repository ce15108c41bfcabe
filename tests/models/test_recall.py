"""Associative recall against its definition: a dictionary that reads along gives every answer."""

import pytest
import torch

from gma_ref.models.tasks import IGNORED, make_task
from gma_ref.models.tasks.recall import store_then_query


def batch_of(interleaved=False, count=40, length=64, **options):
    task = make_task("recall", **{"num_pairs": 6, "vocabulary_size": 128, "interleaved": interleaved} | options)
    return next(task.train_batches(torch.Generator().manual_seed(0), count, length))


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_dictionary_gives_every_answer(interleaved):
    batch = batch_of(interleaved)
    for tokens, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        told = {}
        for here, (token, target) in enumerate(zip(tokens, targets, strict=True)):
            if target != IGNORED:
                assert told[token] == target
            elif here + 1 < len(tokens):
                told.setdefault(token, tokens[here + 1])  # a value is what follows a key when it first comes


@pytest.mark.parametrize("interleaved", [False, True])
def test_each_pair_is_asked_for_once(interleaved):
    batch = batch_of(interleaved)
    asked = batch.targets != IGNORED
    assert asked.sum(dim=1).tolist() == [6] * 40
    for tokens, where in zip(batch.inputs, asked, strict=True):
        assert len(set(tokens[where].tolist())) == 6


@pytest.mark.parametrize("interleaved", [False, True])
def test_keys_are_of_the_lower_half_and_values_of_the_upper(interleaved):
    batch = batch_of(interleaved, count=500)
    asked = batch.targets != IGNORED
    keys, values = batch.inputs[asked], batch.targets[asked]
    assert (keys.min(), keys.max()) == (1, 63)
    assert (values.min(), values.max()) == (64, 127)


def test_pairs_come_first_and_questions_stand_on_every_other_token():
    batch = batch_of()
    asked = batch.targets != IGNORED
    assert not asked[:, :12].any()
    assert not asked[:, 13::2].any()
    assert (batch.inputs[:, :12:2] < 64).all()
    assert (batch.inputs[:, 1:12:2] >= 64).all()


def test_questions_come_as_soon_as_the_power_law_says():
    generator = torch.Generator().manual_seed(0)
    for power in (0.01, 1.0):
        batch = store_then_query(4000, 24, 1, 128, power, generator)
        place = (batch.targets != IGNORED).nonzero()[:, 1]
        seen = torch.bincount((place - 2) // 2, minlength=11) / 4000
        weights = torch.arange(1.0, 12.0) ** (power - 1)
        torch.testing.assert_close(seen, weights / weights.sum(), rtol=0, atol=0.03)


def test_interleaved_questions_come_before_other_pairs_are_told():
    batch = batch_of(interleaved=True, length=48)
    first_question = (batch.targets != IGNORED).float().argmax(dim=1)
    told = torch.tensor(
        [sum(t < 64 for t in row[:q].tolist()) for row, q in zip(batch.inputs, first_question, strict=True)]
    )
    assert told.float().mean() < 6
    assert told.min() >= 1


@pytest.mark.parametrize("interleaved", [False, True])
def test_held_out_sequences_are_fixed_and_were_never_trained_on(interleaved):
    task = make_task("recall", num_pairs=2, vocabulary_size=64, interleaved=interleaved)
    held_out = {}
    for part in ("validation", "test"):
        first, again = (torch.cat([batch.inputs for batch in task.evaluation(part, 32)]) for _ in range(2))
        assert torch.equal(first, again)
        assert len(first) == 512
        held_out[part] = set(map(tuple, first.tolist()))
    assert not held_out["validation"] & held_out["test"]
    for seed in range(3):
        drawn = next(task.train_batches(torch.Generator().manual_seed(seed), 2000, 32))
        assert not set(map(tuple, drawn.inputs.tolist())) & (held_out["validation"] | held_out["test"])


def test_without_strays_only_told_and_asked_tokens_are_keys():
    batch = batch_of(strays=False)
    keys = batch.inputs < 64
    assert keys.sum(dim=1).tolist() == [12] * 40  # 6 told, 6 asked
    assert (batch_of().inputs < 64).sum() > 1.5 * keys.sum()  # and with them there are more


@pytest.mark.parametrize("interleaved", [False, True])
def test_several_numbers_of_pairs_are_mixed_evenly(interleaved):
    batch = batch_of(interleaved, count=3000, num_pairs="1,4,9")
    asked = (batch.targets != IGNORED).sum(dim=1)
    assert asked.equal(torch.tensor([1, 4, 9])[batch.group])
    assert all(900 < count < 1100 for count in batch.group.bincount().tolist())
    tiny = [batch_of(interleaved, count=2, num_pairs="1,4,9") for _ in range(2)]
    assert torch.equal(tiny[0].inputs, tiny[1].inputs)


@pytest.mark.parametrize("interleaved", [False, True])
def test_each_number_of_pairs_is_a_group_asked_about_as_if_it_were_alone(interleaved):
    options = {"vocabulary_size": 128, "interleaved": interleaved}
    mixed = make_task("recall", num_pairs="1,8", **options)
    assert mixed.groups == ("1 pair", "8 pairs")
    whole = next(mixed.evaluation("test", 64, batch=2000))
    assert whole.group.bincount().tolist() == [512, 512]
    for number, pairs in enumerate((1, 8)):
        alone = next(make_task("recall", num_pairs=pairs, **options).evaluation("test", 64, batch=2000))
        assert torch.equal(whole.inputs[whole.group == number], alone.inputs)
        assert torch.equal(whole.targets[whole.group == number], alone.targets)
    few = next(mixed.evaluation("test", 64, batch=2000, limit=64 * 10))
    assert few.group.tolist() == [0] * 5 + [1] * 5


def test_what_does_not_fit_is_refused():
    task = make_task("recall", num_pairs=6, vocabulary_size=128)
    for length in (22, 63):
        with pytest.raises(ValueError, match=rf"^length must be even and at least 4 × 6 \(num_pairs\), got {length}$"):
            next(task.evaluation("test", length))
    with pytest.raises(ValueError, match=r"^length must be below vocabulary_size = 128, got 128$"):
        next(task.train_batches(torch.Generator(), 2, 128))
    with pytest.raises(ValueError, match=r"^num_pairs must be from 1 to 63, got 64$"):
        make_task("recall", num_pairs=64, vocabulary_size=128)
    with pytest.raises(ValueError, match=r"^num_pairs must be from 1 to 63, got 4,64$"):
        make_task("recall", num_pairs="4,64", vocabulary_size=128)
    for wrong in (2.5, [4, 8], True, None):
        with pytest.raises(TypeError, match=rf"^num_pairs must be an integer, got {type(wrong).__name__}$"):
            make_task("recall", num_pairs=wrong)
    with pytest.raises(ValueError, match=r"^num_pairs must name each number once, got 4,4$"):
        make_task("recall", num_pairs="4,4")
    with pytest.raises(ValueError, match=r"""^num_pairs must be a number, or several as in "4,8,16", got '4;8'$"""):
        make_task("recall", num_pairs="4;8")
    with pytest.raises(ValueError, match=r"^power must be positive, got 0$"):
        make_task("recall", power=0)
