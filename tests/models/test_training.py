"""The loop: it learns, treats parameters as it should, and stops where nothing can be learnt any more."""

import math

import pytest
import torch
from torch import nn

from gma_ref.models.config import Config
from gma_ref.models.evaluation import evaluate
from gma_ref.models.mixers import MIXERS
from gma_ref.models.settings import Settings
from gma_ref.models.state import read_tensors
from gma_ref.models.tasks import IGNORED, Batch, make_task
from gma_ref.models.tasks.bigram import bigram_loss
from gma_ref.models.trainer import Trainer
from gma_ref.models.training import NonFiniteError, build_model, train
from gma_ref.pytorch import mixture_parameters, responsibilities
from tests.models.small import small_model, small_settings, small_task

PARTS = ("train", "validation", "test")


def run(folder=None, model=None, task=None, until=None, **changes):
    model = small_model() if model is None else model
    return train(small_settings(**changes), folder, task=task or small_task(), model=model, until=until)


def test_short_training_beats_a_bigram_model():
    """Characters of Shakespeare; what one symbol before tells is counted exactly."""
    settings = Settings(
        mixer="gma", num_layers=1, d_model=64, num_heads=2, num_components=16, length=64, batch=16, steps=220, lr=5e-3,
        evaluate_every=220, evaluation_tokens=8192, final_tokens=32_768,
    )  # fmt: skip
    task = make_task("shakespeare")
    bigram = bigram_loss(task.parts["train"], task.parts["validation"], task.vocabulary.size) / math.log(2)
    assert 3.3 < bigram < 3.8
    result = train(settings).log["result"]["validation"]
    assert result["score"] + 2 * result["standard_error"] < bigram


def test_same_seed_gives_the_same_weights_and_another_gives_others():
    first, again, other = (run(seed=seed).model.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["out.weight"], other["out.weight"])


def batches_seen(mixer, seed):
    """Return the training batches that a model was given, and the evaluated ones."""
    settings = small_settings(mixer=mixer, seed=seed, d_model=16, num_heads=2, num_components=4, num_layers=1, steps=3)
    model, seen = build_model(settings, small_task()), {True: [], False: []}
    model.register_forward_pre_hook(lambda module, inputs: seen[module.training].append(inputs[0].tolist()))
    train(settings, task=small_task(), model=model)
    return seen[True], seen[False]


def test_mixers_see_the_same_batches_and_seeds_see_others():
    trained, evaluated = batches_seen("softmax", seed=0)
    assert len(trained) == 3
    assert len({str(batch) for batch in trained}) == 3
    for mixer in ("gma", "linear", "favor"):
        assert batches_seen(mixer, seed=0) == (trained, evaluated)
    others, evaluated_again = batches_seen("softmax", seed=1)
    assert all(batch not in trained for batch in others)
    assert evaluated_again == evaluated


def test_seed_decides_the_first_weights_whatever_was_drawn_before():
    settings, task = Settings(d_model=16, num_heads=2, num_components=4, num_layers=1), small_task()
    torch.rand(3)
    first = build_model(settings, task).state_dict()
    torch.rand(5)
    again = build_model(settings, task).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_what_is_compared_reaches_the_model():
    """An option that is dropped on the way would make two runs the same, and their comparison a mistake."""
    settings = Settings(
        mixer="gma", num_layers=2, d_model=24, num_heads=3, num_components=5, convolution=3, qk_norm=True, dropout=0.25,
        causal=False, mixer_options={"initial_variance": 2.5, "shared_mixture": True, "eps": 1e-4},
    )  # fmt: skip
    task = make_task("recall", num_pairs=2, vocabulary_size=64)
    task.num_classes = 7
    config = build_model(settings, task).config
    mixer = {"convolution": 3, "qk_norm": True, "num_components": 5} | settings.mixer_options
    assert config == Config(64, 2, 24, 3, "gma", mixer, causal=False, dropout=0.25, num_classes=7)
    config = build_model(Settings(mixer="softmax", convolution=0, qk_norm=False), small_task()).config
    assert config == Config(6, 3, 128, 4, "softmax", {"convolution": 0, "qk_norm": False})
    config = build_model(Settings(mixer="linear", qk_norm=True), small_task()).config
    assert config == Config(6, 3, 128, 4, "linear", {"convolution": 4, "qk_norm": True})


