"""Checkpoints: small, complete, and as good as their cards say."""

import json

import pytest
import torch

from gma_ref.models import checkpoints
from gma_ref.models.config import Config
from gma_ref.models.settings import Settings
from gma_ref.models.tasks import make_task
from gma_ref.models.training import train
from gma_ref.models.transformer import Transformer

SMALL = {
    "task": "recall", "task_options": {"num_pairs": 2, "vocabulary_size": 64}, "length": 16, "num_layers": 1,
    "d_model": 16, "num_heads": 2, "num_components": 4, "steps": 30, "batch": 8, "evaluate_every": 30, "lr": 1e-2,
    "evaluation_tokens": 320, "final_tokens": 320, "seed": 4,
}  # fmt: skip


def save(folder, model, name="small", **changes):
    checkpoints.save(name, model, **{"command": "python ...", "metrics": {}, "folder": folder} | changes)


def small_transformer(**changes):
    torch.manual_seed(0)
    return Transformer(Config(**{"vocabulary": 9, "num_layers": 1, "d_model": 8, "num_heads": 2} | changes))


@pytest.mark.parametrize("mixer", ["gma", "softmax", "linear", "favor"])
def test_model_comes_back_rounded_to_half_precision(tmp_path, mixer):
    model = small_transformer(mixer=mixer, dropout=0.3)
    save(tmp_path, model, seed=7, commit="abc")
    loaded = checkpoints.load("small", tmp_path)
    assert loaded.config == model.config
    assert not loaded.training
    for one, other in zip(loaded.state_dict().values(), model.state_dict().values(), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other.half().to(other.dtype) if other.is_floating_point() else other)
    card = checkpoints.card("small", tmp_path)
    assert (card["seed"], card["commit"], card["command"]) == (7, "abc", "python ...")
    assert checkpoints.available(tmp_path) == ["small"]


def test_published_run_reproduces_its_metrics(tmp_path):
    settings = Settings(**SMALL)
    train(settings, tmp_path / "run")
    card = checkpoints.publish("recall-gma", tmp_path / "run", tmp_path / "there", tokens=320)
    metric = card["metrics"]["validation"]
    again = checkpoints.score(
        checkpoints.load("recall-gma", tmp_path / "there"),
        make_task(settings.task, **card["settings"]["task_options"]),
        "validation",
        metric["length"],
        metric["tokens"],
    )
    assert again["loss"] == pytest.approx(metric["loss"], abs=1e-6)
    assert again["score"] == pytest.approx(metric["score"], abs=1e-6)
    assert metric["loss"] == pytest.approx(card["result"]["validation"]["loss"], abs=1e-3)  # rounding changes little
    assert (card["command"], card["seed"]) == (settings.command(), 4)
    assert {"commit", "provenance", "parameters", "model"} <= card.keys()
    assert str(tmp_path) not in json.dumps(card)


def test_program_publishes_a_run_into_the_package(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "_FOLDER", tmp_path / "there")
    train(Settings(**SMALL | {"steps": 2}), tmp_path / "run")
    assert checkpoints.main(["recall-gma", str(tmp_path / "run"), "--tokens", "64", "--test"]) == 0
    printed = capsys.readouterr().out
    metrics = checkpoints.card("recall-gma")["metrics"]
    for part in ("validation", "test"):
        assert f"recall-gma: {part} {metrics[part]['score']:.4f} ± " in printed
        assert metrics[part]["tokens"] == 64
    assert checkpoints.main(["recall-gma", str(tmp_path / "nothing")]) == 2
    assert "log.json" in capsys.readouterr().err


def test_unfinished_run_is_not_published(tmp_path):
    train(Settings(**SMALL), tmp_path, until=2)
    with pytest.raises(ValueError, match=r"^run_folder must hold a finished run, got "):
        checkpoints.publish("recall-gma", tmp_path, tmp_path)


def test_model_that_is_too_large_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"^model must take at most 1,500,000 bytes in float16, got 1,\d{3},\d{3}$"):
        save(tmp_path, small_transformer(vocabulary=100_000))
    assert not list(tmp_path.iterdir())


