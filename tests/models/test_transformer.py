"""The Transformer: streaming equals the full forward pass for every mixer, its heads, and what it refuses."""

import dataclasses
import json
import math

import pytest
import torch

from gma_ref.models.mixers import MIXERS
from gma_ref.models.transformer import Config, Transformer, parameter_groups
from gma_ref.pytorch import mixture_parameters
from tests.models.mixer_examples import ATTENTIONS, HERE

V = 11
TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 1e-4, "atol": 1e-4}}


def make(mixer="gma", dtype=torch.float64, convolution=0, seed=0, **config):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        options = {"convolution": convolution, "num_components": 5}
        sizes = {"vocabulary": V, "num_layers": 2, "d_model": 16, "num_heads": 2}
        return Transformer(Config(mixer=mixer, mixer_options=options, **(sizes | config))).to(dtype).eval()


def texts(*shape, seed=0):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("max_len", [None, 100, 20, 1])
@pytest.mark.parametrize("convolution", [0, 4])
@pytest.mark.parametrize("mixer", HERE)
@torch.no_grad()
def test_prefill_and_steps_give_the_logits_of_the_whole(mixer, convolution, max_len, dtype):
    model, tokens = make(mixer, dtype, convolution, max_len=max_len), texts(2, 30)
    whole = model(tokens)
    assert whole.shape == (2, 30, V)
    parts, state = [], None
    for piece in (tokens[:, :12], tokens[:, 12:13], tokens[:, 13:20]):
        logits, state = model.prefill(piece, state)
        parts.append(logits)
    assert state.position == 20
    for token in tokens[:, 20:].unbind(dim=1):
        logits, state = model.step(token, state)
        parts.append(logits[:, None])
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, **TOLERANCE[dtype])


