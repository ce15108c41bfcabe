"""Lists of runs: each is done once, its log is kept, and learning rates come from the tuning."""

import json

import pytest

from gma_ref.models import experiments, training
from gma_ref.models.grids import EXPERIMENTS, Grid
from gma_ref.models.settings import Settings

SMALL = {
    "task": "recall", "task_options": {"num_pairs": 2, "vocabulary_size": 64}, "length": 16, "num_layers": 1,
    "d_model": 16, "num_heads": 2, "num_components": 4, "steps": 2, "batch": 4, "evaluate_every": 2,
    "evaluation_tokens": 64, "final_tokens": 64,
}  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    """Put a tuning of two mixers and an experiment that uses it in the place of the book's."""
    chosen = {
        "rates": [Grid(SMALL, {"mixer": ("softmax", "gma"), "lr": (1e-3, 1e-2)})],
        "tuned": [Grid(SMALL, {"mixer": ("softmax", "gma"), "seed": (1, 2)}, tuned_by="rates")],
    }
    monkeypatch.setattr(experiments, "EXPERIMENTS", chosen)


def test_grid_is_every_combination():
    grid = Grid({"steps": 5}, {"mixer, num_components": (("gma", 8), ("softmax", 64)), "seed": (1, 2)})
    assert grid.runs() == [
        Settings(steps=5, mixer=mixer, num_components=count, seed=seed)
        for mixer, count in (("gma", 8), ("softmax", 64))
        for seed in (1, 2)
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_of_the_book_are_valid_and_name_their_runs_apart(name):
    runs = [settings for grid in EXPERIMENTS[name] for settings in grid.runs()]
    names = [experiments.log_name(settings) for settings in runs]
    assert len(set(names)) == len(names) >= 4
    assert all(grid.tuned_by is None or grid.tuned_by in EXPERIMENTS for grid in EXPERIMENTS[name])


def test_every_mixer_is_tuned_with_the_same_rates_and_trials():
    for name in (name for name in EXPERIMENTS if name.endswith("-rates")):
        rates = {}
        for grid in EXPERIMENTS[name]:
            for settings in grid.runs():
                rates.setdefault(settings.mixer, []).append((settings.lr, settings.seed))
        assert len({tuple(trials) for trials in rates.values()}) == 1
        assert len(rates) >= 4


EXPLORED = ("language-ablation", "language-ingredients")  # by the validation part, and compared with nothing else
FINAL = [name for name in EXPERIMENTS if name.startswith("language") and not name.endswith("-rates")]
FINAL = [name for name in FINAL if name not in EXPLORED]


@pytest.mark.parametrize("name", FINAL)
def test_mixers_differ_in_nothing_else(name):
    """Parameters, tokens, schedule, ingredients and seeds are the same; Mamba alone has nothing to normalise."""
    (grid,) = EXPERIMENTS[name]
    common = {}
    for settings in grid.runs():
        given = settings.as_dict()
        mixer, seed = given.pop("mixer"), given.pop("seed")
        assert given.pop("qk_norm") == (mixer != "mamba" and name != "language-bare")
        common.setdefault(mixer, []).append((seed, given))
    first, *others = common.values()
    assert len(first) >= 3
    assert all(other == first for other in others)
    (_, given) = first[0]
    assert given["parameters"]
    assert given["batch"] * given["length"] * given["steps"] == 16 * 128 * 1000


@pytest.mark.parametrize("name", FINAL)
def test_the_test_part_and_the_final_seeds_have_no_part_in_the_tuning(name):
    (grid,) = EXPERIMENTS[name]
    final, tuning = grid.runs(), [run for tuned in EXPERIMENTS[grid.tuned_by] for run in tuned.runs()]
    assert all(run.test for run in final)
    assert not any(run.test for run in tuning)
    assert not {run.seed for run in final} & {run.seed for run in tuning}
    assert {run.mixer for run in final} <= {run.mixer for run in tuning}
    # what is tuned is what is trained, but for the length
    ignored = {"lr", "seed", "test", "batch", "length"}
    for run in final:
        alike = {key: value for key, value in run.as_dict().items() if key not in ignored}
        assert any(alike.items() <= trial.as_dict().items() for trial in tuning if trial.mixer == run.mixer)


def test_runs_are_done_once_and_logged(tmp_path, small, monkeypatch, capsys):
    folders = {"folder": tmp_path / "logs", "work": tmp_path / "work"}
    assert experiments.carry_out("rates", **folders) == 0
    logs = experiments.logs("rates", tmp_path / "logs")
    assert len(logs) == 4
    assert {(log["settings"]["mixer"], log["settings"]["lr"]) for log in logs} == {
        (mixer, lr) for mixer in ("softmax", "gma") for lr in (1e-3, 1e-2)
    }
    assert str(tmp_path) not in json.dumps(logs)
    monkeypatch.setattr(training, "train", lambda *_, **__: pytest.fail("it was trained again"))
    assert experiments.carry_out("rates", **folders) == 0
    assert all(experiments.is_done("rates", settings, tmp_path / "logs") for settings in experiments.runs_of("rates"))


def write_log(folder, settings, score, unit="accuracy"):
    log = {"settings": settings.as_dict(), "result": {"validation": {"score": score, "unit": unit}}}
    path = folder / "rates" / f"{experiments.log_name(settings)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(log), encoding="utf-8")


@pytest.mark.parametrize(
    ("unit", "best"),
    [("accuracy", {"softmax": 1e-2, "gma": 1e-3}), ("bits per character", {"softmax": 1e-3, "gma": 1e-2})],
)
def test_each_mixer_takes_its_own_best_rate(tmp_path, small, unit, best):
    scores = {("softmax", 1e-3): 0.2, ("softmax", 1e-2): 0.6, ("gma", 1e-3): 0.9, ("gma", 1e-2): 0.8}
    for settings in experiments.runs_of("rates"):
        write_log(tmp_path, settings, scores[settings.mixer, settings.lr], unit)
    runs = experiments.runs_of("tuned", tmp_path)
    assert [(run.mixer, run.seed, run.lr) for run in runs] == [
        (mixer, seed, best[mixer]) for mixer in ("softmax", "gma") for seed in (1, 2)
    ]


def test_without_its_tuning_an_experiment_says_what_to_do(tmp_path, small):
    with pytest.raises(FileNotFoundError, match=r"^no run of 'rates' has .*'mixer': 'softmax'.*; carry out that exp"):
        experiments.carry_out("tuned", folder=tmp_path)


def test_half_a_tuning_chooses_no_rate(tmp_path, small):
    """Else a tuning that was cut short would give the mixers unequal numbers of trials, and nobody would know."""
    runs = experiments.runs_of("rates")
    for settings in runs[:-1]:
        write_log(tmp_path, settings, 0.5)
    with pytest.raises(FileNotFoundError, match=r"^only 1 of 2 runs of 'rates' with .*'mixer': 'gma'.* have ended; "):
        experiments.runs_of("tuned", tmp_path)
    path = tmp_path / "rates" / f"{experiments.log_name(runs[-1])}.json"
    diverged = {"settings": runs[-1].as_dict(), "result": {"stopped": "loss must be finite", "validation": None}}
    path.write_text(json.dumps(diverged), encoding="utf-8")  # a trial too
    assert {run.lr for run in experiments.runs_of("tuned", tmp_path) if run.mixer == "gma"} == {1e-3}
    first = tmp_path / "rates" / f"{experiments.log_name(runs[-2])}.json"
    first.write_text(json.dumps(diverged | {"settings": runs[-2].as_dict()}), encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"^no run of 'rates' with .* stayed finite; give it lower rates$"):
        experiments.runs_of("tuned", tmp_path)


def test_log_of_other_settings_does_not_count(tmp_path, small):
    (first, *_) = experiments.runs_of("rates")
    write_log(tmp_path, first, 0.5)
    assert experiments.is_done("rates", first, tmp_path)
    path = tmp_path / "rates" / f"{experiments.log_name(first)}.json"
    log = json.loads(path.read_text(encoding="utf-8"))
    for changed in ({"weight_decay": 0.3}, {"given_up": 1}):  # a default, an option, that has been changed since
        path.write_text(json.dumps(log | {"settings": log["settings"] | changed}), encoding="utf-8")
        assert not experiments.is_done("rates", first, tmp_path)


def test_log_of_a_run_that_the_experiment_no_longer_has_is_left_alone(tmp_path, small):
    first, other = experiments.runs_of("rates")[:2]
    write_log(tmp_path, other, 0.5)
    write_log(tmp_path, first, 0.25)
    write_log(tmp_path, Settings(**first.as_dict() | {"lr": 1.0}), 1.0)
    read = [log["settings"]["lr"] for log in experiments.logs("rates", tmp_path)]
    assert read == [first.lr, other.lr]
    assert experiments.best_rate(first, experiments.EXPERIMENTS["tuned"][0], tmp_path) == other.lr


def test_diverged_run_is_a_finding_and_a_missing_library_is_not(tmp_path, small, monkeypatch, capsys):
    def fail(settings, *_, **__):
        if settings.mixer == "gma":
            raise ModuleNotFoundError("mixer needs a library: pip install something")
        error = training.NonFiniteError("loss must be finite, got loss nan")
        error.log = {"settings": settings.as_dict(), "result": {"stopped": str(error), "validation": None}}
        raise error

    monkeypatch.setattr(training, "train", fail)
    assert experiments.carry_out("rates", folder=tmp_path, work=tmp_path / "work") == 2
    printed = capsys.readouterr().out
    assert printed.count("left out: mixer needs a library") == 2
    assert [log["result"]["stopped"] for log in experiments.logs("rates", tmp_path)] == [
        "loss must be finite, got loss nan"
    ] * 2
    with pytest.raises(FileNotFoundError):
        experiments.runs_of("tuned", tmp_path)


def test_no_run_is_begun_after_the_time_is_up(tmp_path, small, monkeypatch):
    monkeypatch.setattr(training, "train", lambda *_, **__: pytest.fail("it was begun"))
    assert experiments.carry_out("rates", folder=tmp_path, minutes=-1.0) == 4


def test_interrupted_program_says_how_it_goes_on(small, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "carry_out", interrupt)
    assert experiments.main(["rates"]) == 130
    assert capsys.readouterr().err == "Interrupted; the same command goes on from the last evaluation.\n"


def test_program_lists_runs_and_refuses_what_there_is_not(small, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(experiments, "LOGS", tmp_path)
    assert experiments.main([]) == 0
    printed = capsys.readouterr().out
    assert "rates: 0 of 4 runs are done" in printed
    assert "tuned: no run of 'rates'" in printed
    assert experiments.main(["rates", "--work", str(tmp_path / "work")]) == 0
    assert "rates: all runs are done" in capsys.readouterr().out
    assert experiments.main(["rates", "--show"]) == 0
    assert capsys.readouterr().out.count("  done  python -m gma_ref.models.training --task recall") == 4
    assert experiments.main(["nothing"]) == 2
    assert "experiment must be one of 'rates', 'tuned', got 'nothing'" in capsys.readouterr().err
    assert experiments.main(["rates", "--threads", "0"]) == 2
    assert capsys.readouterr().err == "Refused: threads must be at least 1, got 0\n"


@pytest.mark.parametrize("name", EXPLORED)
def test_what_is_only_explored_leaves_the_test_part_alone(name):
    runs = [run for grid in EXPERIMENTS[name] for run in grid.runs()]
    assert not any(run.test for run in runs)
    assert {run.parameters for run in runs} == {650_000}
