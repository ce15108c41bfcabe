"""Where numbers come from: the processor, the versions, the date and the commit, to stand beside every measurement.

Nothing here says whose machine it was: no host name, no user, no path.
"""

import datetime
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["provenance"]

# What may change how fast arithmetic runs without a trace in the code
_PREFIXES = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "ONEDNN_", "DNNL_", "ATEN_", "PYTORCH_", "NVIDIA_TF32_")
_PLAIN = re.compile(r"[\w.,:+%-]{1,60}")  # a value that cannot hold a path


def provenance(libraries=("numpy",), **more):
    """Describe the machine and the software of a measurement.

    Parameters
    ----------
    libraries : sequence of str
        Names of distributions whose versions are wanted. None of them is imported.
    **more
        Further entries, for instance the name of an accelerator.

    Returns
    -------
    dict
        ``date`` (UTC, ISO 8601), ``commit`` of the checkout that holds this package with ``modified`` (True where
        tracked files of the package differ from it), both None for an installed package; ``processor``,
        ``processors`` (how many this process may use), ``system``, ``python``, ``versions`` (None where a library is
        not installed), ``environment`` (variables that steer arithmetic libraries), and `more`.
    """
    commit, modified = _commit()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "modified": modified,
        "processor": _processor(),
        "processors": usable_processors(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: _version(name) for name in ("gma-ref", *libraries)},
        "environment": _environment(os.environ),
        **more,
    }


def usable_processors():
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _environment(variables):
    """Return the variables that steer arithmetic libraries; of a value that might hold a path, only that it is set."""
    return {
        name: value if _PLAIN.fullmatch(value) else "set"
        for name, value in sorted(variables.items())
        if name.startswith(_PREFIXES)
    }


def _processor():
    """Return the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    if platform.system() == "Darwin":
        return _run("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine()


def _commit():
    """Return the commit of the checkout that tracks this file and whether the package differs from it, or two None."""
    here = Path(__file__).resolve()
    git = ("git", "-C", str(here.parent))
    # an environment inside somebody's repository would give the commit of that one
    if _run(*git, "ls-files", "--error-unmatch", here.name) is None:
        return None, None
    changes = _run(*git, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return _run(*git, "rev-parse", "HEAD"), bool(changes)


def _run(*command):
    """Return what a command prints, or None where it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
