"""Kinds of characters: by hand, and on every play against the speeches it was made from."""

import numpy as np
import pytest

from gma_ref.characters import CATEGORIES, character_categories, character_features

TEXT = "First Witch:\nWhen Éa?\n\nALL:\n'Tis \ufffd 3\ty:\n\nno\n"
EXPECTED = (
    ["speaker name"] * 11
    + ["punctuation", "line break", "line start", "consonant", "vowel", "consonant", "space", "capital", "vowel"]
    + ["punctuation", "line break", "line break"]
    + ["speaker name"] * 3
    + ["punctuation", "line break", "line start", "capital", "vowel", "consonant", "space", "other", "space", "other"]
    + ["space", "consonant", "punctuation", "line break", "line break", "line start", "vowel", "line break"]
)


def test_categories_by_hand():
    assert character_categories(TEXT).tolist() == EXPECTED


def test_features_overlap_where_categories_do_not():
    features = character_features(TEXT)
    assert tuple(features) == CATEGORIES

    def marked(name):
        return "".join(np.array([*TEXT])[features[name]])

    assert marked("speaker name") == "First WitchALL"
    assert marked("line start") == "W'n"
    assert marked("capital") == "FWWÉALLT"
    assert marked("vowel") == "iieÉaAio"
    assert marked("consonant") == "FrstWtchWhnLLTsyn"
    assert marked("punctuation") == ":?:':"
    assert marked("space") == "    \t"
    assert marked("line break") == "\n" * 7


def test_each_character_has_the_first_category_that_it_answers_to():
    features, categories = character_features(TEXT), character_categories(TEXT)
    for i, category in enumerate(categories):
        answers = [name for name in CATEGORIES if features[name][i]]
        assert category == (answers[0] if answers else "other")


@pytest.mark.parametrize(
    ("text", "expected"), [("", []), ("\n", ["line break"]), ("A:", ["line start", "punctuation"])]
)
def test_short_texts(text, expected):
    assert character_categories(text).tolist() == expected


def test_a_text_is_a_string():
    with pytest.raises(TypeError, match=r"^text must be a string, got bytes$"):
        character_categories(b"ROMEO")


def test_names_in_every_play_are_those_of_its_speeches():
    pytest.importorskip("torch")  # the tasks stand in its room
    from gma_ref.models.tasks.plays import play_text
    from gma_ref.shakespeare import plays, read_play

    for play in plays():
        text = play_text(play.title)
        names = character_features(text)["speaker name"]
        expected = np.zeros(len(text), bool)
        place = 0
        for part in read_play(play.title):
            for speech in part.speeches:
                expected[place : place + len(speech.speaker)] = True
                place += (len(speech.speaker) + 2 if speech.speaker else 0) + 2
                place += len(speech.text.replace("\u2014", "--"))
        assert place == len(text)
        np.testing.assert_array_equal(names, expected, err_msg=play.title)
        categories = character_categories(text)
        # figures in "Henry V" ... are all that is left over
        assert set(np.array([*text])[categories == "other"].tolist()) <= set("0123456789$")
