"""What "auto" chooses, by shapes and device alone."""

import pytest
import torch

from gma_ref.pytorch import implementations
from gma_ref.pytorch.blocked import blocked_attention
from gma_ref.pytorch.implementations import choose
from gma_ref.pytorch.naive import naive_attention
from tests.examples import draw_problem
from tests.pytorch.problems import attend, both_modes, leaves


def tokens(*shape, device="cpu"):
    return [torch.empty(shape, device=device) for _ in range(3)]


def test_few_tokens_take_the_form_that_starts_quickly_and_others_the_blocked_one():
    assert choose("auto", *tokens(1, 4, 1, 32), 32) is naive_attention
    assert choose("auto", *tokens(1, 4, 100, 32), 32) is blocked_attention
    assert choose("auto", *tokens(64, 4, 1, 32), 32) is blocked_attention
    assert choose("auto", *tokens(1, 4, 1, 32, device="meta"), 32) is blocked_attention


@pytest.mark.parametrize("name", ["naive", "blocked"])
def test_a_name_is_what_it_says(name):
    for shape in ((1, 1), (1000, 64)):
        assert choose(name, *tokens(*shape), 64) is implementations.KNOWN[name]


@both_modes
@pytest.mark.parametrize("few", [0, 10**9], ids=["blocked", "naive"])
def test_attention_does_as_is_chosen(few, causal, monkeypatch):
    called = []
    for form in (naive_attention, blocked_attention):

        def watched(*arguments, form=form, **options):
            called.append(form)
            return form(*arguments, **options)

        monkeypatch.setattr(implementations, form.__name__, watched)
    monkeypatch.setattr(implementations, "FEW", few)
    tensors = leaves(draw_problem()[0])
    attend(tensors, causal=causal)
    assert called == [naive_attention if few else blocked_attention]
