"""Text: what is held out was never seen, and windows start where they may."""

import os
import subprocess
import sys

import pytest
import torch

from gma_ref.models.tasks import make_task
from gma_ref.models.tasks.language import count_windows, windows
from gma_ref.models.tasks.plays import HELD_OUT, play_text, print_split, titles
from gma_ref.models.tasks.vocabulary import Symbols
from gma_ref.shakespeare import plays, read_play
from tests.models.small import small_task


def test_every_play_is_in_one_part():
    parts = [set(titles(part)) for part in ("train", "validation", "test")]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(plays()) == 38
    with pytest.raises(ValueError, match=r"^part must be 'train' or 'validation' or 'test', got 'dev'$"):
        titles("dev")


def test_every_part_has_every_genre():
    genre_of = {play.title: play.genre for play in plays()}
    for part in ("train", "validation", "test"):
        assert {genre_of[title] for title in titles(part)} == set(genre_of.values())


def test_characters_with_a_history_are_met_in_training_plays_only():
    """Falstaff and the Henrys are in several plays; who knows one of these has a start in the others."""
    for name in ("FALSTAFF", "PRINCE HENRY", "QUEEN MARGARET", "MARK ANTONY", "ANTONY"):
        speak_in = {
            play.title
            for play in plays()
            if any(speech.speaker == name for part in read_play(play.title) for speech in part.speeches)
        }
        if name == "PRINCE HENRY":
            speak_in.discard("King John")  # the son of John, two centuries before
        assert speak_in <= set(titles("train")), name


def test_no_passage_of_a_held_out_play_was_seen_in_training():
    task = make_task("shakespeare")
    seen = "".join(map(play_text, titles("train")))
    for part in HELD_OUT:
        passages = [task.vocabulary.decode(batch.inputs[0]) for batch in task.evaluation(part, 100, limit=200_000)]
        assert len(passages) > 50
        assert [passage for passage in passages if passage in seen] == []


def test_parts_are_the_plays_from_end_to_end():
    task = make_task("shakespeare")
    assert {part: len(tokens) for part, tokens in task.parts.items()} == {
        part: sum(len(play_text(title)) for title in titles(part)) for part in ("train", "validation", "test")
    }
    start = task.vocabulary.decode(task.parts["validation"][:300])
    assert start == play_text("As You Like It")[:300]
    assert start.startswith("ORLANDO:\nAs I remember, Adam, it was upon this fashion")


def test_speakers_can_be_left_out():
    balcony = "He jests at scars that never felt a wound.\nBut, soft!"
    assert f"\n\nROMEO:\n{balcony}" in play_text("Romeo and Juliet")
    assert f"\n\n{balcony}" in play_text("Romeo and Juliet", speakers=False)
    assert "ROMEO:" not in play_text("Romeo and Juliet", speakers=False)


def test_split_is_printed_with_every_play(capsys):
    print_split()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 38 + 3
    assert "validation  tragedies     95,857  Macbeth" in printed
    for part in ("train", "validation", "test"):
        sizes = [int(line.split()[2].replace(",", "")) for line in printed if line.startswith(part)]
        assert sum(sizes[:-1]) == sizes[-1]


def test_windows_of_ten_tokens_and_length_eight_start_at_0_and_1():
    tokens = torch.arange(10)
    assert count_windows(10, 8) == 2
    batch = windows(tokens, torch.arange(2), 8)
    assert batch.inputs.tolist() == [list(range(8)), list(range(1, 9))]
    assert torch.equal(batch.targets, batch.inputs + 1)
    with pytest.raises(ValueError, match=r"^length must leave a next token, got 10 with a text of 10 tokens$"):
        count_windows(10, 10)
    with pytest.raises(ValueError, match=r"^length must be at least 1, got 0$"):
        count_windows(10, 0)


def test_training_batches_start_everywhere_and_follow_from_the_generator():
    task = small_task()
    task.parts["train"] = torch.arange(10)
    generator = torch.Generator().manual_seed(0)
    first = next(task.train_batches(generator, 200, 8))
    assert set(first.inputs[:, 0].tolist()) == {0, 1}
    assert torch.equal(first.targets, first.inputs + 1)
    generator.manual_seed(0)
    assert torch.equal(next(task.train_batches(generator, 200, 8)).inputs, first.inputs)


def test_a_batch_draws_only_when_it_is_asked_for():
    batches = small_task().train_batches(generator := torch.Generator(), 4, 8)
    generator.manual_seed(1)
    first = next(batches)
    next(batches)
    generator.manual_seed(1)
    assert torch.equal(next(batches).inputs, first.inputs)


def test_evaluation_predicts_each_token_once_and_in_order():
    task = small_task()
    batches = list(task.evaluation("validation", 8, batch=7))
    inputs, targets = (torch.cat([batch[column] for batch in batches]).flatten() for column in (0, 1))
    tokens = task.parts["validation"]
    assert len(tokens) == 201
    assert torch.equal(inputs, tokens[:-1])
    assert torch.equal(targets, tokens[1:])


def test_limited_evaluation_is_spread_over_the_whole_text():
    task = small_task()
    task.parts["test"] = torch.arange(1001)
    starts = torch.cat([batch.inputs[:, 0] for batch in task.evaluation("test", 10, limit=40)])
    assert starts.tolist() == [0, 250, 500, 750]
    with pytest.raises(ValueError, match=r"^part must be 'validation' or 'test', got 'train'$"):
        next(task.evaluation("train", 10))
    with pytest.raises(ValueError, match=r"^length must leave a next token, got 2000 "):
        next(task.evaluation("test", 2000))


def test_rare_and_new_symbols_are_the_unknown_one():
    vocabulary = Symbols("aaabbbc" + "\ufffd" * 9, min_count=3)
    assert vocabulary.names == ("\ufffd", "a", "b")
    assert vocabulary.encode("abcz\ufffd").tolist() == [1, 2, 0, 0, 0]
    assert vocabulary.decode([1, 0, 2]) == "a\ufffdb"
    assert Symbols("bbaaab", min_count=1).names == Symbols("aaabbb", min_count=1).names


def test_vocabulary_comes_from_the_training_plays_alone():
    task = make_task("shakespeare")
    trained = "".join(play_text(title) for title in titles("train"))
    assert set(task.vocabulary.names) - {"\ufffd"} == {c for c in set(trained) if trained.count(c) >= 10}
    assert task.vocabulary.decode(task.vocabulary.encode("To be, or not to be")) == "To be, or not to be"
    assert (task.parts["test"] == 0).sum() < 50


def test_plays_are_read_whatever_the_locale_and_without_a_network():
    """The C locale knows ASCII alone; a socket that cannot be made stands for a missing network."""
    code = (
        "import socket, torch; socket.socket = None\n"
        "from gma_ref.models.tasks import make_task\n"
        "task = make_task('shakespeare')\n"
        "print(len(task.parts['train']), task.vocabulary.size)"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    task = make_task("shakespeare")
    assert done.stdout.split() == [str(len(task.parts["train"])), str(task.vocabulary.size)]
