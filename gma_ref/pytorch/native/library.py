"""The C program: how it is compiled, kept, loaded, and called by several threads."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

import torch

FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared")
FOR_THIS_PROCESSOR = (("-march=native", "-mprefer-vector-width=512"), ("-march=native",), ("-mcpu=native",), ())
NOT_BUILT = (
    'implementation="native" needs a C program that has not been built on this machine; '
    "gma_ref.pytorch.native.build() does it, in a few seconds"
)
NO_COMPILER = (
    'implementation="native" needs a C compiler, and none was found (cc, gcc or clang); '
    'everything works without: implementation="blocked" does the same in PyTorch'
)
PROGRAM = "forward.c", "backward.c", "precise.c", "step.c", "team.c"
HEADERS = "numbers.h", "vectors.h", "tile.h"
NO_MEMORY, NOT_FINITE = 1, 2  # what a task returns


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
        ("cut", ctypes.c_double),
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
    return platform.platform(), *(lines or [platform.processor()])


def location():
    """Return where the compiled program is kept: one file per version of the program and kind of processor.

    The folder is that of the environment variable ``GMA_REF_CACHE``, or ``gma_ref`` in ``XDG_CACHE_HOME`` or
    ``~/.cache``.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = os.environ.get("GMA_REF_CACHE") or Path(caches) / "gma_ref"
    made_of = *source().values(), *FLAGS, *processor()
    name = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    return Path(folder) / f"blocked-{name}.so"


def compiler():
    """Return the command of the C compiler of this machine, or None: `CC` of the environment, or the usual names."""
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


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

    Notes
    -----
    It is kept in the folder that the environment variable ``GMA_REF_CACHE`` names, else in ``gma_ref`` under
    ``XDG_CACHE_HOME`` or ``~/.cache``, under a name that stands for the text of the program and the kind of processor:
    another version or another machine finds nothing, and builds its own. Deleting the folder takes it back. The
    compiler is ``CC``, else cc, gcc or clang.
    """
    command = compiler()
    if command is None:
        raise RuntimeError(NO_COMPILER)
    to = location()
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        for name, text in source().items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        for flags in FOR_THIS_PROCESSOR:
            line = [*shlex.split(command), *FLAGS, *flags, *PROGRAM, "-o", to.name, "-lm", "-ldl", "-pthread"]
            try:
                told = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
            except OSError as error:
                raise RuntimeError(f"the C compiler {command} could not be started: {error.strerror}") from None
            if told.returncode == 0:
                break
        else:
            raise RuntimeError(f"{command} could not compile the program:\n{told.stderr}")
        os.replace(Path(folder) / to.name, to)
    built.cache_clear()
    return to


@functools.cache
def built():
    """Return the loaded library, or None while it has not been built; what cannot be loaded is to be built anew."""
    try:
        return ctypes.CDLL(str(location()))
    except OSError:
        return None


def missing():
    """Return why the program cannot be used, in a sentence that says how to get it, or None."""
    if built() is not None:
        return None
    return NO_COMPILER if compiler() is None else NOT_BUILT


def require_built():
    """Refuse to go on without the program."""
    if built() is None:
        raise RuntimeError(missing())


def run(step, call, tasks):
    """Let as many threads as PyTorch uses take the tasks of a step one after the other; ctypes frees the lock.

    Returns the bits that the tasks returned: 0 if there is nothing to tell.
    """
    library = built()
    threads = min(torch.get_num_threads(), tasks)
    returned = library.gma_run(getattr(library, step), ctypes.byref(call), ctypes.c_int64(tasks), threads)
    if returned & NO_MEMORY:
        raise MemoryError(f"{step} found no memory for its buffers")
    return returned
