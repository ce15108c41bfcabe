"""No mixer looks ahead, not by a bit and not at NaN; masked tokens are as if they were not there."""

import pytest
import torch

from gma_ref.models.mixers import tensors_of
from tests.models.mixer_examples import ATTENTIONS, HERE, WIDTH, by_steps, draw, in_pieces, make

N = 140  # more than a chunk
CHANGES = {"a little": lambda x: x + 1e-3, "much": lambda x: -1e3 * x, "to NaN": lambda x: x * torch.nan}
CHANGES["to infinity"] = lambda x: torch.full_like(x, torch.inf)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("convolution", [0, 4])
@pytest.mark.parametrize("name", HERE)
def test_later_tokens_change_no_earlier_output_by_a_bit(name, convolution, change):
    dtype = torch.float32
    mixer, x = make(name, convolution=convolution, dtype=dtype), draw(2, N, WIDTH, dtype=dtype)
    with torch.no_grad():
        before = mixer(x)
        assert torch.isfinite(before).all()
        for t in (0, 63, 127, 128, N - 2):
            changed = torch.cat([x[:, : t + 1], CHANGES[change](x[:, t + 1 :])], dim=1)
            after = mixer(changed)
            assert torch.equal(after[:, : t + 1], before[:, : t + 1])
            assert not torch.equal(after[:, t + 1], before[:, t + 1])
            if change in ("to NaN", "to infinity"):
                assert after[:, t + 1 :].isnan().all()


@pytest.mark.parametrize("name", HERE)
def test_later_tokens_get_no_gradient_from_earlier_outputs(name):
    mixer, x = make(name, convolution=4), draw(2, 9, WIDTH).requires_grad_()
    for t in (0, 3, 8):
        (gradient,) = torch.autograd.grad(mixer(x)[:, t].sum(), x)
        assert (gradient[:, : t + 1].abs().sum(dim=-1) > 0).all()
        assert (gradient[:, t + 1 :] == 0).all()


@pytest.mark.parametrize("name", HERE)
def test_what_is_not_finite_goes_on_through_the_state_of_its_own_sequence(name):
    mixer, x = make(name, convolution=4), draw(2, 9, WIDTH)
    right = mixer(x)
    x[1, 3, 2] = torch.nan
    whole = mixer(x)
    torch.testing.assert_close(whole[0], right[0], rtol=1e-12, atol=1e-12)
    assert torch.equal(whole[1, :3], right[1, :3])
    assert whole[1, 3:].isnan().all()
    for outputs, state in (by_steps(mixer, x), in_pieces(mixer, x, [2, 4, 3])):
        torch.testing.assert_close(outputs, whole, rtol=1e-10, atol=1e-10, equal_nan=True)
        assert all(torch.isfinite(tensor[0]).all() for tensor in tensors_of(state))


@pytest.mark.parametrize("name", HERE)
def test_a_loss_that_leaves_out_what_is_lost_has_finite_gradients(name):
    mixer, x = make(name, convolution=4), draw(2, 9, WIDTH)
    x[:, 5] = torch.nan
    gradients = torch.autograd.grad(mixer(x)[:, :5].square().sum(), tuple(mixer.parameters()))
    expected = torch.autograd.grad(mixer(x[:, :5]).square().sum(), tuple(mixer.parameters()))
    # the token itself meets the first projection's gradient, as 0 times NaN
    first = next(i for i, (key, _) in enumerate(mixer.named_parameters()) if key.split(".")[-2] in ("w_qkv", "in_proj"))
    for i, (one, other) in enumerate(zip(gradients, expected, strict=True)):
        if i != first:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    taken_in = torch.autograd.grad(mixer(x).sum(), tuple(mixer.parameters()))
    assert all(gradient.isnan().any() for gradient in taken_in)


@pytest.mark.parametrize("convolution", [0, 3])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_without_causality_every_token_sees_all(name, convolution):
    mixer, x = make(name, causal=False, convolution=convolution), draw(2, 7, WIDTH)
    before = mixer(x)
    for t in range(7):
        changed = x.clone()
        changed[0, t] += 1
        assert ((mixer(changed) != before).any(dim=-1)[0]).all()
        torch.testing.assert_close(mixer(changed)[1], before[1], rtol=1e-12, atol=1e-12)
        changed[0, t] = torch.nan
        assert mixer(changed)[0].isnan().all()
        assert torch.isfinite(mixer(changed)[1]).all()


@pytest.mark.parametrize("name", ATTENTIONS)
def test_bidirectional_outputs_follow_the_order_of_the_tokens(name):
    mixer, x, order = make(name, causal=False), draw(2, 7, WIDTH), torch.tensor([3, 1, 6, 0, 2, 5, 4])
    torch.testing.assert_close(mixer(x[:, order]), mixer(x)[:, order], rtol=1e-10, atol=1e-10)


def masked_examples(name):
    """Return mixers in both directions, as far as there are."""
    yield make(name, convolution=4)
    if name != "mamba":
        yield make(name, causal=False, convolution=3)


@pytest.mark.parametrize("otherwise", [0.0, 7.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", HERE)
def test_padding_on_either_side_is_as_if_it_were_not_there(name, otherwise):
    for mixer in masked_examples(name):
        x = draw(2, 9, WIDTH)
        for part in (slice(0, 6), slice(3, 9)):
            mask = torch.zeros(9, dtype=torch.bool)
            mask[part] = True
            padded = torch.where(mask[:, None], x, otherwise)
            y = mixer(padded, key_mask=mask)
            torch.testing.assert_close(y[:, part], mixer(x[:, part]), rtol=1e-10, atol=1e-10)
            assert torch.isfinite(y).all()
            assert torch.equal(mixer(padded, key_mask=mask.expand(2, 9)), y)
            gradients = torch.autograd.grad(y[:, part].square().sum(), tuple(mixer.parameters()))
            short = torch.autograd.grad(mixer(x[:, part]).square().sum(), tuple(mixer.parameters()))
            for one, other in zip(gradients, short, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", HERE)
def test_each_sequence_has_its_own_mask(name):
    for mixer in masked_examples(name):
        x = draw(3, 8, WIDTH)
        lengths = 8, 3, 5
        mask = torch.arange(8) < torch.tensor(lengths)[:, None]
        y = mixer(x, key_mask=mask)
        for b, length in enumerate(lengths):
            alone = mixer(x[b : b + 1, :length])[0]
            torch.testing.assert_close(y[b, :length], alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_where_no_key_takes_part_the_output_is_0(name):
    for mixer in masked_examples(name):
        x = draw(2, 5, WIDTH).requires_grad_()
        mask = torch.tensor([[False] * 5, [True] * 5])
        y = mixer(x, key_mask=mask)
        assert (y[0] == 0).all()
        torch.testing.assert_close(y[1], mixer(x)[1], rtol=1e-12, atol=1e-12)
        gradients = torch.autograd.grad(y.sum(), (x, *mixer.parameters()))
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
        assert (gradients[0][0] == 0).all()
