"""WikiText-103, for those who have a network: articles of Wikipedia, word by word."""

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from .fetch import copy_whole, need_files, opened
from .language import TextTask
from .task import PARTS
from .vocabulary import Symbols

__all__ = ["WIKITEXT_103", "fetch_wikitext", "wikitext"]

WIKITEXT_103 = "https://wikitext.smerity.com/wikitext-103-v1.zip"
_FILES = ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens")
_HOW = f"fetch_wikitext(folder) fetches them, or unpack {WIKITEXT_103} there"


def fetch_wikitext(folder, url: str = WIKITEXT_103) -> Path:
    """Fetch WikiText-103 (190 MB) and unpack its three files; what is there already is not fetched again.

    Parameters
    ----------
    folder : path-like
        Where the files go.
    url : str
        Of a zip archive that holds ``wiki.train.tokens``, ``wiki.valid.tokens`` and ``wiki.test.tokens``.

    Raises
    ------
    ConnectionError
        If the address cannot be read.
    """
    folder = Path(folder)
    if all((folder / name).is_file() for name in _FILES):
        return folder
    with tempfile.TemporaryFile() as archive:
        with opened(url) as stream:
            shutil.copyfileobj(stream, archive)
        with zipfile.ZipFile(archive) as packed:
            inside = {name.rpartition("/")[2]: name for name in packed.namelist()}
            for name in _FILES:
                with packed.open(inside[name]) as stream:
                    copy_whole(stream, folder / name)
    return folder


def wikitext(folder="data/wikitext-103", vocabulary_size: int = 20_000) -> TextTask:
    """Return WikiText-103 as a language to model; its three parts are its own.

    Words are what stands between spaces, and each line ends with ``<eos>``, as is usual for it. The whole vocabulary
    has 267,735 words; the most common ones are kept and the rest is ``<unk>``, which the text itself has for rare
    words. Numbers in bits per word compare with others at the same vocabulary only.

    Parameters
    ----------
    folder : path-like
        That holds ``wiki.train.tokens``, ``wiki.valid.tokens`` and ``wiki.test.tokens``.
    vocabulary_size : int
        At most this many words, ``<unk>`` among them.

    Raises
    ------
    FileNotFoundError
        If a file is not there; the message says how to get it.

    Notes
    -----
    Source: Merity et al., "Pointer sentinel mixture models" (2017).
    """
    paths = dict(zip(PARTS, need_files(folder, _FILES, _HOW), strict=True))
    vocabulary = Symbols(_words(paths["train"]), unknown="<unk>", min_count=1, separator=" ", limit=vocabulary_size)
    parts = {part: vocabulary.encode(_words(path)) for part, path in paths.items()}
    return TextTask("wikitext", "bits per word", vocabulary, parts)


def _words(path: Path) -> Iterator[str]:
    """Yield the words of a file; empty lines are lines too."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield from line.split()
            yield "<eos>"