@pytest.mark.parametrize("mixer", HERE)
@torch.no_grad()
def test_past_the_context_length_the_rule_is_the_last_position(mixer):
    bounded, free, tokens = make(mixer, max_len=6), make(mixer), texts(2, 15)
    within, beyond = bounded(tokens)[:, :6], bounded(tokens)[:, 6:]
    torch.testing.assert_close(within, free(tokens)[:, :6], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(beyond, free(tokens)[:, 6:])
    # the same text through a model whose positions are set by hand
    at = torch.arange(15).clamp_max(5)
    waves = torch.zeros(15, 16, dtype=torch.float64)
    for p in range(15):
        for m in range(8):
            angle = at[p] / 10_000 ** (2 * m / 16)
            waves[p, 2 * m], waves[p, 2 * m + 1] = math.sin(angle), math.cos(angle)
    torch.testing.assert_close(bounded.embed(tokens), bounded.embedding(tokens) + 0.05 * waves)


@torch.no_grad()
def test_softmax_reads_as_many_tokens_as_the_context_is_long():
    model, tokens = make("softmax", num_layers=1, max_len=6), texts(1, 15)
    changed = tokens.clone()
    changed[0, 4] = (tokens[0, 4] + 1) % V
    difference = (model(tokens) != model(changed)).any(dim=-1)[0]
    assert difference.tolist() == [4 <= i < 10 for i in range(15)]


@torch.no_grad()
def test_forked_and_selected_streams_are_those_of_their_texts():
    model, tokens, more = make(convolution=4), texts(3, 9), texts(2, 4, seed=1)
    index = torch.tensor([2, 0])
    _, state = model.prefill(tokens)
    for _ in range(2):
        logits, _ = model.prefill(more, state.select(index))
        whole = model(torch.cat([tokens[index], more], dim=1))
        torch.testing.assert_close(logits, whole[:, 9:], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mixer", HERE)
def test_no_logit_depends_on_a_later_token(mixer):
    model, tokens = make(mixer, convolution=4), texts(2, 12)
    before = model(tokens)
    for t in (0, 5, 10):
        changed = tokens.clone()
        changed[:, t + 1 :] = (tokens[:, t + 1 :] + 3) % V
        assert torch.equal(model(changed)[:, : t + 1], before[:, : t + 1])
        assert not torch.equal(model(changed)[:, t + 1], before[:, t + 1])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mixer", ATTENTIONS)
@torch.no_grad()
def test_classes_of_padded_texts_are_those_of_each_alone(mixer, causal):
    model, tokens, lengths = make(mixer, convolution=3, causal=causal, num_classes=4), texts(3, 9), (9, 4, 1)
    mask = torch.arange(9) < torch.tensor(lengths)[:, None]
    logits = model(tokens, key_mask=mask)
    assert logits.shape == (3, 4)
    for b, length in enumerate(lengths):
        torch.testing.assert_close(logits[b : b + 1], model(tokens[b : b + 1, :length]), rtol=1e-10, atol=1e-10)
    other = torch.where(mask, tokens, 5)
    torch.testing.assert_close(model(other, key_mask=mask), logits, rtol=0, atol=0)
    nothing = model(tokens, key_mask=torch.zeros(9, dtype=torch.bool))
    torch.testing.assert_close(nothing, model.classifier.bias.expand(3, 4))


@torch.no_grad()
def test_generated_text_is_what_drawing_from_the_full_forward_pass_gives():
    model, prompt = make(convolution=4), texts(2, 5)
    for temperature, top_k in ((0.0, None), (1.0, None), (0.7, 3), (1.0, 1), (1.0, 100)):
        drawn = list(model.generate(prompt, 8, temperature, top_k, torch.Generator().manual_seed(4)))
        text, generator = prompt, torch.Generator().manual_seed(4)
        for token in drawn:
            logits = model(text)[:, -1]
            if temperature == 0:
                expected = logits.argmax(dim=-1)
            else:
                order = logits.argsort(dim=-1, descending=True)[:, : top_k or V]
                shares = torch.softmax(logits.gather(1, order) / temperature, dim=-1)
                expected = order.gather(1, torch.multinomial(shares, 1, generator=generator))[:, 0]
            assert torch.equal(token, expected)
            text = torch.cat([text, token[:, None]], dim=1)
        assert len(drawn) == 8
    one = [token.item() for token in model.generate(prompt[0], 6, 0.0)]
    assert one == [token[0].item() for token in model.generate(prompt, 6, 0.0)]


@torch.no_grad()
def test_a_small_temperature_does_not_overflow():
    model, prompt = make(dtype=torch.float32), texts(2, 5)
    coldest = [token.tolist() for token in model.generate(prompt, 6, 0.0)]
    for temperature in (1e-6, 1e-38, 5e-324):
        assert [token.tolist() for token in model.generate(prompt, 6, temperature)] == coldest


def test_generating_leaves_dropout_off_and_the_modes_as_they_were():
    model, prompt = make(dropout=0.5), texts(2, 5)
    right = [token.tolist() for token in model.generate(prompt, 6, 0.0)]
    model.train()
    model.blocks[0].eval()
    found = []
    for token in model.generate(prompt, 6, 0.0):
        assert model.training
        assert not model.blocks[0].dropout.training
        assert not token.requires_grad
        found.append(token.tolist())
    assert found == right
    assert not torch.equal(model(prompt), model(prompt))
    model.eval()
    assert torch.equal(model(prompt), model(prompt))


@pytest.mark.parametrize("mixer", HERE)
def test_every_parameter_is_in_one_group_and_gets_a_gradient(mixer):
    model = make(mixer, convolution=4)
    groups = parameter_groups(model, 0.1, 1e-3, mixture_lr_factor=5.0)
    grouped = [parameter for group in groups for parameter in group["params"]]
    assert {id(parameter) for parameter in grouped} == {id(parameter) for parameter in model.parameters()}
    assert len(grouped) == len(list(model.parameters()))
    model(texts(2, 12)).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in grouped)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    named = {group["name"]: {names[id(parameter)] for parameter in group["params"]} for group in groups}
    assert all(group["weight_decay"] == (0.1 if group["name"] == "decayed" else 0.0) for group in groups)
    assert all(group["lr"] == (5e-3 if group["name"] == "mixtures" else 1e-3) for group in groups)
    assert named.get("mixtures", set()) == set(mixture_parameters(model))
    spared = "norm", "bias", "embedding", "A_log", ".D", "mu", "omega", "alpha"
    for name in named["decayed"]:
        assert not any(part in name for part in spared)
    for name in named["undecayed"]:
        assert any(part in name for part in spared)
    torch.optim.AdamW(groups).step()


def test_training_decay_leaves_what_it_must_leave():
    model = make("gma", convolution=4)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    optimiser = torch.optim.AdamW(parameter_groups(model, 0.5, 1e-2))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed == {name for name in before if name.split(".")[-1] == "weight" and before[name].ndim > 1} - {
        "embedding.weight"
    }


@pytest.mark.parametrize("mixer", HERE)
def test_a_few_steps_learn_a_text_by_heart(mixer):
    model = make(mixer, torch.float32, convolution=4, d_model=32)
    tokens = texts(1, 33)
    optimiser = torch.optim.AdamW(parameter_groups(model, 0.0, 1e-2))
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1])[0], tokens[0, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.3 < math.log(V)
    continued = torch.stack(list(model.generate(tokens[0, :8], 20, 0.0)))
    assert (continued == tokens[0, 8:28]).float().mean() > 0.9


def test_a_new_model_is_about_as_uncertain_as_it_should_be():
    for mixer in ATTENTIONS:
        model, tokens = make(mixer, torch.float32, vocabulary=V, d_model=128, num_heads=4), texts(8, 65)
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        assert loss.item() == pytest.approx(math.log(V), rel=0.15)


@pytest.mark.parametrize("mixer", HERE)
def test_weights_of_all_mixers_start_at_the_same_scales(mixer):
    """Such that a token of unit variance keeps it, and that all layers together add a variance of 1."""
    d, d_mlp, layers, taps = 128, 320, 3, 4
    model = make(mixer, torch.float32, taps, d_model=d, d_mlp=d_mlp, num_layers=layers, num_heads=4)
    share = (2 * layers) ** -0.5
    for block in model.blocks:
        mamba = getattr(block.mixer, "block", None)
        first = block.mixer.w_qkv if mamba is None else mamba.in_proj
        convolution = block.mixer.convolution if mamba is None else mamba.conv1d
        scales = {
            first: d**-0.5,
            convolution: taps**-0.5 / 3**0.5,  # as PyTorch draws them, evenly up to taps**-0.5
            block.mixer.w_o: share * d**-0.5,
            block.mlp[0]: d**-0.5,
            block.mlp[2]: share * d_mlp**-0.5,
        }
        for module, scale in scales.items():
            assert module.weight.std().item() == pytest.approx(scale, rel=0.1)
            assert abs(module.weight.mean().item()) < 0.1 * scale
    assert model.embedding.weight.std().item() == pytest.approx(0.05, rel=0.1)


def test_mixtures_can_be_placed_by_a_first_batch():
    model, tokens = make("gma", dropout=0.5).train(), texts(4, 20)
    first, second = (block.mixer.mixture for block in model.blocks)
    assert model.initialise_from(tokens, entropy=0.8, generator=torch.Generator().manual_seed(0)) is model
    assert model.training
    placed = first.mu.clone(), second.mu.clone()
    # layer by layer, by hand: the second one sees what the first gives from its new place
    again, generator = make("gma"), torch.Generator().manual_seed(0)
    x = again.embed(tokens)
    for block, mu in zip(again.blocks, placed, strict=True):
        assert not torch.allclose(block.mixer.mixture.mu, mu)
        block.mixer.initialise_from(block.norm_mixer(x), entropy=0.8, generator=generator)
        torch.testing.assert_close(block.mixer.mixture.mu, mu, rtol=1e-10, atol=1e-10)
        x, _ = block(x)


def test_padding_has_no_part_in_the_placing_of_any_layer():
    tokens, placed = texts(4, 20), []
    mask = torch.arange(25) < 20
    for given, options in ((tokens, {}), (torch.nn.functional.pad(tokens, (0, 5), value=3), {"key_mask": mask})):
        model = make("gma").initialise_from(given, generator=torch.Generator().manual_seed(0), **options)
        placed.append([block.mixer.mixture.mu for block in model.blocks])
    torch.testing.assert_close(placed[1], placed[0])


def test_models_without_mixtures_stay_as_they_are():
    model, before = make("linear"), make("linear").state_dict()
    model.initialise_from(texts(4, 20))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_config_goes_through_json():
    config = Config(V, mixer="favor", mixer_options={"convolution": 4, "num_features": 9}, max_len=20, d_model=16)
    assert Config(**json.loads(json.dumps(dataclasses.asdict(config)))) == config
    assert Transformer(config).blocks[0].mixer.num_features == 9
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 3


REFUSED = [
    ({"vocabulary": 0}, ValueError, r"^vocabulary must be at least 1, got 0$"),
    ({"num_layers": 1.0}, TypeError, r"^num_layers must be an integer, got float$"),
    ({"max_len": 0}, ValueError, r"^max_len must be at least 1, got 0$"),
    ({"num_classes": 0}, ValueError, r"^num_classes must be at least 1, got 0$"),
    ({"dropout": 1.0}, ValueError, r"^dropout must be below 1, got 1.0$"),
    ({"dropout": float("nan")}, ValueError, r"^dropout must be finite and at least 0, got nan$"),
    ({"causal": False}, ValueError, r"^causal must be True where num_classes is None"),
    ({"mixer_options": [4]}, TypeError, r"^mixer_options must be a dict, got list$"),
    (
        {"mixer_options": {"causal": False}},
        ValueError,
        r"^mixer_options must leave causal to the configuration itself$",
    ),
    ({"mixer": "rnn"}, ValueError, rf"^mixer must be one of {', '.join(MIXERS)}, got 'rnn'$"),
    ({"mixer_options": {"width": 4}}, TypeError, r'^mixer "gma" has no option width'),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED, ids=str)
def test_wrong_configurations_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Transformer(Config(**({"vocabulary": V, "d_model": 16} | arguments)))


def test_wrong_tokens_and_states_are_refused():
    model, classifier, tokens = make(), make(num_classes=3), texts(2, 6)
    _, state = model.prefill(tokens)
    _, other = make(num_layers=1).prefill(tokens)
    refused = [
        (lambda: model(tokens + 6), ValueError, r"^tokens must be from 0 to 10, got 1\d$"),
        (lambda: model(tokens - 11), ValueError, r"^tokens must be from 0 to 10, got -\d+$"),
        (lambda: model(tokens.float()), TypeError, r"^tokens must be int32 or int64, got torch.float32$"),
        (lambda: model(tokens.tolist()), TypeError, r"^tokens must be a tensor, got list"),
        (lambda: model(tokens[0]), ValueError, r"^tokens must have shape \(B, N\), got shape \(6,\)$"),
        (lambda: model.step(tokens, state), ValueError, r"^token must have shape \(B,\), got shape \(2, 6\)$"),
        (
            lambda: model.step(tokens[:1, 0], state),
            ValueError,
            r"^state must be that of 1 sequences as x is, got \[2\]$",
        ),
        (lambda: model.step(tokens[:, 0], state.layers), TypeError, r"^state must be one that this model has returned"),
        (lambda: model.step(tokens[:, 0], other), ValueError, r"^state must be that of 2 layers, got 1$"),
        (lambda: model(tokens, key_mask=torch.ones(6)), TypeError, r"^key_mask must be boolean"),
        (lambda: classifier.prefill(tokens), ValueError, r"^num_classes must be None to read a text token by token"),
        (
            lambda: classifier.generate(tokens, 3),
            ValueError,
            r"^num_classes must be None to read a text token by token",
        ),
        (lambda: model.generate(tokens[:, :0], 3), ValueError, r"^prompt must have shape \(N,\) or \(B, N\) with N at"),
        (lambda: model.generate(tokens[None], 3), ValueError, r"^prompt must have shape"),
        (lambda: model.generate(tokens + 11, 3), ValueError, r"^prompt must be from 0 to 10, got"),
        (lambda: model.generate(tokens, -1), ValueError, r"^steps must be at least 0, got -1$"),
        (lambda: model.generate(tokens, 3, -1.0), ValueError, r"^temperature must be finite and at least 0, got -1.0$"),
        (lambda: model.generate(tokens, 3, 1.0, 0), ValueError, r"^top_k must be at least 1, got 0$"),
        (lambda: parameter_groups(model, -0.1, 1e-3), ValueError, r"^weight_decay must be finite and at least 0"),
        (
            lambda: parameter_groups(model, 0.1, float("nan")),
            ValueError,
            r"^lr must be finite and at least 0, got nan$",
        ),
    ]
    model(tokens), model.step(tokens[:, 0], state), list(model.generate(tokens, 3))
    for call, error, message in refused:
        with pytest.raises(error, match=message):
            call()


def test_a_model_with_weights_that_are_not_finite_generates_nothing():
    model = make()
    with torch.no_grad():
        model.norm.bias[0] = torch.nan
    with pytest.raises(FloatingPointError, match=r"^the model's logits are not finite"):
        next(model.generate(texts(2, 5), 3))
