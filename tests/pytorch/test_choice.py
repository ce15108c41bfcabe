"""What "auto" chooses, by shapes and device alone."""

import pytest
import torch

from gma_ref import pytorch as gmt
from gma_ref.pytorch import implementations
from gma_ref.pytorch.blocked import blocked_attention
from gma_ref.pytorch.naive import naive_attention
from tests.examples import draw_problem
from tests.pytorch.problems import attend, both_modes, leaves


@pytest.fixture
def called(monkeypatch):
    """List the implementations that attention calls, in the order of the calls."""
    calls = []
    for form in (naive_attention, blocked_attention):

        def watched(*arguments, form=form, **options):
            calls.append(form)
            return form(*arguments, **options)

        monkeypatch.setattr(implementations, form.__name__, watched)
        monkeypatch.setitem(implementations.KNOWN, form.__name__.removesuffix("_attention"), watched)
    return calls


@both_modes
@pytest.mark.parametrize(
    ("batch", "N", "device", "expected"),
    [
        ((1, 4), 1, "cpu", naive_attention),
        ((1, 4), 1000, "cpu", blocked_attention),
        ((100, 20), 1, "cpu", blocked_attention),
        ((1, 4), 1, "meta", blocked_attention),
    ],
)
def test_few_tokens_take_the_form_that_starts_quickly(batch, N, device, expected, causal, called):
    arrays, _ = draw_problem(N=N, batch=batch, heads=batch[1:])
    attend([tensor.to(device) for tensor in leaves(arrays)], causal=causal)
    assert called == [expected]


@both_modes
@pytest.mark.parametrize("name", ["naive", "blocked"])
def test_a_name_is_what_it_says(name, causal, called):
    for N in (1, 300):
        attend(leaves(draw_problem(N=N)[0]), causal=causal, implementation=name)
    assert [form.__name__ for form in called] == [f"{name}_attention"] * 2


@both_modes
def test_values_do_not_matter(causal, called):
    arrays, _ = draw_problem()
    for factor in (1, 1e30, torch.nan):
        attend([tensor.detach() * factor for tensor in leaves(arrays)], causal=causal)
    assert called == [naive_attention] * 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@both_modes
def test_exported_layer_takes_sequences_short_and_long(causal):
    layer = gmt.GaussianMixtureAttention(8, num_components=8, num_heads=2, causal=causal)
    lengths = {1: torch.export.Dim("N", min=2, max=10_000)}
    exported = torch.export.export(layer, (torch.randn(2, 30, 8),), dynamic_shapes=(lengths,)).module()
    for N in (2, 1000):
        x = torch.randn(2, N, 8)
        torch.testing.assert_close(exported(x), layer(x), rtol=1e-5, atol=1e-5)
