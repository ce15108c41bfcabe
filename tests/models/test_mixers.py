"""Each mixer gives what its weights of all pairs give, with and without convolution, in both directions."""

import numpy as np
import pytest
import torch
from torch import nn

from gma_ref.models.mixers import make_mixer, tensors_of
from tests.models.mixer_examples import ATTENTIONS, HEADS, HERE, WIDTH, by_steps, draw, make, written_out

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # ε = 1e-6 stands in the denominators, and not in the weights written out


@pytest.mark.parametrize("qk_norm", [False, True], ids=["plain", "normalised"])
@pytest.mark.parametrize(("causal", "convolution"), [(True, 0), (True, 4), (True, 1), (False, 0), (False, 3)])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_outputs_are_those_of_the_weights_of_all_pairs(name, causal, convolution, qk_norm):
    mixer = make(name, causal=causal, convolution=convolution, qk_norm=qk_norm)
    for tokens in (1, 2, 9):
        x = draw(2, tokens, WIDTH)
        np.testing.assert_allclose(mixer(x).detach(), written_out(name, mixer, x), **CLOSE)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_without_stabilisers_it_is_so_to_the_last_digits(name):
    options = {"gma": {"eps": 0.0}, "linear": {"eps": 1e-30}, "favor": {"eps": 1e-30, "feature_eps": 0.0}}
    x = draw(2, 150, WIDTH)  # more than a chunk
    for causal in (True, False):
        mixer = make(name, causal=causal, **options.get(name, {}))
        expected = written_out(name, mixer, x, feature_eps=0.0)
        np.testing.assert_allclose(mixer(x).detach(), expected, rtol=1e-10, atol=1e-10)


def test_shared_mixture_serves_all_heads():
    mixer, x = make("gma", shared_mixture=True), draw(2, 7, WIDTH)
    assert mixer.mixture.mu.shape == (5, WIDTH // HEADS)
    np.testing.assert_allclose(mixer(x).detach(), written_out("gma", mixer, x), **CLOSE)


@pytest.mark.parametrize("convolution", [0, 4, 3])
def test_mamba_is_the_library_s_block(convolution):
    pytest.importorskip("mambapy", reason="mambapy is an extra")
    mixer, x = make("mamba", convolution=convolution, dtype=torch.float32), draw(2, 19, WIDTH, dtype=torch.float32)
    torch.testing.assert_close(mixer(x), mixer.block(x), rtol=1e-5, atol=1e-6)


def test_convolution_is_pytorch_s_own_with_silu():
    mixer, x = make("softmax", convolution=4), draw(2, 9, WIDTH)
    theirs = nn.Conv1d(3 * WIDTH, 3 * WIDTH, 4, groups=3 * WIDTH, padding=3, bias=False).double()
    theirs.weight.data = mixer.convolution.weight.data[:, None]
    tokens = x @ mixer.w_qkv.weight.T
    expected = nn.functional.silu(theirs(tokens.mT)[..., :9].mT)
    torch.testing.assert_close(mixer.convolution(tokens)[0], expected)
    q, k, v = mixer.project(x)
    joined = torch.stack([q, k, v]).permute(1, 3, 0, 2, 4).flatten(2)
    torch.testing.assert_close(joined, expected)


def test_symmetric_convolution_looks_as_far_back_as_ahead():
    mixer, x = make("softmax", causal=False, convolution=5), draw(1, 9, WIDTH)
    turned = make("softmax", causal=False, convolution=5)
    turned.convolution.weight.data = mixer.convolution.weight.data.flip(-1)
    torch.testing.assert_close(turned(x.flip(1)).flip(1), mixer(x), rtol=1e-10, atol=1e-10)


def test_many_random_features_come_to_softmax_attention():
    softmax, x = make("softmax"), draw(2, 20, WIDTH) / 2
    right = softmax(x)

    def error(num_features):
        favor = make("favor", num_features=num_features, feature_eps=0.0)
        favor.load_state_dict(softmax.state_dict() | {"directions": favor.directions})
        return (favor(x) - right).square().mean().sqrt() / right.square().mean().sqrt()

    assert error(60_000) < 0.02
    assert error(60) > 0.1


def test_directions_are_saved_and_can_be_drawn_anew():
    mixer = make("favor")
    before = mixer.directions.clone()
    assert "directions" in mixer.state_dict()
    assert not mixer.directions.requires_grad
    mixer.redraw(torch.Generator().manual_seed(1))
    drawn = mixer.directions.clone()
    assert not torch.equal(drawn, before)
    mixer.redraw(torch.Generator().manual_seed(1))
    assert torch.equal(mixer.directions, drawn)
    assert make("favor", num_features=None).num_features == int(4 * np.log(4))


def test_directions_of_the_mixer_are_orthogonal_and_those_of_all_heads():
    """32 numbers a head, 110 features: three whole blocks of 32, and the rest of a fourth."""
    directions = make_mixer("favor", 128, num_heads=4).directions.double()
    assert directions.shape == (110, 32)
    for block in directions.split(32):
        unit = block / block.norm(dim=-1, keepdim=True)
        torch.testing.assert_close(unit @ unit.mT, torch.eye(len(unit), dtype=torch.float64), rtol=0, atol=1e-5)


@pytest.mark.parametrize("convolution", [0, 4])
@pytest.mark.parametrize("name", HERE)
def test_gradients_are_right_and_every_parameter_has_one(name, convolution):
    mixer, x = make(name, convolution=convolution), draw(2, 5, WIDTH).requires_grad_()
    assert torch.autograd.gradcheck(mixer, x, atol=1e-6)
    gradients = torch.autograd.grad(mixer(x).square().sum(), tuple(mixer.parameters()))
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


@pytest.mark.parametrize("name", HERE)
def test_batch_and_heads_do_not_mix(name):
    mixer, x = make(name, convolution=4), draw(3, 6, WIDTH)
    torch.testing.assert_close(mixer(x)[1:2], mixer(x[1:2]), rtol=1e-12, atol=1e-12)
    assert mixer(x[:0]).shape == (0, 6, WIDTH)
    assert mixer(x[:, :0]).shape == (3, 0, WIDTH)


@pytest.mark.parametrize("name", HERE)
def test_it_runs_in_16_bits_and_under_autocast(name):
    mixer, x = make(name, convolution=4, dtype=torch.float32), draw(2, 33, WIDTH, dtype=torch.float32)
    right = mixer(x)
    half, _ = make(name, convolution=4, dtype=torch.float32).bfloat16()(x.bfloat16(), return_state=True)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), right, rtol=0.1, atol=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = mixer(x)
        y.float().square().mean().backward()
    torch.testing.assert_close(y.float(), right, rtol=0.1, atol=0.1)
    assert all(parameter.grad.dtype == torch.float32 for parameter in mixer.parameters())


