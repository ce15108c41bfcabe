"""The trained models of the book: small enough to come with the package, each with a card that says where it is from.

>>> from gma_ref.models import checkpoints
>>> model = checkpoints.load("shakespeare-gma")  # doctest: +SKIP

``python -m gma_ref.models.checkpoints NAME RUN`` makes one from the folder of a finished run.
"""

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save as to_bytes
from torch import nn

from .config import Config
from .evaluation import evaluate
from .settings import Settings
from .state import fill, read_tensors, snapshot, write_text, write_whole
from .tasks import make_task
from .transformer import Transformer
from .workers import say

__all__ = ["LARGEST", "available", "card", "load", "main", "publish", "save", "score"]

LARGEST = 1_500_000  # bytes
_FOLDER = Path(__file__).parent / "trained"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def available(folder=None) -> list[str]:
    """Return the names of the models that are there."""
    return sorted(path.stem for path in _folder(folder).glob("*.safetensors"))


def card(name: str, folder=None) -> dict:
    """Return what is known of a model: command, commit, seed, settings, configuration, metrics.

    Raises
    ------
    ValueError
        If there is no such model, and then the message lists those that there are; or if its card is damaged.
    """
    there = available(folder)
    if name not in there:
        wanted = f"one of {', '.join(map(repr, there))}" if there else "that of a checkpoint, and there is none yet"
        raise ValueError(f"name must be {wanted}, got {name!r}")
    return _read(_folder(folder) / f"{name}.json", "model", "metrics")


def load(name: str, folder=None, *, device="cpu") -> nn.Module:
    """Return a trained model in float32, ready to be used: without dropout.

    Parameters
    ----------
    name : str
        One of `available`.
    folder : path-like, optional
        Instead of that of the package.
    device : device

    Raises
    ------
    ValueError
        If there is no such model, or one of its two files is damaged or belongs to another model.
    """
    model = Transformer(_made(Config, card(name, folder)["model"], f"{name}.json"))
    tensors, _ = read_tensors(_folder(folder) / f"{name}.safetensors")
    fill(model, tensors, f"{name}.safetensors")
    return model.to(device).eval()


