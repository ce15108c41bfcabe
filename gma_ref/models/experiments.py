"""Run a list of trainings: ``python -m gma_ref.models.experiments language``. Finished ones are skipped.

The log of every run is one JSON file beside the package's others, to be committed; what was begun goes on where it
stopped.
"""

import hashlib
import json
import time
from pathlib import Path

from .grids import EXPERIMENTS, Grid
from .settings import Settings

__all__ = ["best_rate", "carry_out", "is_done", "log_name", "logs", "main", "runs_of"]

LOGS = Path(__file__).parent / "logs"


def logs(experiment: str, folder=None) -> list[dict]:
    """Return the logs of an experiment that are there, by name.

    Parameters
    ----------
    experiment : str
        Its folder among the logs.
    folder : path-like, optional
        Where the logs are, instead of the package.
    """
    paths = sorted((Path(folder or LOGS) / experiment).glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def log_name(settings: Settings) -> str:
    """Return the name of a run's log: what is compared most often, and a few letters that follow from all settings."""
    text = json.dumps(settings.as_dict(), sort_keys=True)
    return f"{settings.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def best_rate(settings: Settings, grid: Grid, folder=None) -> float:
    """Return the learning rate with which runs alike did best on the validation part of the tuning experiment.

    Raises
    ------
    FileNotFoundError
        If there is no log of such a run.
    """
    wanted = {name: getattr(settings, name) for name in grid.alike}
    alike = [
        log
        for log in logs(grid.tuned_by, folder)
        if log["result"] is not None and all(log["settings"][name] == value for name, value in wanted.items())
    ]
    if not alike:
        raise FileNotFoundError(f"no run of {grid.tuned_by!r} has {wanted}; carry out that experiment first")
    by_rate = {}
    for log in alike:
        by_rate.setdefault(log["settings"]["lr"], []).append(log["result"]["validation"]["score"])
    means = {rate: sum(scores) / len(scores) for rate, scores in by_rate.items()}
    choose = max if alike[0]["result"]["validation"]["unit"] == "accuracy" else min
    return choose(means, key=means.get)


def runs_of(experiment: str, folder=None) -> list[Settings]:
    """Return the settings of every run of an experiment, with learning rates from its tuning.

    Raises
    ------
    ValueError
        If there is no such experiment.
    """
    if experiment not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(map(repr, EXPERIMENTS))}, got {experiment!r}")
    found = []
    for grid in EXPERIMENTS[experiment]:
        for settings in grid.runs():
            if grid.tuned_by is not None:
                settings = Settings(**settings.as_dict() | {"lr": best_rate(settings, grid, folder)})
            found.append(settings)
    return found


def is_done(experiment: str, settings: Settings, folder=None) -> bool:
    """Say whether the log of a finished run is there."""
    path = Path(folder or LOGS) / experiment / f"{log_name(settings)}.json"
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["result"] is not None


def carry_out(experiment: str, *, folder=None, work=Path("runs"), minutes=None, device="auto", progress=None) -> int:
    """Train what is not done yet; return how many runs are left.

    A run whose loss is not finite gets a log too, with the reason as its ``result["stopped"]`` and no scores: a
    learning rate that is too high is a finding. One that lacks an optional library is named and left.

    Parameters
    ----------
    experiment : str
    folder : path-like, optional
        Where the logs go, instead of the package.
    work : path-like
        Where states and weights go.
    minutes : float, optional
        Begin no run after this time.
    device, progress
        As for `gma_ref.models.training.train`.
    """
    from .state import write_text
    from .training import train

    started = time.monotonic()
    pending = [settings for settings in runs_of(experiment, folder) if not is_done(experiment, settings, folder)]
    left = len(pending)
    for number, settings in enumerate(pending, 1):
        if minutes is not None and time.monotonic() - started > 60 * minutes:
            break
        name = log_name(settings)
        print(f"[{number}/{len(pending)}] {settings.command()}", flush=True)
        try:
            log = train(settings, Path(work) / experiment / name, device=device, progress=progress).log
        except ModuleNotFoundError as missing:
            print(f"left out: {missing}", flush=True)
            continue
        write_text(Path(folder or LOGS) / experiment / f"{name}.json", json.dumps(log, allow_nan=False) + "\n")
        left -= 1
    return left