def test_what_is_chosen_reaches_the_optimiser(monkeypatch):
    made = []
    monkeypatch.setattr(Trainer, "run", lambda trainer, until: made.append(trainer.optimizer))
    chosen = {"lr": 0.01, "mixture_lr_factor": 5.0, "weight_decay": 0.3, "betas": (0.8, 0.7)}
    train(Settings(d_model=16, num_heads=2, num_components=4, num_layers=1, **chosen), task=small_task())
    assert isinstance(made[0], torch.optim.AdamW)
    groups = {group["name"]: (group["lr"], group["weight_decay"], group["betas"]) for group in made[0].param_groups}
    assert groups == {
        "decayed": (0.01, 0.3, (0.8, 0.7)),
        "undecayed": (0.01, 0.0, (0.8, 0.7)),
        "mixtures": (0.05, 0.0, (0.8, 0.7)),
    }


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("convolution", [0, 4])
def test_models_have_the_parameters_that_are_asked_for(mixer, convolution):
    if mixer == "mamba":
        pytest.importorskip("mambapy")
    task = small_task()
    for layers, asked in ((1, 200_000), (3, 650_000)):
        settings = Settings(mixer=mixer, num_layers=layers, parameters=asked, convolution=convolution)
        model = build_model(settings, task)
        per_step = 8 * layers * (2 * settings.d_model + 1)
        assert abs(sum(parameter.numel() for parameter in model.parameters()) - asked) <= per_step / 2
        assert model.config.d_mlp % 8 == 0
    with pytest.raises(ValueError, match=r"^parameters must be at least [\d,]+ for such a model, got 1,000$"):
        build_model(Settings(mixer=mixer, parameters=1000, convolution=convolution), task)


def test_accumulation_gives_the_same_gradient():
    whole, parts = (run(accumulation=count, model=small_model(dropout=0.0)).model for count in (1, 4))
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"^batch must be a multiple of accumulation × processes = 3, got 4 seq"):
        run(accumulation=3)


