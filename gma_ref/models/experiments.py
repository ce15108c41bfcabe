"""Run a list of trainings: ``python -m gma_ref.models.experiments language``. Finished ones are skipped.

The log of every run is one JSON file beside the package's others, to be committed; what was begun goes on where it
stopped.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

from .grids import EXPERIMENTS, Grid
from .settings import Settings

__all__ = ["best_rate", "carry_out", "is_done", "log_name", "logs", "main", "runs_of"]

LOGS = Path(__file__).parent / "logs"


def logs(experiment: str, folder=None) -> list[dict]:
    """Return the logs of an experiment that are there, in the order of its runs.

    What else lies in its folder, such as the log of a run that the experiment no longer has, is left alone.

    Parameters
    ----------
    experiment : str
    folder : path-like, optional
        Where the logs are, instead of the package.

    Returns
    -------
    list of dict
        As `gma_ref.models.training.train` makes them; none if the experiment has no logs yet.

    Raises
    ------
    FileNotFoundError
        If the learning rates of its runs follow from a tuning that has no logs.
    """
    paths = [_path(experiment, settings, folder) for settings in runs_of(experiment, folder)]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def _path(experiment, settings, folder):
    """Return where the log of a run is kept."""
    return Path(folder or LOGS) / experiment / f"{log_name(settings)}.json"


def log_name(settings: Settings) -> str:
    """Return the name of a run's log: what is compared most often, and letters that follow from its command."""
    return f"{settings.name}-{hashlib.sha256(settings.command().encode()).hexdigest()[:8]}"


def best_rate(settings: Settings, grid: Grid, folder=None) -> float:
    """Return the learning rate with which runs alike did best on the validation part of the tuning experiment.

    Parameters
    ----------
    settings : Settings
        Of the run that wants a learning rate.
    grid : Grid
        Says by which experiment it is tuned, and which settings must be the same there.
    folder : path-like, optional
        Where the logs are, instead of the package.

    Raises
    ------
    FileNotFoundError
        If the log of such a run is missing, even if others are there: every mixer has as many trials.
    """
    wanted = {name: getattr(settings, name) for name in grid.alike}
    trials = [run for run in runs_of(grid.tuned_by, folder) if all(getattr(run, key) == wanted[key] for key in wanted)]
    paths = [_path(grid.tuned_by, trial, folder) for trial in trials]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    ended = [log for log in found if log["result"]]
    if not ended:
        raise FileNotFoundError(f"no run of {grid.tuned_by!r} has {wanted}; carry out that experiment first")
    if len(ended) < len(trials):
        count = f"{len(ended)} of {len(trials)} runs"
        raise FileNotFoundError(f"only {count} of {grid.tuned_by!r} with {wanted} have ended; carry them out first")
    scored = [log for log in ended if log["result"]["validation"]]
    if not scored:
        raise FileNotFoundError(f"no run of {grid.tuned_by!r} with {wanted} stayed finite; give it lower rates")
    by_rate = {}
    for log in scored:
        by_rate.setdefault(log["settings"]["lr"], []).append(log["result"]["validation"]["score"])
    means = {rate: sum(scores) / len(scores) for rate, scores in by_rate.items()}
    choose = max if scored[0]["result"]["validation"]["unit"] == "accuracy" else min
    return choose(means, key=means.get)


def runs_of(experiment: str, folder=None) -> list[Settings]:
    """Return the settings of every run of an experiment, with learning rates from its tuning.

    Parameters
    ----------
    experiment : str
        One of `gma_ref.models.grids.EXPERIMENTS`.
    folder : path-like, optional
        Where the logs of the tuning are, instead of the package.

    Raises
    ------
    ValueError
        If there is no such experiment.
    FileNotFoundError
        If a log of its tuning is missing.
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
    """Say whether the log of a finished run with these very settings is there."""
    path = _path(experiment, settings, folder)
    if not path.is_file():
        return False
    log = json.loads(path.read_text(encoding="utf-8"))
    if log["result"] is None or not log["settings"].keys() <= settings.as_dict().keys():  # an option that is no more
        return False
    return Settings(**log["settings"]) == settings


def carry_out(experiment: str, *, folder=None, work="runs", minutes=None, device="auto", progress=None) -> int:
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

    Returns
    -------
    int
        How many runs have no log of an end yet.

    Raises
    ------
    ValueError, FileNotFoundError
        As `runs_of`.
    """
    from .state import write_text
    from .training import NonFiniteError, train

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
        except NonFiniteError as error:
            print(f"stopped: {error}", flush=True)
            log = error.log
        except ModuleNotFoundError as missing:
            print(f"left out: {missing}", flush=True)
            continue
        write_text(_path(experiment, settings, folder), json.dumps(log, allow_nan=False) + "\n")
        left -= 1
    return left


def main(arguments=None) -> int:
    """Carry out experiments as the command line says.

    The exit status is 2 if it cannot be done, 130 if it was interrupted.
    """
    import tyro

    from .workers import use_threads

    def experiments(
        names: tyro.conf.Positional[tuple[str, ...]] = (),
        show: bool = False,
        minutes: float | None = None,
        work: Path = Path("runs"),
        device: str = "auto",
        threads: int | None = None,
    ):
        """Train what the named experiments still lack, one run after the other.

        Args:
            names: Experiments; without names those that there are get listed.
            show: List the runs, with what is done, instead of training.
            minutes: Begin no run after this time; the same command goes on later.
            work: Folder of states and weights; logs go into the package.
            device: cpu, cuda, or auto for the GPU if there is one.
            threads: Threads of PyTorch; by default its own choice.
        """
        use_threads(threads)
        started = time.monotonic()
        for name in names or EXPERIMENTS:
            if show or not names:
                _list(name)
                continue
            rest = None if minutes is None else max(0.0, minutes - (time.monotonic() - started) / 60)
            left = carry_out(name, work=work, minutes=rest, device=device)
            print(f"{name}: {f'{left} runs are left' if left else 'all runs are done'}")

    try:
        tyro.cli(experiments, prog="python -m gma_ref.models.experiments", args=arguments)
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on from the last evaluation.", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        print(f"Refused: {error}", file=sys.stderr)
        return 2
    return 0


def _list(name):
    """Print the runs of an experiment, with what is done."""
    try:
        found = runs_of(name)
    except FileNotFoundError as error:
        print(f"{name}: {error}")
        return
    done = [is_done(name, settings) for settings in found]
    print(f"{name}: {sum(done)} of {len(done)} runs are done")
    for settings, is_there in zip(found, done, strict=True):
        print(f"  {'done' if is_there else '    '}  {settings.command()}")


if __name__ == "__main__":
    sys.exit(main())
