"""Chapters run in a clean place, say how long they take, and run again when the package changes.

jupyter-cache compares the text of the cells. It cannot see that ``gma_ref`` has changed under them, so each state of
the package has a cache of its own.
"""

import hashlib
import os
import shutil
import sys
import time
from pathlib import Path

from sphinx.application import Sphinx

import gma_ref

STARTED = {}


def state_of_the_world(book: Path) -> str:
    """Return a digest of what the outputs depend on beside the cells: the package, Python, the pinned libraries."""
    package = Path(gma_ref.__file__).parent
    digest = hashlib.sha256(sys.version.encode())
    for path in [*sorted(package.rglob("*")), *book.glob("requirements*.txt")]:
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


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
    """Say how long the chapter took, or that its outputs were there already."""
    docname = app.env.docname
    if docname in STARTED:
        took = time.perf_counter() - STARTED.pop(docname)
        ran = app.env.nb_metadata[docname].get("exec_data", {}).get("runtime") or 0
        print(f"{took:.1f} s" if took > ran else f"from the cache (it took {ran:.1f} s to run)", flush=True)


def setup(app: Sphinx) -> dict:
    """Choose the cache before myst-nb reads its settings."""
    app.connect("builder-inited", choose_cache, priority=100)
    app.connect("builder-inited", isolate_kernels, priority=100)
    app.connect("source-read", announce)
    app.connect("doctree-read", report)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