@pytest.mark.parametrize("name", ["linear", "favor", "gma"])
def test_sums_over_many_keys_are_not_kept_in_16_bits(name):
    # values of 0 and then of 1: in 16 bits the sums would stop growing at 256
    mixer = make_mixer(name, 2, num_heads=1, num_components=1).bfloat16()
    weights = torch.zeros(6, 2)
    weights[4, 0] = 1
    mixer.w_qkv.weight.data = weights.bfloat16()
    mixer.w_o.weight.data = torch.eye(2).bfloat16()
    x = torch.zeros(1, 1000, 2, dtype=torch.bfloat16)
    x[:, 600:, 0] = 1
    with torch.no_grad():
        assert mixer(x)[0, -1, 0].item() == pytest.approx(0.4, rel=0.005)
        stepped, state = by_steps(mixer, x)
    assert stepped[0, -1, 0].item() == pytest.approx(0.4, rel=0.005)
    assert {tensor.dtype for tensor in tensors_of(state)} == {torch.float32}


def test_initial_variance_is_where_the_variances_start():
    mixer = make_mixer("gma", WIDTH, num_heads=HEADS, initial_variance=3.5)
    torch.testing.assert_close(mixer.mixture().variance, torch.full((HEADS, 64, WIDTH // HEADS), 3.5))
    # every component has the same mean density over tokens of unit variance, as in the layer
    spread = 2 * (3.5 + 1)
    even = mixer.mixture.alpha - mixer.mixture.mu.square().sum(-1) / spread
    torch.testing.assert_close(even, even[:, :1].expand_as(even), rtol=0, atol=1e-5)
    usual = make_mixer("gma", WIDTH, num_heads=HEADS).mixture().variance
    torch.testing.assert_close(usual, torch.full_like(usual, (WIDTH / HEADS) ** 0.5))


def test_mixture_can_be_placed_by_data():
    mixer, x = make("gma", qk_norm=True), 5 * draw(4, 50, WIDTH)
    before = mixer.mixture.mu.clone()
    assert mixer.initialise_from(x, generator=torch.Generator().manual_seed(0)) is mixer
    assert not torch.equal(mixer.mixture.mu, before)
    q, k, _ = mixer.project(x)
    torch.testing.assert_close(q.square().mean(-1), torch.ones(q.shape[:-1], dtype=q.dtype))
    nearest = torch.cdist(torch.cat([q, k], -2), mixer.mixture.mu).amin(-1).mean()
    assert nearest < 0.9 * torch.cdist(torch.cat([q, k], -2), before).amin(-1).mean()


@pytest.mark.parametrize("shared", [False, True])
def test_padding_has_no_part_in_the_placing(shared):
    """Padded texts place the mixture where the texts alone do, whatever the padding holds."""
    x, placed = 5 * draw(4, 50, WIDTH), []
    mask = torch.arange(57) < 50
    for padding in (None, 0.0, 100.0):
        mixer = make("gma", qk_norm=True, convolution=4, shared_mixture=shared)
        given = {} if padding is None else {"key_mask": mask}
        padded = x if padding is None else torch.nn.functional.pad(x, (0, 0, 0, 7), value=padding)
        mixer.initialise_from(padded, generator=torch.Generator().manual_seed(0), **given)
        placed.append(mixer.mixture.mu)
    torch.testing.assert_close(placed[1], placed[0])
    assert torch.equal(placed[1], placed[2])