def test_accumulation_weighs_targets_not_parts():
    """One part asks for three targets and the other for one: the gradient is that of the mean of the four."""

    class Uneven:
        name, unit, num_classes, default_length = "uneven", "accuracy", None, 4
        batch = Batch(
            torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]]),
            torch.tensor([[2, 3, 4, IGNORED], [IGNORED, IGNORED, IGNORED, 5]]),
        )

        def train_batches(self, generator, batch, length):
            while True:
                yield self.batch

        def evaluation(self, part, length, *, batch=32, limit=None):
            return iter([self.batch])

    model = small_model(dropout=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(small_settings(batch=2, accumulation=2, clip=0), Uneven(), model, optimizer)
    loss = trainer._add_gradients(Uneven.batch)
    got = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    logits = model(Uneven.batch.inputs)
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), Uneven.batch.targets.flatten(), ignore_index=IGNORED)
    expected.backward()
    assert loss == pytest.approx(expected.item())
    for parameter, gradient in zip(model.parameters(), got, strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_decay_spares_mixtures_norms_biases_and_embeddings():
    """With a gradient of zero everywhere, what moves is what decays."""
    settings = Settings(
        d_model=16, num_heads=2, num_components=4, num_layers=1, steps=4, length=8, batch=2, weight_decay=0.5,
        mixture_lr_factor=5.0, evaluate_every=4, evaluation_tokens=16, final_tokens=16,
    )  # fmt: skip

    class Silent(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = build_model(settings, small_task())

        def forward(self, tokens):
            return self.inner(tokens) * 0.0

    model = Silent()
    before = {name: value.clone() for name, value in model.named_parameters()}
    train(settings, task=small_task(), model=model)
    moved = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    matrices = {name for name, value in before.items() if value.ndim >= 2}
    mixtures = set(mixture_parameters(model))
    assert len(mixtures) == 3
    assert not moved & mixtures
    assert moved <= matrices
    assert not any("embedding" in name or "norm" in name or name.endswith("bias") for name in moved)
    assert {name.split(".")[-2] for name in moved} == {"w_qkv", "w_o", "convolution", "0", "2"}


def test_mixtures_are_placed_by_the_first_batch_layer_by_layer():
    """What reaches the second layer depends on the first, so it must have been placed by then."""
    settings = Settings(d_model=16, num_heads=2, num_components=4, num_layers=2, steps=1, length=16, placement=0.4)
    task = small_task()
    model = build_model(settings, task)
    before = {name: value.clone() for name, value in model.named_parameters()}
    batch = next(task.train_batches(torch.Generator().manual_seed(0), 8, 16))
    model.initialise_from(batch.inputs, entropy=settings.placement, generator=torch.Generator().manual_seed(1))
    moved = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert moved == set(mixture_parameters(model))
    x = model.embed(batch.inputs)
    for block in model.blocks:
        q, k, _ = block.mixer.project(block.norm_mixer(x))
        gamma = responsibilities(torch.cat([q, k], dim=-2), block.mixer.mixture())
        entropy = -(gamma * gamma.clamp_min(1e-30).log()).sum(dim=-1).mean(dim=(0, 2)) / math.log(4)
        torch.testing.assert_close(entropy, torch.full((2,), 0.4), rtol=0, atol=0.02)
        x, _ = block(x)


def test_placement_is_part_of_a_run():
    changes = {"d_model": 16, "num_heads": 2, "num_components": 4, "num_layers": 1, "steps": 2, "length": 16}
    plain, placed, again = (
        train(small_settings(**changes, placement=placement), task=small_task()).log["history"][-1]["train_loss"]
        for placement in (None, 0.5, 0.5)
    )
    assert placed == again != plain


def test_gradients_are_cut_to_the_norm():
    model, task = small_model(dropout=0.0), small_task()
    trainer = Trainer(small_settings(clip=1e-3), task, model, torch.optim.SGD(model.parameters(), lr=1.0))
    before = torch.cat([parameter.detach().clone().flatten() for parameter in model.parameters()])
    trainer.run(until=1)
    after = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    factor = trainer.optimizer.param_groups[0]["lr"]
    assert 0 < factor < 1
    assert (after - before).norm() == pytest.approx(1e-3 * factor, rel=1e-3)


class Breaking(nn.Module):
    """A model whose logits are not finite from some call of its training on."""

    def __init__(self, after):
        super().__init__()
        self.inner, self.left = small_model(dropout=0.0), after

    def forward(self, tokens):
        self.left -= self.training
        return self.inner(tokens) * (math.nan if self.training and self.left < 0 else 1.0)


def test_loss_that_is_not_finite_stops_with_the_last_good_state_kept(tmp_path):
    model = Breaking(after=6)
    with pytest.raises(NonFiniteError) as caught:
        run(tmp_path, model)
    assert str(caught.value).startswith(
        "loss must be finite, got loss nan and gradient norm nan in step 7 at learning "
    )
    assert "the state of step 4 is kept" in str(caught.value)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    tensors, _ = read_tensors(tmp_path / "state.safetensors")
    assert all(torch.isfinite(value).all() for value in tensors.values())
    assert caught.value.log["result"]["validation"] is None
    assert caught.value.log["history"][-1]["step"] == 4
    repaired = run(tmp_path, Breaking(after=100))  # as with a mended program: it goes on from step 4
    assert repaired.log["result"]["step"] == 10


def test_gradient_that_is_not_finite_moves_nothing():
    class Cliff(nn.Module):
        """Finite, with an infinite slope: the root at 0."""

        def __init__(self):
            super().__init__()
            self.inner, self.zero = small_model(dropout=0.0), nn.Parameter(torch.zeros(1))

        def forward(self, tokens):
            return self.inner(tokens) + self.zero.sqrt()

    model = Cliff()
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(NonFiniteError, match=r"gradient norm (nan|inf) in step 1 .*; no state was saved before; "):
        run(model=model)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True))