def save(name: str, model: nn.Module, *, command: str, metrics: dict, folder=None, **more) -> None:
    """Write a model in float16 with its card, if it is small enough.

    The metrics should be those of the rounded weights; `publish` sees to that.

    Parameters
    ----------
    name : str
        Small letters, figures and hyphens.
    model : Transformer
    command : str
        That has trained it.
    metrics : dict
        Results of `score`, by the part of the data.
    folder : path-like, optional
        Instead of that of the package.
    **more
        What else the card is to say: commit, seed, settings, provenance.

    Raises
    ------
    ValueError
        If the file would be larger than 1.5 MB, or a weight is not finite in float16. Nothing is written then.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name must be small letters and figures joined by hyphens, got {name!r}")
    tensors = {key: value.half() if value.is_floating_point() else value for key, value in snapshot(model).items()}
    for key, value in tensors.items():
        if not torch.isfinite(value).all():
            raise ValueError(f"model must be finite in float16, which {key} is not")
    content = to_bytes(tensors)
    if len(content) > LARGEST:
        raise ValueError(f"model must take at most {LARGEST:,} bytes in float16, got {len(content):,}")
    about = {"name": name, "command": command, "model": asdict(model.config)}
    write_text(_folder(folder) / f"{name}.json", _json(about | {"metrics": metrics} | more))
    write_whole(_folder(folder) / f"{name}.safetensors", content)


def publish(name: str, run_folder, folder=None, *, tokens: int | None = 262_144, parts=("validation",)) -> dict:
    """Make a checkpoint from a finished run: round its weights, evaluate them as rounded, write both.

    Parameters
    ----------
    name : str
        Of the checkpoint.
    run_folder : path-like
        That `train` has filled: ``log.json`` and ``model.safetensors``.
    folder : path-like, optional
        Where the checkpoint goes, instead of the package.
    tokens : int, optional
        Of the evaluation; None for the whole part.
    parts : sequence of str
        What is evaluated.

    Returns
    -------
    dict
        The card.

    Raises
    ------
    FileNotFoundError
        If the folder lacks one of the two files.
    ValueError
        If the run has not finished, if its files are damaged or do not fit each other, or as for `save`.
    """
    run_folder = Path(run_folder)
    log = _read(run_folder / "log.json", "command", "settings", "model", "parameters", "provenance", "result")
    if log["result"] is None:
        raise ValueError(f"run_folder must hold a finished run, got {run_folder}")
    model = Transformer(_made(Config, log["model"], "log.json"))
    tensors, _ = read_tensors(run_folder / "model.safetensors")
    rounded = {key: value.half() if value.is_floating_point() else value for key, value in tensors.items()}
    fill(model, rounded, "model.safetensors")
    settings = _made(Settings, log["settings"], "log.json")
    task = make_task(settings.task, **settings.task_options)
    length = settings.length or task.default_length
    metrics = {part: score(model, task, part, length, tokens) for part in parts}
    about = {key: log[key] for key in ("command", "settings", "parameters", "provenance", "result")}
    about |= {"commit": log["provenance"]["commit"], "seed": settings.seed}
    save(name, model, metrics=metrics, folder=folder, **about)
    return card(name, folder)


def score(model: nn.Module, task, part: str, length: int, tokens: int | None) -> dict:
    """Evaluate a model as the cards have it.

    Parameters
    ----------
    model : Transformer
    task : Task
    part : str
        ``"validation"`` or ``"test"``.
    length : int
        Tokens of a sequence.
    tokens : int or None
        At most this many, taken evenly from the part; None for all.

    Returns
    -------
    dict
        That of `gma_ref.models.evaluation.evaluate`, with ``length`` and ``tokens``, so that it can be repeated.
    """
    result = evaluate(model, task.evaluation(part, length, limit=tokens), task.unit)
    return result | {"length": length, "tokens": tokens}


def _folder(folder):
    return _FOLDER if folder is None else Path(folder)


def _read(path, *names):
    """Read a JSON file that must have some names."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # among them those of the encoding
        raise ValueError(f"{path.name} must be a whole JSON file: {error}") from error
    if not isinstance(found, dict) or not found.keys() >= set(names):
        raise ValueError(f"{path.name} must have {', '.join(names)}")
    return found


def _made(kind, options, name):
    """Make a configuration or settings from what the file `name` says."""
    try:
        return kind(**options)
    except TypeError as error:  # an option that there is not, or one of another kind
        raise ValueError(f"{name} must have options of this version's {kind.__name__}: {error}") from error


def _json(value):
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def main(arguments=None) -> int:
    """Publish a run as the command line says; return the exit status: 2 if it cannot be done."""
    import tyro

    def checkpoints(name: str, run: Path, tokens: int | None = 262_144, test: bool = False):
        """Make a checkpoint of the package from the folder of a finished run.

        Args:
            name: Of the checkpoint, such as shakespeare-gma.
            run: The folder, with log.json and model.safetensors.
            tokens: Of the evaluation that goes onto the card; None for all.
            test: Whether the card has the test part too.
        """
        return publish(name, run, tokens=tokens, parts=("validation", "test") if test else ("validation",))

    try:
        prog, config = "python -m gma_ref.models.checkpoints", [tyro.conf.PositionalRequiredArgs]
        about = tyro.cli(checkpoints, prog=prog, args=arguments, config=config)
    except (ValueError, OSError) as error:
        print(f"Refused: {error}", file=sys.stderr)
        return 2
    for part, metric in about["metrics"].items():
        say(f"{about['name']}: {part} {metric['score']:.4f} ± {metric['standard_error']:.4f} {metric['unit']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
