"""The state of a run in one file: weights, optimiser and progress, written whole or not at all, and without pickle.

Nothing that draws random numbers is kept: what a step draws follows from the seed and the number of the step.
"""

import json
import os
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

__all__ = [
    "check_folder",
    "fill",
    "read_progress",
    "read_tensors",
    "restore",
    "snapshot",
    "step_seed",
    "store",
    "write_text",
    "write_whole",
]


def step_seed(*numbers: int) -> int:
    """Return a seed that follows from some numbers, as different for 0 and 1 as for any two."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def check_folder(folder: Path) -> None:
    """Make a folder and see that a file can be written there, at once and not after minutes of training.

    Raises
    ------
    OSError
        If it cannot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder):
        pass


def write_whole(path, content: bytes) -> None:
    """Write a file such that at every moment it is the old one or the new one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # else the name may be there before the content, after a power cut
    os.replace(unfinished, path)


def write_text(path, text: str) -> None:
    """Write a text such that at every moment its file is the old one or the new one."""
    write_whole(path, text.encode())


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """Return copies of a model's weights, on the CPU; weights that are tied become two."""
    return {name: value.detach().to("cpu", copy=True).contiguous() for name, value in model.state_dict().items()}


def store(path, model: nn.Module, optimizer, best: dict[str, Tensor], progress: dict) -> None:
    """Write the state of a run.

    Parameters
    ----------
    path : path-like
    model, optimizer
        Whose state is written.
    best : dict
        The weights of the best evaluation so far.
    progress : dict
        What else is to be known, as JSON has it.
    """
    tensors = {f"model/{name}": value for name, value in snapshot(model).items()}
    tensors |= {f"best/{name}": value for name, value in best.items()}
    for number, entries in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{name}": value.detach().cpu().contiguous() for name, value in entries.items()}
    write_whole(path, save(tensors, metadata={"progress": json.dumps(progress)}))


def read_progress(path) -> dict:
    """Read what `store` was given as the progress.

    Raises
    ------
    ValueError
        If the file is not whole, or holds something else.
    """
    _, metadata = read_tensors(path)
    if "progress" not in metadata:
        raise ValueError(f"{Path(path).name} must hold the state of a run, got other tensors")
    return json.loads(metadata["progress"])


def restore(path, model: nn.Module, optimizer) -> dict[str, Tensor]:
    """Put model and optimiser into the state that a file holds; return the best weights.

    Raises
    ------
    ValueError
        If the file is not whole, or the state is that of another model.
    """
    tensors, _ = read_tensors(path)
    parts = {"model": {}, "best": {}, "optimizer": {}}
    for name, value in tensors.items():
        part, _, name = name.partition("/")
        parts[part][name] = value
    moments = {}
    for name, value in parts["optimizer"].items():
        number, _, entry = name.partition("/")
        moments.setdefault(int(number), {})[entry] = value
    fill(model, parts["model"], Path(path).name)
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return parts["best"]


def fill(model: nn.Module, tensors: dict[str, Tensor], name: str) -> None:
    """Give a model its weights, in its own dtypes.

    Raises
    ------
    ValueError
        If they are those of another model; the message has the `name` of their file.
    """
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{name} must hold the weights of this very model, which it does not") from error


def read_tensors(path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read all tensors of a file and its metadata.

    Raises
    ------
    ValueError
        If the file is not whole.
    """
    try:
        with safe_open(path, framework="pt") as file:
            # copies: a view of the mapped file would change with it, and Windows would not let it be replaced
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except Exception as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{Path(path).name} must be a whole safetensors file: {error}") from error
