"""The C program: how it is compiled, kept, loaded, and called by several threads."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import threading
from importlib import resources
from pathlib import Path

import torch

FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared")
FOR_THIS_PROCESSOR = (("-march=native", "-mprefer-vector-width=512"), ("-march=native",), ("-mcpu=native",), ())
off = False  # see `switched_off`
PROGRAM, HEADERS = ("forward.c", "backward.c"), ("vectors.h", "tile.h")


class Array(ctypes.Structure):
    """As in `tile.h`."""

    _fields_ = [("at", ctypes.c_void_p)] + [(name, ctypes.c_int64) for name in ("group", "sequence", "token")]

    @classmethod
    def of(cls, tensor):
        """Describe a tensor (G, S, tokens, width); one whose rows are not contiguous cannot be described."""
        return cls(tensor.data_ptr(), *tensor.stride()[:3])


class Call(ctypes.Structure):
    """As in `tile.h`."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in "S N_q N_k d_r K d_v squares".split()),
        *((name, ctypes.c_int64) for name in "causal ranges range block whole pieces".split()),
        ("eps", ctypes.c_double),
        *((name, Array) for name in "q k v output".split()),
        *((name, ctypes.c_void_p) for name in "mask centre weights offset memory reach starts".split()),
        *((name, Array) for name in "upstream q_bar k_bar v_bar".split()),
        *((name, ctypes.c_void_p) for name in "memory_bar mixture_bar".split()),
    ]


def source():
    """Return the files of the C program and their text."""
    folder = resources.files(__package__)
    return {name: folder.joinpath(name).read_text(encoding="utf-8") for name in PROGRAM + HEADERS}


def processor():
    """Return what tells this kind of processor from another, since the program runs on no lesser one."""
    told = Path("/proc/cpuinfo").read_text().split("\n\n")[0] if Path("/proc/cpuinfo").exists() else ""
    lines = [line for line in told.splitlines() if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return platform.platform(), platform.processor(), *lines


def location():
    """Return where the compiled program is kept: one file per version of the program and kind of processor."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    made_of = *source().values(), *FLAGS, *processor()
    name = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    return Path(cache) / "gma_ref" / f"blocked-{name}.so"


def build():
    """Compile the program with the C compiler of this machine, which takes a few seconds, and use it from now on.

    Returns
    -------
    Path
        The shared library. It is found again by later processes on the same machine.

    Raises
    ------
    RuntimeError
        If there is no compiler, or it fails; the message has what it said.
    """
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("no C compiler was found (cc, gcc or clang); everything works without, in eager PyTorch")
    to = location()
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        for name, text in source().items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        for flags in FOR_THIS_PROCESSOR:
            command = [*shlex.split(compiler), *FLAGS, *flags, *PROGRAM, "-o", to.name, "-lm"]
            told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if told.returncode == 0:
                break
        else:
            raise RuntimeError(f"{compiler} could not compile the program:\n{told.stderr}")
        os.replace(Path(folder) / to.name, to)
    built.cache_clear()
    return to


@contextlib.contextmanager
def switched_off():
    """Let everything go on in eager mode within a `with`, as if nothing had been built; for comparison."""
    global off
    before, off = off, True
    try:
        yield
    finally:
        off = before


def ready():
    """Tell whether the program is to be used."""
    return not off and built() is not None


@functools.cache
def built():
    """Return the loaded library, or None while it has not been built."""
    return ctypes.CDLL(str(location())) if location().exists() else None


def run(step, call, tasks):
    """Let as many threads as PyTorch uses take the tasks of a step one after the other; ctypes frees the lock.

    Returns what the tasks returned, other than 0.
    """
    function = getattr(built(), step)
    waiting, returned = iter(range(tasks)), set()

    def work():
        for task in waiting:
            returned.add(function(ctypes.byref(call), ctypes.c_int64(task)))

    helpers = [threading.Thread(target=work) for _ in range(min(torch.get_num_threads(), tasks) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if 1 in returned:
        raise MemoryError(f"{step} found no memory for its buffers")
    return returned
