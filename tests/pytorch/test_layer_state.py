"""The state of a causal layer: whole, pieces and steps agree, forwards and backwards; nothing changes in place."""

import numpy as np
import pytest
import torch

from gma_ref.pytorch import GaussianMixtureAttention, Memory
from tests.pytorch.test_layer import by_the_reference, draw, make_layer

SPLITS = [[4, 3], [1, 6], [6, 1], [2, 2, 3], [1] * 7, [0, 7], [3, 0, 4]]


def in_pieces(layer, x, lengths, state=None, key_mask=None):
    """Return the outputs of a sequence taken piece by piece, and the state at its end."""
    outputs, start = [], 0
    for length in lengths:
        part = slice(start, start + length)
        mask = None if key_mask is None else key_mask[..., part]
        y, state = layer(x[..., part, :], key_mask=mask, state=state, return_state=True)
        outputs.append(y)
        start += length
    return torch.cat(outputs, dim=-2), state


@pytest.mark.parametrize("lengths", SPLITS, ids=str)
@pytest.mark.parametrize("implementation", ["naive", "blocked"])
def test_pieces_equal_the_whole_with_their_gradients(lengths, implementation):
    layer = make_layer(causal=True, implementation=implementation)
    x, upstream = draw(2, 7, 8).requires_grad_(), draw(2, 7, 8, seed=5)
    mask = torch.tensor([[True] * 7, [True, False, True, True, False, True, True]])
    inputs = x, *layer.parameters()
    whole, end = layer(x, key_mask=mask, return_state=True)
    expected = torch.autograd.grad((upstream * whole).sum() + end.V_tilde.sum() + (end.Z**2).sum(), inputs)
    pieces, state = in_pieces(layer, x, lengths, key_mask=mask)
    found = torch.autograd.grad((upstream * pieces).sum() + state.V_tilde.sum() + (state.Z**2).sum(), inputs)
    torch.testing.assert_close(pieces, whole, rtol=1e-10, atol=1e-10)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    for one, other in zip(state, end, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
        assert one.shape == other.shape
        assert one.dtype == other.dtype


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)], ids=str)
def test_steps_equal_the_reference(leading):
    layer, x = make_layer(causal=True), draw(*leading, 7, 8)
    state, outputs = None, []
    for i in range(7):
        y, state = layer.step(x[..., i, :], state)
        assert y.shape == (*leading, 8)
        outputs.append(y)
    np.testing.assert_allclose(torch.stack(outputs, -2).detach(), by_the_reference(layer, x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_state_of_prefill_piece_and_step_is_alike(dtype):
    layer, x = make_layer(causal=True, dtype=torch.float32).to(dtype), draw(2, 6, 8).to(dtype)
    _, prefill = layer(x, return_state=True)
    _, piece = layer(x[:, 3:], state=layer(x[:, :3], return_state=True)[1], return_state=True)
    _, step = layer.step(x[:, -1], layer(x[:, :-1], return_state=True)[1])
    for state in (prefill, piece, step):
        assert isinstance(state, Memory)
        assert [tensor.dtype for tensor in state] == [torch.float32] * 2
        assert [tensor.shape for tensor in state] == [(2, 4, 5, 2), (2, 4, 5)]
        torch.testing.assert_close(state.Z.sum(-1), torch.full((2, 4), 6.0), rtol=1e-5, atol=0)


def test_fork_of_a_state_leaves_it_as_it_was():
    layer, x = make_layer(causal=True), draw(2, 6, 8)
    _, state = layer(x[:, :3], return_state=True)
    before = [tensor.clone() for tensor in state]
    one, other = (layer.step(x[:, i], state)[0] for i in (3, 4))
    again, _ = layer.step(x[:, 3], state)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(state, before, strict=True))
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)
    torch.testing.assert_close(one, layer(x[:, :4])[:, -1], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(other, layer(x[:, [0, 1, 2, 4]])[:, -1], rtol=1e-10, atol=1e-10)


def test_beams_are_selected_and_reordered():
    layer, x = make_layer(causal=True), draw(3, 6, 8)
    order = torch.tensor([2, 0, 0])
    _, state = layer(x[:, :5], return_state=True)
    y, _ = layer.step(x[order, 5], state.select(order))
    torch.testing.assert_close(y, layer(x[order])[:, -1], rtol=1e-10, atol=1e-10)


def test_layer_holds_no_state_of_its_own():
    layer, x = make_layer(causal=True), draw(2, 6, 8)
    before = {name: id(value) for name, value in vars(layer).items()}
    first = layer(x)
    layer.step(x[:, 0])
    layer(x[:1], return_state=True)
    assert {name: id(value) for name, value in vars(layer).items()} == before
    assert not list(layer.buffers())
    assert torch.equal(layer(x), first)


def test_mean_of_one_component_goes_on_from_its_state():
    # F1: write (1, 2, 3), continue with (4, 5)
    layer = GaussianMixtureAttention(1, num_components=1, causal=True, eps=0.0)
    with torch.no_grad():
        layer.w_v.weight.fill_(1)
        layer.w_o.weight.fill_(1)
    x = torch.arange(1.0, 6.0)[:, None]
    torch.testing.assert_close(layer(x)[:, 0], torch.tensor([1, 1.5, 2, 2.5, 3]))
    _, state = layer(x[:3], return_state=True)
    torch.testing.assert_close(layer(x[3:], state=state)[:, 0], torch.tensor([2.5, 3.0]))


def test_later_tokens_change_no_earlier_output_by_a_bit():
    layer, x = make_layer(causal=True, dtype=torch.float32), draw(2, 7, 8, dtype=torch.float32)
    before = layer(x)
    for t in range(6):
        for value in (5.0, torch.nan):
            changed = x.clone()
            changed[:, t + 1 :] = value
            assert torch.equal(layer(changed)[:, : t + 1], before[:, : t + 1])


def test_float64_state_keeps_the_sums_in_float64():
    layer, x = make_layer(causal=True, dtype=torch.float32), draw(2, 6, 8, dtype=torch.float32)
    empty = Memory(torch.zeros(2, 4, 5, 2).double(), torch.zeros(2, 4, 5).double())
    y, state = layer(x, state=empty, return_state=True)
    assert y.dtype == torch.float32
    assert {tensor.dtype for tensor in layer.step(x[:, 0], state)[1]} == {torch.float64}
    torch.testing.assert_close(y, layer(x), rtol=1e-4, atol=1e-5)
