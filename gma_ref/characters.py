r"""What kind of character each one of a play's text is: the categories that components are compared with.

>>> from gma_ref.characters import character_categories
>>> character_categories("ROMEO:\nI dream.\n")[5:10].tolist()
['punctuation', 'line break', 'line start', 'space', 'consonant']
"""

import re
import unicodedata

import numpy as np

__all__ = ["CATEGORIES", "character_categories", "character_features"]

# A character has the first of these that it answers to.
CATEGORIES = (
    "speaker name",
    "line start",
    "capital",
    "vowel",
    "consonant",
    "space",
    "line break",
    "punctuation",
)

# A speaker's name is a line of its own before a speech: at the beginning, or after an empty line, up to its colon.
_SPEAKER = re.compile(r"(?:\A|(?<=\n\n))[^\n]+(?=:\n)")


def character_features(text: str) -> dict[str, np.ndarray]:
    r"""Return which characters of a text have which feature; one may have several, or none.

    Parameters
    ----------
    text : str
        Speeches as in `gma_ref.models.tasks.plays.play_text`, each as ``"ROMEO:\nHe jests at scars ...\n\n"``. Take
        the whole text and cut afterwards: a piece does not show where its first line and its first name began.

    Returns
    -------
    dict of str to ndarray of bool, (N,)
        By the names in `CATEGORIES`: all characters of a *speaker name*, without its colon; the first of each other
        line; *capital* letters; letters that are a *vowel* (a, e, i, o, u, with or without an accent) or a *consonant*
        (the others, y among them), small or capital; any *space* but a *line break*; *punctuation*.

    Raises
    ------
    TypeError
        If `text` is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
    known, number = np.unique(codes, return_inverse=True)
    kinds = np.array([_kinds(chr(code)) for code in known], np.bool_).reshape(len(known), 6)[number].T
    features = dict(zip(("capital", "vowel", "consonant", "space", "line break", "punctuation"), kinds, strict=True))
    names = np.zeros(len(text), np.bool_)
    for name in _SPEAKER.finditer(text):
        names[name.start() : name.end()] = True
    breaks = features["line break"]
    starts = np.r_[True, breaks[:-1]][: len(text)] & ~breaks & ~names
    features |= {"speaker name": names, "line start": starts}
    return {category: features[category] for category in CATEGORIES}


def character_categories(text: str) -> np.ndarray:
    r"""Return one category for each character of a text: the first in `CATEGORIES` that it answers to.

    So a *capital* is one inside a line, a *vowel* is small, and nothing is counted twice.

    Parameters
    ----------
    text : str
        As in `character_features`.

    Returns
    -------
    ndarray of str, (N,)
        A name in `CATEGORIES`, or ``"other"``: a figure, a sign.

    Raises
    ------
    TypeError
        If `text` is not a string.
    """
    features = character_features(text)
    return np.select([features[category] for category in CATEGORIES], CATEGORIES, "other")


def _kinds(character):
    """Tell whether a character is a capital, a vowel, a consonant, a space, a line break, or punctuation."""
    letter = character.isalpha()
    vowel = letter and unicodedata.normalize("NFD", character)[0].lower() in "aeiou"
    line_break = character == "\n"
    punctuation = unicodedata.category(character).startswith("P")
    return (
        character.isupper(),
        vowel,
        letter and not vowel,
        character.isspace() and not line_break,
        line_break,
        punctuation,
    )
