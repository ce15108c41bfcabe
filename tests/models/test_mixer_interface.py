"""How mixers are made: equal parameters, options by name, and refusals that say what is wrong."""

import subprocess
import sys

import pytest
import torch

from gma_ref.models.mixers import MIXERS, make_mixer, num_parameters
from tests.models.mixer_examples import ATTENTIONS, HERE, WIDTH, draw, make


@pytest.mark.parametrize("convolution", [0, 4])
def test_parameters_are_equal_up_to_the_mixture_s_own(convolution, capsys):
    d, heads, K = 128, 4, 64
    counts = {
        name: num_parameters(make_mixer(name, d, num_heads=heads, convolution=convolution)) for name in ATTENTIONS
    }
    with capsys.disabled():
        print(f"\nparameters, d = {d}, convolution {convolution}: {counts}")
    mixture = heads * K * (2 * d // heads + 1)
    assert counts["softmax"] == counts["linear"] == counts["favor"] == 4 * d**2 + 3 * d * convolution
    assert counts["gma"] == counts["softmax"] + mixture
    shared = make_mixer("gma", d, num_heads=heads, convolution=convolution, shared_mixture=True)
    assert num_parameters(shared) == counts["softmax"] + mixture // heads


def test_mamba_has_about_as_many():
    pytest.importorskip("mambapy", reason="mambapy is an extra")
    assert 0.8 < num_parameters(make_mixer("mamba", 128, num_heads=4)) / (4 * 128**2) < 1.2


def test_all_attentions_start_from_the_same_projections():
    weights = []
    for name in ATTENTIONS:
        torch.manual_seed(3)
        weights.append(make_mixer(name, 8, num_heads=2, convolution=4))
    for other in weights[1:]:
        for key, value in weights[0].state_dict().items():
            assert torch.equal(other.state_dict()[key], value)


@pytest.mark.parametrize("name", HERE)
def test_state_dict_moves_to_another_mixer(name):
    one, other, x = make(name, convolution=4), make(name, seed=1, convolution=4), draw(2, 6, WIDTH)
    assert not torch.allclose(other(x), one(x))
    other.load_state_dict(one.state_dict())
    assert torch.equal(other(x), one(x))


def test_names_are_those_of_the_list():
    assert MIXERS == ("softmax", "gma", "linear", "favor", "mamba")
    assert len({type(make_mixer(name, 4, num_heads=1)) for name in ATTENTIONS}) == 4


BASE = {"d_model": 12, "num_heads": 3}
REFUSED = [
    ({"name": "rnn"}, ValueError, r"^mixer must be one of softmax, gma, linear, favor, mamba, got 'rnn'$"),
    ({"name": 3}, ValueError, r"^mixer must be one of .*, got 3$"),
    ({"name": "softmax", "eps": 1e-6}, TypeError, r'^mixer "softmax" has no option eps; it has causal, convolution, '),
    ({"name": "linear", "initial_variance": 1.0}, TypeError, r'^mixer "linear" has no option initial_variance; it has'),
    ({"name": "gma", "num_heads": 5}, ValueError, r"^d_model must be a multiple of num_heads, got 12 and 5$"),
    ({"name": "gma", "num_heads": 0}, ValueError, r"^num_heads must be at least 1, got 0$"),
    ({"name": "gma", "num_heads": 1.5}, TypeError, r"^num_heads must be an integer, got float$"),
    ({"name": "gma", "num_components": 0}, ValueError, r"^num_components must be at least 1, got 0$"),
    (
        {"name": "gma", "initial_variance": 0.0},
        ValueError,
        r"^initial_variance must be above eps_sigma = 1e-06, got 0.0$",
    ),
    ({"name": "gma", "initial_variance": float("nan")}, ValueError, r"^initial_variance must be finite and at least 0"),
    ({"name": "gma", "implementation": "fast"}, ValueError, r"^implementation must be "),
    ({"name": "gma", "qk_norm": 1}, TypeError, r"^qk_norm must be True or False, got int$"),
    ({"name": "linear", "eps": 0.0}, ValueError, r"^eps must be above 0, got 0"),
    ({"name": "favor", "num_features": 0}, ValueError, r"^num_features must be at least 1, got 0$"),
    ({"name": "favor", "feature_eps": -1.0}, ValueError, r"^feature_eps must be finite and at least 0, got -1.0$"),
    ({"name": "softmax", "window": 0}, ValueError, r"^window must be at least 1, got 0$"),
    ({"name": "softmax", "window": 3, "causal": False}, ValueError, r"^window needs causal=True$"),
    ({"name": "softmax", "convolution": -1}, ValueError, r"^convolution must be at least 0, got -1$"),
    (
        {"name": "softmax", "convolution": 4, "causal": False},
        ValueError,
        r"^convolution must be odd where causal=False",
    ),
    ({"name": "mamba", "causal": False}, ValueError, r"^mamba must have causal=True"),
    ({"name": "mamba", "qk_norm": True}, ValueError, r"^mamba must have qk_norm=False"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED, ids=str)
def test_wrong_options_are_refused(arguments, error, message):
    make_mixer(**(BASE | {"name": "gma"}))
    with pytest.raises(error, match=message):
        make_mixer(**(BASE | arguments))


@pytest.mark.parametrize("name", HERE)
def test_wrong_inputs_are_refused(name):
    mixer, x = make(name), draw(2, 6, WIDTH)
    y, state = mixer(x, return_state=True)
    assert y.shape == x.shape
    refused = [
        (
            lambda: mixer(x[..., :-1]),
            ValueError,
            r"^x must have shape \(\.\.\., B, N, d_model\) with d_model = 12 as in the",
        ),
        (lambda: mixer(x[0]), ValueError, r"^x must have shape \(\.\.\., B, N, d_model\), got shape \(6, 12\)$"),
        (lambda: mixer(x[None]), ValueError, r"^x must have shape \(B, N, 12\), got shape \(1, 2, 6, 12\)$"),
        (lambda: mixer(x.long()), TypeError, r"^x must be float16, bfloat16, float32 or float64, got torch.int64"),
        (lambda: mixer(x.numpy()), TypeError, r"^x must be a tensor, got ndarray"),
        (lambda: mixer(x, key_mask=torch.ones(2, 6)), TypeError, r"^key_mask must be boolean"),
        (
            lambda: mixer(x, key_mask=torch.ones(2, 5, dtype=torch.bool)),
            ValueError,
            r"^key_mask must have shape \(6,\)",
        ),
        (lambda: mixer(x, return_state=1), TypeError, r"^return_state must be True or False, got int$"),
        (lambda: mixer(x, state=state.memory), TypeError, r"^state must be one that this \w+ has returned, got \w+$"),
        (lambda: mixer(x[:1], state=state), ValueError, r"^state must be that of 1 sequences as x is, got \[2\]$"),
        (lambda: mixer.step(x), ValueError, r"^x_t must have shape \(B, 12\), got shape \(2, 6, 12\)$"),
        (lambda: mixer.step(x[0, 0]), ValueError, r"^x_t must have shape \(\.\.\., B, d_model\), got shape \(12,\)$"),
    ]
    for call, error, message in refused:
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_state_of_another_mixer_is_refused(name):
    other = make("linear" if name == "softmax" else "softmax")
    _, state = other(draw(2, 6, WIDTH), return_state=True)
    with pytest.raises(TypeError, match=r"^state must be one that this \w+ has returned, got \w+$"):
        make(name)(draw(2, 6, WIDTH), state=state)


@pytest.mark.parametrize("name", HERE)
def test_a_state_of_other_sizes_is_refused(name):
    x = draw(2, 6, WIDTH)
    others = [make(name, convolution=3)]
    others += [make(name, state_dim=5)] if name == "mamba" else [make(name), make(name, num_heads=1, convolution=4)]
    others += {
        "gma": [make(name, num_components=6, convolution=4)],
        "favor": [make(name, num_features=6, convolution=4)],
    }.get(name, [])
    mixer = make(name, convolution=4)
    for other in others:
        _, state = other(x, return_state=True)
        with pytest.raises(
            ValueError, match=r"^state\.(memory|recent) must have shape (None|\(.*\)) after the batch, got "
        ):
            mixer(x, state=state)
    with pytest.raises(
        ValueError, match=r"^state\.memory must have shape" if name == "mamba" else r"^state\.recent must"
    ):
        mixer(x, state=others[1](x, return_state=True)[1])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_bidirectional_mixers_have_no_state(name):
    mixer, x = make(name, causal=False), draw(2, 6, WIDTH)
    for call in (lambda: mixer(x, return_state=True), lambda: mixer.step(x[:, 0])):
        with pytest.raises(ValueError, match=r"^a state needs causal=True"):
            call()


def test_mixers_without_mambapy_say_what_to_install():
    code = """
import sys
sys.modules["mambapy"] = None
from gma_ref.models.mixers import MIXERS, make_mixer
for name in MIXERS:
    try:
        make_mixer(name, 4, num_heads=1)
    except ModuleNotFoundError as error:
        print(name, error.name, error)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith('mamba mambapy mixer "mamba" needs mambapy: pip install --no-deps mambapy')
    assert printed.count("\n") == 1


def test_it_moves_to_another_device_whole():
    for name in ATTENTIONS:
        mixer = make(name, convolution=4).to("meta")
        assert {tensor.device.type for tensor in mixer.state_dict().values()} == {"meta"}
        assert mixer(torch.empty(2, 5, WIDTH, device="meta", dtype=torch.float64)).shape == (2, 5, WIDTH)
