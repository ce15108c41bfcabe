"""Outputs come from a cache, and a change of the package empties it.

jupyter-cache compares the text of the cells. It cannot see that ``gma_ref`` has changed under them, so each state of
the package has a cache of its own.
"""

import hashlib
import shutil
from pathlib import Path

import gma_ref
from sphinx.application import Sphinx


def package_hash() -> str:
    """Return a digest of every file of the package."""
    root = Path(gma_ref.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def choose_cache(app: Sphinx) -> None:
    """Execute into the cache of this state of the package, and remove those of earlier states."""
    caches = Path(app.outdir).parent / ".jupyter_cache"
    current = caches / package_hash()
    for other in caches.glob("*"):
        if other != current:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    app.config.nb_execution_cache_path = str(current)


def setup(app: Sphinx) -> dict:
    """Choose the cache before myst-nb reads its settings."""
    app.connect("builder-inited", choose_cache, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