def test_weights_that_half_precision_cannot_hold_are_refused(tmp_path):
    model = small_transformer()
    with torch.no_grad():
        model.embedding.weight[0, 0] = 1e5
    with pytest.raises(ValueError, match=r"^model must be finite in float16, which embedding\.weight is not$"):
        save(tmp_path, model)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../out", "Big", "a b", "", "a--b"])
def test_names_that_are_no_file_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"^name must be small letters and figures joined by hyphens, got "):
        save(tmp_path, small_transformer(), name=name)


def test_unknown_name_is_refused_with_those_that_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"^name must be that of a checkpoint, and there is none yet, got 'other'$"):
        checkpoints.load("other", tmp_path)
    save(tmp_path, small_transformer())
    with pytest.raises(ValueError, match=r"^name must be one of 'small', got 'other'$"):
        checkpoints.card("other", tmp_path)


def test_damaged_file_is_refused(tmp_path):
    save(tmp_path, small_transformer())
    path = tmp_path / "small.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"^small\.safetensors must be a whole safetensors file: "):
        checkpoints.load("small", tmp_path)


def test_card_and_weights_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "small.json"

    def refused(text, message):
        save(tmp_path, small_transformer())
        path.write_text(text(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            checkpoints.load("small", tmp_path)

    def with_model(**changes):
        return lambda card: json.dumps(card | {"model": card["model"] | changes})

    refused(lambda card: json.dumps(card)[:-9], r"^small\.json must be a whole JSON file: ")
    refused(lambda card: "[]", r"^small\.json must have model, metrics$")
    refused(lambda card: "{}", r"^small\.json must have model, metrics$")
    refused(with_model(given_up=1), r"^small\.json must have options of this version's Config: .*given_up")
    refused(with_model(d_model=16), r"^small\.safetensors must hold the weights of this very model, which it does not$")
    refused(with_model(mixer="softmax"), r"^small\.safetensors must hold the weights of this very model, which it ")


def test_run_of_another_version_is_not_published(tmp_path, capsys):
    train(Settings(**SMALL | {"steps": 2}), tmp_path)
    path = tmp_path / "log.json"
    log = json.loads(path.read_text(encoding="utf-8"))
    for changed, said in (
        ({"settings": log["settings"] | {"given_up": 1}}, "log.json must have options of this version's Settings: "),
        ({"model": None}, "log.json must have options of this version's Config: "),
        ({"model": log["model"] | {"d_model": 32}}, "model.safetensors must hold the weights of this very model"),
    ):
        path.write_text(json.dumps(log | changed), encoding="utf-8")
        assert checkpoints.main(["recall-gma", str(tmp_path)]) == 2
        assert capsys.readouterr().err.startswith(f"Refused: {said}")


@pytest.mark.parametrize("name", checkpoints.available())
def test_shipped_model_reproduces_the_metric_of_its_card(name):
    card = checkpoints.card(name)
    metric = card["metrics"]["validation"]
    task = make_task(card["settings"]["task"], **card["settings"]["task_options"])
    again = checkpoints.score(checkpoints.load(name), task, "validation", metric["length"], metric["tokens"])
    assert again["score"] == pytest.approx(metric["score"], abs=1e-3)


@pytest.mark.parametrize(
    "name", [name for name in checkpoints.available() if checkpoints.card(name)["model"]["causal"]]
)
def test_shipped_causal_model_reads_in_pieces_as_at_once(name):
    """It reads at once, and through the state: a beginning, then token by token, past the training's length."""
    model, settings = checkpoints.load(name), checkpoints.card(name)["settings"]
    task = make_task(settings["task"], **settings["task_options"])
    text = next(task.evaluation("validation", 3 * settings["length"] // 2)).inputs[:1]
    with torch.no_grad():
        at_once = model(text)
        begin = settings["length"] // 2
        logits, state = model.prefill(text[:, :begin])
        in_pieces = [logits]
        for token in text[0, begin:]:
            logits, state = model.step(token[None], state)
            in_pieces.append(logits[:, None])
    torch.testing.assert_close(torch.cat(in_pieces, 1), at_once, atol=1e-4, rtol=1e-4)
