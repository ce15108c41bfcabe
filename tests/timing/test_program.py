"""``python -m gma_ref.timing`` from end to end, on lengths so short that it takes seconds."""

import pytest
import torch

from gma_ref.timing import PeakMemory, load, read, select
from gma_ref.timing import __main__ as program
from gma_ref.timing.bench import all_methods
from gma_ref.timing.targets import TARGETS
from tests.timing.planted import spoilt


class Busy:
    """A watch that has seen a busy machine."""

    def others(self):
        return 1.75

    def is_busy(self):
        return True


@pytest.fixture
def few_methods(monkeypatch):
    """Leave the methods of which a test needs to see that they are there."""
    chosen = ("floor", "gma", "gma_cumulative", "gma_cumsum", "sdpa", "gma_step", "sdpa_step", "elu")
    methods = {name: all_methods()[name] for name in chosen}
    monkeypatch.setattr(program, "all_methods", lambda: methods)
    monkeypatch.setattr(load, "watch_for", lambda seconds: load.Watch())
    return methods


def run(folder, *arguments):
    options = ["--quick", "--threads", "1", "--repeats", "3", "--output", str(folder)]
    return program.main([*options, *arguments])


def test_run_prints_every_row_and_writes_what_can_be_read(tmp_path, few_methods, monkeypatch, capsys):
    monkeypatch.setattr("gma_ref.timing.bench.peak_memory", lambda *_, **__: PeakMemory(10**6, 10**5))
    threads = torch.get_num_threads()
    assert run(tmp_path, "--shrink", "128", "--only", "targets", "times", "memory") == 0
    assert torch.get_num_threads() == threads
    printed = capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    assert path.name == "cpu-quick.json"
    record = read(path)
    for target in TARGETS:
        assert f"{target.title}, {target.at}" in printed
    assert list(dict.fromkeys(row["name"] for row in record["targets"])) == [target.name for target in TARGETS]
    assert {row["verdict"] for row in record["targets"]} == {"not judged", "reported"}
    assert {entry["method"] for entry in record["times"]} == set(few_methods)
    assert (record["settings"]["threads"], record["settings"]["shrink"]) == (1, 128)
    assert record["provenance"]["versions"]["torch"] == torch.__version__
    assert len(select(record["memory"], over=900_000)) >= 3
    assert len(select(record["times"], method="elu", tokens=2, training=True)) == 2
    assert {entry["variant"] for entry in select(record["times"], method="sdpa")} <= {"default", "math"}
    # what was timed was checked: the call itself, and where there are gradients, these
    checked = {(e["method"], e["causal"], e["training"], e["tokens"]) for e in record["checks"]}
    assert {(e["method"], e["causal"], e["training"], e["tokens"]) for e in record["times"]} <= checked
    trained = {(e["method"], e["causal"]) for e in record["times"] if e["training"]}
    assert {(e["method"], e["causal"]) for e in record["checks"] if e["what"] == "gradient of q"} >= trained
    assert "bidirectional, forward, ms" in printed


def test_busy_machine_is_noted(tmp_path, few_methods, monkeypatch, capsys):
    monkeypatch.setattr(load, "Watch", Busy)
    assert run(tmp_path, "--shrink", "512", "--only", "times") == 0
    assert read(tmp_path / "cpu-quick.json")["load"] == {"before": 1.75, "during": 1.75, "busy": True}
    assert "The machine was busy: other programs used 1.75 processors." in capsys.readouterr().out


def test_busy_machine_is_refused_on_request_before_anything_is_measured(tmp_path, few_methods, monkeypatch, capsys):
    monkeypatch.setattr(load, "Watch", Busy)
    monkeypatch.setattr(program, "measure", lambda *_: pytest.fail("it was measured"))
    assert run(tmp_path, "--refuse-busy") == 2
    assert capsys.readouterr().err.startswith("Refused: other programs kept 1.75 of ")
    assert not list(tmp_path.iterdir())


def test_machine_that_gets_busy_is_refused_on_request_and_nothing_is_written(
    tmp_path, few_methods, monkeypatch, capsys
):
    monkeypatch.setattr(load, "Watch", Busy)
    monkeypatch.setattr(load, "watch_for", lambda seconds: Idle())
    monkeypatch.setattr(program, "measure", lambda *_: {})
    assert run(tmp_path, "--refuse-busy") == 2
    assert "busy during the measurements" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


class Idle:
    """A watch that has seen nothing."""

    def others(self):
        return 0.0

    def is_busy(self):
        return False


def test_wrong_method_is_told_and_fails_the_run(tmp_path, few_methods, capsys):
    few_methods["spoilt"] = spoilt("elu", lambda output: output + 1)
    assert run(tmp_path, "--shrink", "512", "--only", "times") == 1
    assert "Wrong: spoilt, bidirectional, N = 2: output differs" in capsys.readouterr().err
    record = read(tmp_path / "cpu-quick.json")
    assert "spoilt" not in {entry["method"] for entry in record["times"]}
    assert "spoilt" in {entry["method"] for entry in record["skipped"]}


def test_gpu_is_refused_where_there_is_none(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        program.main(["--device", "cuda"])
    assert "PyTorch finds no GPU here" in capsys.readouterr().err


def test_short_run_never_replaces_a_full_one(tmp_path):
    for arguments, name in (
        ([], "cpu.json"),
        (["--quick"], "cpu-quick.json"),
        (["--shrink", "8"], "cpu-quick.json"),
        (["--only", "targets"], "cpu-quick.json"),
    ):
        given = program._arguments([*arguments, "--output", str(tmp_path)])
        assert program._file(given, program._settings(given)) == tmp_path / name
