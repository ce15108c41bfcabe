"""Whole sequences, pieces and single tokens give the same; states can be forked and selected, and stay as they are."""

import pytest
import torch

from gma_ref.models.mixers import tensors_of
from tests.models.mixer_examples import HERE, WIDTH, by_steps, draw, in_pieces, make

CASES = [(0, False), (4, False), (4, True), (1, True)]
TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 1e-4, "atol": 1e-5}}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("convolution", "qk_norm"), CASES)
@pytest.mark.parametrize("name", HERE)
def test_steps_give_the_outputs_of_the_whole(name, convolution, qk_norm, dtype):
    options = {} if name == "mamba" else {"qk_norm": qk_norm}
    mixer, x = make(name, convolution=convolution, dtype=dtype, **options), draw(2, 140, WIDTH, dtype=dtype)
    with torch.no_grad():
        whole, end = mixer(x, return_state=True)
        stepped, state = by_steps(mixer, x[:, :30])
        torch.testing.assert_close(stepped, whole[:, :30], **TOLERANCE[dtype])
        prefilled, state = mixer(x[:, :131], return_state=True)
        stepped, state = by_steps(mixer, x[:, 131:], state)
        torch.testing.assert_close(torch.cat([prefilled, stepped], dim=1), whole, **TOLERANCE[dtype])
    for one, other in zip(tensors_of(state), tensors_of(end), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


@pytest.mark.parametrize("lengths", [[4, 5], [1, 8], [8, 1], [2, 3, 4], [0, 9], [3, 0, 6], [1] * 9], ids=str)
@pytest.mark.parametrize("name", HERE)
def test_pieces_give_the_outputs_and_gradients_of_the_whole(name, lengths):
    mixer, x, upstream = make(name, convolution=4), draw(2, 9, WIDTH).requires_grad_(), draw(2, 9, WIDTH, seed=1)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[1, [0, 4, 8]] = False
    inputs = x, *mixer.parameters()
    whole = mixer(x, key_mask=mask)
    pieces, _ = in_pieces(mixer, x, lengths, mask)
    torch.testing.assert_close(pieces, whole, rtol=1e-10, atol=1e-10)
    expected = torch.autograd.grad((upstream * whole).sum(), inputs)
    found = torch.autograd.grad((upstream * pieces).sum(), inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_blocks_of_many_tokens_go_on_from_each_other():
    for name in ("linear", "favor"):
        mixer, x = make(name), draw(1, 5000, WIDTH)
        with torch.no_grad():
            whole = mixer(x)
            pieces, _ = in_pieces(mixer, x, [2500, 1, 2499])
        torch.testing.assert_close(pieces, whole, rtol=1e-10, atol=1e-10)


def test_a_mask_may_begin_late_or_end_early():
    mixer, x = make("softmax", convolution=4), draw(2, 8, WIDTH)
    mask = torch.ones(2, 8, dtype=torch.bool)
    mask[0, 5] = False
    whole = mixer(x, key_mask=mask)
    first, state = mixer(x[:, :4], return_state=True)
    assert state.memory.taking_part is None
    second, state = mixer(x[:, 4:6], key_mask=mask[:, 4:6], state=state, return_state=True)
    third, state = mixer(x[:, 6:], state=state, return_state=True)
    torch.testing.assert_close(torch.cat([first, second, third], dim=1), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", HERE)
def test_one_state_has_two_continuations_and_does_not_change(name):
    mixer, x = make(name, convolution=4), draw(2, 6, WIDTH)
    one, other = draw(2, 3, WIDTH, seed=1), draw(2, 3, WIDTH, seed=2)
    with torch.no_grad():
        _, state = mixer(x, return_state=True)
        before = [tensor.clone() for tensor in tensors_of(state)]
        for more in (one, other, one):
            stepped, _ = by_steps(mixer, more, state)
            whole = mixer(torch.cat([x, more], dim=1))
            torch.testing.assert_close(stepped, whole[:, 6:], rtol=1e-10, atol=1e-10)
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors_of(state), before, strict=True))


@pytest.mark.parametrize("name", HERE)
def test_states_of_some_sequences_can_be_selected(name):
    mixer, x, index = make(name, convolution=4), draw(3, 6, WIDTH), torch.tensor([2, 0, 2, 1])
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[0, 1] = False
    with torch.no_grad():
        _, state = mixer(x, key_mask=mask, return_state=True)
        y, _ = mixer.step(draw(3, WIDTH, seed=1)[index], state.select(index))
        expected, _ = mixer.step(draw(3, WIDTH, seed=1), state)
    torch.testing.assert_close(y, expected[index], rtol=1e-12, atol=1e-12)
    with pytest.raises(TypeError, match=r"^index must be int32 or int64"):
        state.select(torch.tensor([0.0]))


@pytest.mark.parametrize("name", HERE)
def test_a_state_grows_with_softmax_alone(name):
    mixer = make(name, convolution=4)
    sizes = []
    for tokens in (5, 50):
        _, state = mixer(draw(2, tokens, WIDTH), return_state=True)
        sizes.append(sum(tensor.numel() for tensor in tensors_of(state.memory)))
        if name != "mamba":
            assert state.recent.shape == (2, 3, 3 * WIDTH)
    assert sizes == ([2 * 2 * 5 * WIDTH, 2 * 2 * 50 * WIDTH] if name == "softmax" else [sizes[0]] * 2)
    if name == "gma":  # in each of 3 heads 5 slots of 4 values and a share
        assert sizes[0] == 2 * 3 * 5 * 5


def test_a_window_forgets_what_lies_before_it():
    windowed, plain = make("softmax", window=4), make("softmax")
    windowed.load_state_dict(plain.state_dict())
    x = draw(2, 11, WIDTH)
    whole = windowed(x)
    for i in range(11):
        alone = plain(x[:, max(0, i - 3) : i + 1])[:, -1]
        torch.testing.assert_close(whole[:, i], alone, rtol=1e-10, atol=1e-10)
    stepped, state = by_steps(windowed, x)
    torch.testing.assert_close(stepped, whole, rtol=1e-10, atol=1e-10)
    assert state.memory.k.shape[2] == 3
    pieces, _ = in_pieces(windowed, x, [6, 2, 3], torch.ones(2, 11, dtype=torch.bool))
    torch.testing.assert_close(pieces, whole, rtol=1e-10, atol=1e-10)
    only_itself = make("softmax", window=1)
    stepped, state = by_steps(only_itself, x)
    torch.testing.assert_close(stepped, only_itself(x), rtol=1e-10, atol=1e-10)
    assert state.memory.k.shape[2] == 0
