"""``python -m gma_ref.models.training``: alone, and shared by two processes."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
import torch

from gma_ref.models import training
from gma_ref.models.state import read_tensors
from gma_ref.models.trainer import Trainer
from gma_ref.models.workers import Workers, joined
from tests.examples import readme_example

SMALL = (
    "--task recall --task-options num_pairs 2 vocabulary_size 64 --length 16 --mixer gma --num-layers 1 --d-model 16 "
    "--num-heads 2 --num-components 4 --steps 6 --batch 8 --evaluate-every 3 --evaluation-tokens 320 --final-tokens 320"
).split()


def test_program_writes_a_log_and_weights_and_says_so(tmp_path, capsys):
    assert training.main([*SMALL, "--output", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "recall-gma-n16-s0: " in printed
    assert "6 steps, 768 tokens" in printed
    assert "validation " in printed
    assert "accuracy" in printed
    log = json.loads((tmp_path / "run" / "log.json").read_text(encoding="utf-8"))
    assert log["command"].split()[3:] == SMALL
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "log.json",
        "model.safetensors",
        "state.safetensors",
    ]


def test_result_is_printed_whatever_the_terminal_can_show(tmp_path, monkeypatch):
    """The C locale knows ASCII alone: no ±, and no folder named by a letter beyond it."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", printed)
    assert training.main([*SMALL, "--steps", "1", "--output", str(tmp_path / "größe")]) == 0
    printed.seek(0)
    assert re.search(
        r"^validation 0\.\d{4} \? 0\.\d{4} accuracy\n.*Written to .*gr\?\?e$", printed.read(), re.MULTILINE
    )


def test_help_explains_every_option(capsys):
    with pytest.raises(SystemExit) as ended:
        training.main(["--help"])
    assert ended.value.code == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for option in ("--task", "--mixer", "--minutes", "--lr", "--seed", "--output", "--device", "--num-components"):
        assert option in printed
    assert "A run that was stopped goes on when the same command is given again." in printed
    assert "softmax attention, GMA, linear attention (elu + 1), FAVOR+, or Mamba" in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--task", "wikitext", "--task-options", "folder", "nowhere"], "folder must hold wiki.train.tokens"),
        (["--length", "23"], "length must be even and at least 4 × 2 (num_pairs), got 23"),
        (["--mixer-options", "no_such_option", "1"], "no_such_option"),
        (["--task-options", "no_such_task_option", "1"], "no_such_task_option"),
        (["--threads", "0"], "threads must be at least 1, got 0"),
        (["--device", "abacus"], "device must be one that PyTorch finds, got 'abacus'; on this machine try 'cpu'"),
        (["--device", "meta"], "device must be one that PyTorch finds, got 'meta'; on this machine try 'cpu'"),
        (["--seed", str(2**64)], f"seed must be below 2**64, got {2**64}"),
        (["--lr", "-1.0"], "lr must be positive and finite, got -1.0"),
        (["--batch", "8", "--accumulation", "3"], "batch must be a multiple of accumulation × processes = 3, got 8"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(tmp_path, capsys, options, said):
    assert training.main([*SMALL, "--output", str(tmp_path), *options]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_folder_that_cannot_be_written_to_is_refused_before_training(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Trainer, "run", lambda *_: pytest.fail("it trains first"))
    (tmp_path / "file").write_text("", encoding="utf-8")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        assert training.main([*SMALL, "--output", str(folder)]) == 2
        assert capsys.readouterr().err.startswith("Refused: [Errno ")


def test_what_is_no_option_ends_the_program(capsys):
    with pytest.raises(SystemExit) as ended:
        training.main(["--mixer", "convolution"])
    assert ended.value.code == 2
    assert "softmax" in capsys.readouterr().err


def test_diverged_run_ends_with_status_1(tmp_path, capsys, monkeypatch):
    def diverge(*_, **__):
        raise training.NonFiniteError("loss must be finite, got loss nan")

    monkeypatch.setattr(training, "train", diverge)
    assert training.main([*SMALL, "--output", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "Stopped: loss must be finite, got loss nan.\n"


def test_interrupted_run_says_how_it_goes_on(tmp_path, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", interrupt)
    assert training.main([*SMALL, "--output", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "Interrupted; the same command goes on from the last evaluation.\n"


def test_alone_there_is_one_worker(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined(torch.device("cpu")) as workers:
        assert workers == Workers(0, 1)
        assert workers.is_first
        assert workers.add(torch.tensor(3.0)) == 3


@pytest.mark.slow
def test_two_processes_train_as_one_does(tmp_path):
    """``torchrun`` with gloo: the same batches, shared, give the same weights but for the order of sums."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = ["-m", "gma_ref.models.training", *SMALL, "--accumulation", "2", "--output", str(tmp_path / "two")]
    done = subprocess.run([*start, *program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("recall-gma-n16-s0: ") == 1  # one of them speaks
    assert training.main([*SMALL, "--output", str(tmp_path / "one")]) == 0
    one, two = (read_tensors(tmp_path / name / "model.safetensors")[0] for name in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=1e-5)
    logs = [json.loads((tmp_path / name / "log.json").read_text(encoding="utf-8")) for name in ("one", "two")]
    assert [log["provenance"]["processes"] for log in logs] == [1, 2]
    for key in ("step", "tokens", "best_step"):
        assert logs[0]["result"][key] == logs[1]["result"][key]
    scores = [log["result"]["validation"] for log in logs]
    assert scores[0]["sequences"] == scores[1]["sequences"] == 20
    assert scores[0]["loss"] == pytest.approx(scores[1]["loss"], rel=1e-4)


def test_example_of_the_readme_trains_and_continues_a_text(capsys):
    example = readme_example(2)
    assert "minutes=1" in example
    short = "steps=2, batch=2, length=16, num_layers=1, evaluation_tokens=64, final_tokens=64"
    exec(example.replace("minutes=1", short), {})
    score, text = capsys.readouterr().out.split("\n", 1)
    assert "bits per character" in score
    assert len(text) == 200 + len("\n")
