"""A run that was stopped and goes on is the run that was never stopped."""

import json
import os

import pytest
import torch
from safetensors.torch import save as to_bytes

from gma_ref.models import state
from gma_ref.models.settings import Settings
from gma_ref.models.state import read_tensors, step_seed
from gma_ref.models.training import train
from tests.models.small import SmallModel, small_model, small_settings, small_task


def run(folder, until=None, model=None, **changes):
    model = small_model() if model is None else model
    return train(small_settings(**changes), folder, task=small_task(), model=model, until=until)


def without_times(log):
    history = [{key: value for key, value in entry.items() if key != "seconds"} for entry in log["history"]]
    result = {key: value for key, value in log["result"].items() if key not in ("seconds", "elapsed")}
    return history, result


@pytest.mark.parametrize("pauses", [(5,), (1, 4, 7, 9)])
def test_ten_steps_are_five_and_five_bit_for_bit(tmp_path, pauses):
    """With dropout, with evaluations on the way, and with what AdamW has gathered."""
    whole = run(tmp_path / "whole")
    for until in pauses:
        paused = run(tmp_path / "parts", until)
        assert paused.log["result"] is None
        torch.rand(until)  # what others draw in between has no part in it
    resumed = run(tmp_path / "parts")
    for name in ("state", "model"):
        one, other = (read_tensors(tmp_path / folder / f"{name}.safetensors")[0] for folder in ("whole", "parts"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert without_times(resumed.log) == without_times(whole.log)
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True))


@pytest.mark.parametrize("mixer", ["gma", "softmax"])
def test_transformer_resumes_bit_for_bit(tmp_path, mixer):
    settings = Settings(
        task="recall", task_options={"num_pairs": 2, "vocabulary_size": 64}, mixer=mixer, d_model=16, num_heads=2,
        num_components=4, num_layers=1, length=16, batch=4, steps=6, evaluate_every=2, evaluation_tokens=64,
        final_tokens=64, dropout=0.1,
    )  # fmt: skip
    whole = train(settings, tmp_path / "whole").model.state_dict()
    train(settings, tmp_path / "parts", until=3)
    parts = train(settings, tmp_path / "parts").model.state_dict()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_finished_run_is_not_trained_again(tmp_path):
    first = run(tmp_path)
    model = small_model()
    model.register_forward_pre_hook(lambda module, _: pytest.fail("it trains") if module.training else None)
    again = run(tmp_path, model=model)
    assert without_times(again.log) == without_times(first.log)


def test_killed_save_leaves_the_old_state_usable(tmp_path, monkeypatch):
    run(tmp_path, until=5)
    before = (tmp_path / "state.safetensors").read_bytes()

    def die(handle):
        os.ftruncate(handle, 1000)  # what a crash may leave of the new file
        raise KeyboardInterrupt

    monkeypatch.setattr(state.os, "fsync", die)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "state.safetensors").read_bytes() == before
    assert run(tmp_path).log["result"]["step"] == 10


def test_state_of_another_run_is_refused(tmp_path):
    run(tmp_path, until=5)
    with pytest.raises(ValueError, match=r"^folder must hold a run with the same settings, but batch, lr differ in "):
        run(tmp_path, lr=0.5, batch=8)


@pytest.mark.parametrize("change", [{"d_model": 32}, {"mixer": "softmax"}, {"num_layers": 2}])
def test_state_of_another_model_is_refused_by_its_settings(tmp_path, change):
    """Its weights have other names or shapes, and are not to be tried first."""
    settings = {"d_model": 16, "num_heads": 2, "num_components": 4, "num_layers": 1}
    train(small_settings(**settings), tmp_path, task=small_task(), until=1)
    (name,) = change
    with pytest.raises(ValueError, match=rf"^folder must hold a run with the same settings, but {name} differ in "):
        train(small_settings(**settings | change), tmp_path, task=small_task())


def test_state_with_an_option_that_is_no_more_is_that_of_another_run(tmp_path):
    run(tmp_path, until=5)
    path = tmp_path / "state.safetensors"
    tensors, metadata = read_tensors(path)
    kept = json.loads(metadata["progress"])
    for settings, named in (({"given_up": 1}, "given_up"), ({"weight_decay": 0.3}, "weight_decay")):
        changed = json.dumps(kept | {"settings": kept["settings"] | settings})
        path.write_bytes(to_bytes(tensors, metadata={"progress": changed}))
        with pytest.raises(ValueError, match=rf"^folder must hold a run with the same settings, but {named} differ"):
            run(tmp_path)
    kept["settings"].pop("patience")  # one that was added since, at its default
    path.write_bytes(to_bytes(tensors, metadata={"progress": json.dumps(kept)}))
    assert run(tmp_path).log["result"]["step"] == 10


def test_tensors_that_are_no_state_are_refused(tmp_path):
    path = tmp_path / "state.safetensors"
    path.write_bytes(to_bytes({"a": torch.zeros(3)}))
    with pytest.raises(ValueError, match=r"^state\.safetensors must hold the state of a run, got other tensors$"):
        run(tmp_path)
    path.unlink()
    run(tmp_path, until=5)
    with pytest.raises(ValueError, match=r"^state\.safetensors must hold the weights of this very model, which it "):
        run(tmp_path, model=SmallModel(width=9))  # the same settings, a model of one's own


def test_state_that_is_not_whole_is_refused(tmp_path):
    run(tmp_path, until=5)
    path = tmp_path / "state.safetensors"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"^state\.safetensors must be a whole safetensors file: "):
        run(tmp_path)


def test_tensors_that_were_read_do_not_change_with_their_file(tmp_path):
    path = tmp_path / "state.safetensors"
    path.write_bytes(to_bytes({"a": torch.ones(1000)}))
    tensors, _ = read_tensors(path)
    path.write_bytes(to_bytes({"a": torch.zeros(1000)}))  # the same file, not another of its name
    assert torch.equal(tensors["a"], torch.ones(1000))


def test_state_holds_no_pickle(tmp_path):
    run(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors", ".json"}
    tensors, metadata = read_tensors(tmp_path / "state.safetensors")
    assert {name.partition("/")[0] for name in tensors} == {"model", "best", "optimizer"}
    assert json.loads(metadata["progress"])["progress"]["step"] == 10


def test_every_step_draws_from_a_seed_of_its_own():
    seeds = [step_seed(seed, step, *who) for seed in range(5) for step in range(50) for who in ((), (1,), (2,))]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
