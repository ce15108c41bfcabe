"""One process or several: under ``torchrun`` each takes its share of every batch, and gradients are added up.

Every process draws the whole batch and keeps its rows, so that a run has the same batches however many share the work.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn

from .mixers.base import as_width

__all__ = ["Workers", "choose_device", "joined", "say", "use_threads"]


class Workers(NamedTuple):
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process prints and writes."""
        return self.rank == 0

    def add(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes."""
        if self.size == 1:
            return tensor
        total = tensor.clone()
        distributed.all_reduce(total)
        return total

    def add_gradients(self, parameters: list[Tensor]) -> None:
        """Replace each gradient by its sum over all processes: one message for all of them."""
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        total = self.add(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, part in zip(gradients, total.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def copy_first(self, model: nn.Module) -> None:
        """Give the model the weights that it has in the first process."""
        if self.size > 1:
            for tensor in model.state_dict().values():
                distributed.broadcast(tensor, src=0)

    def from_first(self, value: float, device) -> float:
        """Return what the first process has: clocks differ, and all must stop at the same step."""
        if self.size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64 if device.type != "mps" else torch.float32, device=device)
        distributed.broadcast(shared, src=0)
        return shared.item()

    def wait(self) -> None:
        """Wait for the others."""
        if self.size > 1:
            distributed.barrier()


@contextmanager
def joined(device: torch.device) -> Iterator[Workers]:
    """Join the processes that ``torchrun`` has started; without it this is the only one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Workers()
        return
    if distributed.is_initialized():
        yield Workers(distributed.get_rank(), distributed.get_world_size())
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Workers(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


def choose_device(wanted: str = "auto") -> torch.device:
    """Return the device to train on: the GPU if there is one and nothing else is asked for.

    Raises
    ------
    ValueError
        If PyTorch finds no such device.
    """
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.zeros((), device=device).item()  # fails where there is no such device, or one without numbers
    except (RuntimeError, AssertionError) as error:  # PyTorch without CUDA asserts
        raise ValueError(f"device must be one that PyTorch finds, got {wanted!r}; on this machine try 'cpu'") from error
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def use_threads(count: int | None) -> None:
    """Let PyTorch work with so many threads; None leaves it its own choice.

    Raises
    ------
    ValueError
        If the number is below 1.
    """
    if count is not None:
        torch.set_num_threads(as_width("threads", count))


def say(text: str) -> None:
    """Print a line, with a question mark for each sign that the terminal's encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))
