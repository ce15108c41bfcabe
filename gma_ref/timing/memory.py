"""Peak memory of a call: the resident size of a fresh process, or the allocator's peak on a GPU."""

import contextlib
import ctypes
import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["PeakMemory", "peak_memory"]


@dataclass(frozen=True)
class PeakMemory:
    """Bytes beyond what was there before the call.

    Attributes
    ----------
    peak : int
        The most that was in use during the call.
    held : int
        What the results take: the arrays or tensors that the call returned.
    """

    peak: int
    held: int

    @property
    def over(self):
        """What the call needed besides its inputs and its results."""
        return self.peak - self.held


def peak_memory(make, *args, device="cpu", threads=None, timeout=900):
    """Measure the peak memory of ``make(*args)()``.

    `make` prepares the inputs and returns a callable without arguments; only that callable is measured. What it
    returns (an array, a tensor, or a tuple of them) is what `held` counts.

    Parameters
    ----------
    make : callable
        A function of an importable module: a fresh process imports it by its name.
    *args
        Its arguments; they are pickled.
    device : str
        On ``"cpu"`` a fresh process runs the call, and its resident size is read: this includes whatever the call
        makes the libraries keep. On ``"cuda"`` this process runs it, and PyTorch's allocator says its peak.
    threads : int, optional
        Threads of the fresh process.
    timeout : float
        Seconds after which the fresh process is given up.

    Returns
    -------
    PeakMemory

    Raises
    ------
    RuntimeError
        If the fresh process fails; the message ends with what it said.

    Notes
    -----
    Linux lets a process set its peak back, so what the inputs took while they were made does not count. Elsewhere it
    does, and the figure is an upper bound.
    """
    if device != "cpu":
        return _peak_on_device(make(*args), device)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    if threads is not None:
        environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", "from gma_ref.timing.memory import _fresh_process; _fresh_process()"]
    task = pickle.dumps((make, args))
    done = subprocess.run(command, input=task, env=environment, capture_output=True, timeout=timeout)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise RuntimeError(f"the fresh process failed: {said[0]}")
    return PeakMemory(**json.loads(done.stdout.splitlines()[-1]))


def _fresh_process():
    """Run the task that stands on the standard input, and print its peak."""
    make, args = pickle.load(sys.stdin.buffer)
    call = make(*args)
    _return_freed_memory()
    _reset_peak()
    before = psutil.Process().memory_info().rss
    result = call()
    print(json.dumps({"peak": max(0, _peak() - before), "held": _bytes(result)}))


def _peak_on_device(call, device):
    """Return the allocator's peak over a call on a GPU."""
    import torch

    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = call()
    torch.cuda.synchronize(device)
    return PeakMemory(torch.cuda.max_memory_allocated(device) - before, _bytes(result))


def _bytes(result):
    """Return the bytes of an array, of a tensor, or of all in a tuple or a dict."""
    if isinstance(result, tuple | list):
        return sum(_bytes(part) for part in result)
    if isinstance(result, dict):
        return _bytes(list(result.values()))
    return int(getattr(result, "nbytes", 0))


def _return_freed_memory():
    """Ask the C library to give back what was freed while the inputs were made; else the call could reuse it unseen."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def _reset_peak():
    """Set the peak back to the present size, where the system can do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak():
    """Return the largest resident size of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would start at the size of the process that launched this one
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line[:6] == "VmHWM:")
    if hasattr(psutil.Process().memory_info(), "peak_wset"):  # Windows
        return psutil.Process().memory_info().peak_wset
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
