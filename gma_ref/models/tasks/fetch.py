"""Files from a network, for those who have one: fetched only when asked for, whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from tqdm import tqdm

__all__ = ["copy_whole", "need_files", "opened"]

_CHUNK = 1 << 20


@contextmanager
def opened(url: str) -> Iterator:
    """Open a web address for reading, with a progress bar.

    Raises
    ------
    ConnectionError
        If it cannot be read; the message names the address.
    """
    try:
        # some servers refuse the name that Python gives by itself
        with urlopen(Request(url, headers={"User-Agent": "gma-ref"}), timeout=30) as answer:
            total = int(answer.headers.get("Content-Length") or 0) or None
            with tqdm.wrapattr(answer, "read", total=total, desc="fetching", unit="B", disable=None) as stream:
                yield stream
    except (URLError, TimeoutError) as error:
        raise ConnectionError(f"url must be within reach, got {url} ({error}); or fetch it elsewhere") from error


def copy_whole(stream, path: Path) -> None:
    """Copy a stream into a file, which appears when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as unfinished:
        try:
            while piece := stream.read(_CHUNK):
                unfinished.write(piece)
        except BaseException:
            unfinished.close()
            os.unlink(unfinished.name)
            raise
    os.replace(unfinished.name, path)


def need_files(folder, names, how: str) -> list[Path]:
    """Return the paths of files that must be in a folder.

    Raises
    ------
    FileNotFoundError
        If one is not there; the message says which, and how to get it.
    """
    paths = [Path(folder) / name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"folder must hold {', '.join(missing)}, got {Path(folder)}; {how}")
    return paths