def test_early_stop_keeps_the_best_weights():
    run_ended = run(steps=400, evaluate_every=5, patience=2, lr=1.0, clip=0, weight_decay=0.0, warmup=0.0)
    history, result = run_ended.log["history"], run_ended.log["result"]
    scores = [entry["validation"]["score"] for entry in history]
    assert result["stopped"] == "no better evaluation in 2"
    assert len(scores) < 80
    assert result["best_step"] == history[-3]["step"]
    assert scores[-3] == min(scores)
    again = evaluate(run_ended.model, small_task().evaluation("validation", 8, limit=80), "bits per character")
    assert again["score"] == pytest.approx(min(scores), rel=1e-6)


def test_budget_in_minutes_is_kept_and_the_rate_follows_the_clock():
    log = run(steps=None, minutes=0.03, evaluate_every=1000).log
    assert 1.8 <= log["result"]["elapsed"] < 4
    assert log["result"]["step"] > 10
    assert log["history"][-1]["lr"] < 0.02 * 0.05


def test_training_goes_on_in_the_mode_of_training(monkeypatch):
    modes = []
    model = small_model()
    model.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    run(model=model, steps=4, evaluate_every=2)
    assert modes[:2] == [True, True]
    assert modes.count(True) == 4


def test_test_part_is_looked_at_only_when_asked_and_then_once(monkeypatch):
    task, asked = small_task(), []
    original = task.evaluation

    def noted(part, *arguments, **options):
        asked.append(part)
        return original(part, *arguments, **options)

    task.evaluation = noted
    assert run(task=task).log["result"]["test"] is None
    assert "test" not in asked
    assert run(task=task, test=True).log["result"]["test"]["targets"] == 88
    assert asked.count("test") == 1


def test_log_says_where_it_is_from(tmp_path):
    log = run(tmp_path).log
    assert log["format"] == "gma_ref.models 1"
    assert log["command"].startswith("python -m gma_ref.models.training --task shakespeare --length 8 --mixer gma ")
    assert Settings(**log["settings"]) == small_settings()
    assert {"commit", "processor", "versions", "date", "threads", "accelerator"} <= set(log["provenance"])
    assert [entry["step"] for entry in log["history"]] == [4, 8, 10]
    assert log["result"]["tokens"] == 10 * 4 * 8
    assert str(tmp_path) not in (tmp_path / "log.json").read_text(encoding="utf-8")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_cpu_is_taken_and_asking_for_a_gpu_is_refused():
    assert next(run().model.parameters()).device.type == "cpu"
    with pytest.raises(ValueError, match=r"^device must be one that PyTorch finds, got 'cuda'; on "):
        train(small_settings(), device="cuda")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_products_are_in_bfloat16_and_weights_in_float32():
    seen = []
    model = small_model()
    model.hidden.register_forward_hook(lambda module, _, output: seen.append((module.training, output.dtype)))
    trained = train(small_settings(), task=small_task(), model=model).model
    assert next(trained.parameters()).device.type == "cuda"
    assert {parameter.dtype for parameter in trained.parameters()} == {torch.float32}
    assert set(seen) == {(True, torch.bfloat16), (False, torch.float32)}


def test_bfloat16_on_a_cpu_is_there_for_who_asks():
    seen = set()
    model = small_model()
    model.hidden.register_forward_hook(lambda module, _, output: seen.add((module.training, output.dtype)))
    run(model=model, precision="bfloat16")
    assert seen == {(True, torch.bfloat16), (False, torch.float32)}
