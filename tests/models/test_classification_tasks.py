"""Genres and digits: no play and no image stands on both sides, and every class is asked about alike."""

import pytest
import torch

from gma_ref.models.evaluation import evaluate
from gma_ref.models.tasks import TASKS, make_task
from gma_ref.models.tasks.naive_bayes import NaiveBayes
from gma_ref.models.tasks.plays import play_text, titles
from gma_ref.models.tasks.task import PARTS
from gma_ref.shakespeare import plays


@pytest.fixture(scope="module")
def genre():
    return make_task("genre")


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("sklearn", reason="the digits are those of scikit-learn")
    return make_task("digits")


def whole(task, part, length, **options):
    batches = list(task.evaluation(part, length, **options))
    return torch.cat([batch.inputs for batch in batches]), torch.cat([batch.targets for batch in batches])


def as_read(task, title):
    text = play_text(title, speakers=False)
    return text.translate({ord(symbol): "\ufffd" for symbol in set(text) - set(task.vocabulary.names)})


def test_genre_takes_each_play_in_the_part_that_it_has_elsewhere(genre):
    for part, named in genre.titles.items():
        assert set(named) <= set(titles(part))
    sizes = {part: len(named) for part, named in genre.titles.items()}
    assert sizes == {"train": 17, "validation": 6, "test": 6}


@pytest.mark.parametrize("part", ["validation", "test"])
def test_passages_come_from_plays_of_their_genre(genre, part):
    passages, labels = whole(genre, part, 2048, limit=60_000)
    groups = [("comedies",), ("histories",), ("tragedies", "roman")]
    held = [play for play in plays() if play.title in titles(part)]
    # through the vocabulary, for its unknown symbols
    texts = [[as_read(genre, play.title) for play in held if play.genre in group] for group in groups]
    for passage, label in zip(passages, labels.tolist(), strict=True):
        text = genre.vocabulary.decode(passage)
        assert len(text) == 2048
        assert [any(text in play for play in group) for group in texts] == [k == label for k in range(3)]


@pytest.mark.parametrize("length", [512, 2048, 8192])
def test_every_genre_has_as_many_passages_and_none_comes_twice(genre, length):
    passages, labels = whole(genre, "test", length)
    assert labels.bincount().tolist() == [len(labels) // 3] * 3
    assert len(set(map(tuple, passages.tolist()))) == len(passages) >= 60


@pytest.mark.parametrize("part", ["validation", "test"])
def test_each_passage_is_of_the_play_that_is_its_group(genre, part):
    batch = next(genre.evaluation(part, 8192, batch=100))
    assert {genre.groups[number] for number in batch.group.tolist()} == set(genre.titles[part])
    assert sorted(genre.groups) == sorted(title for group in genre.titles.values() for title in group)
    texts = {title: as_read(genre, title) for title in genre.titles[part]}
    for passage, number in zip(batch.inputs, batch.group.tolist(), strict=True):
        assert genre.vocabulary.decode(passage) in texts[genre.groups[number]]


def test_whole_plays_of_a_part_are_all_there_with_their_labels(genre):
    for part in PARTS:
        labels, texts = zip(*genre.whole_plays(part), strict=True)
        assert sorted(map(len, texts)) == sorted(len(as_read(genre, title)) for title in genre.titles[part])
        assert set(labels) == {0, 1, 2}


def test_naive_bayes_knows_the_training_plays_and_beats_guessing_on_others(genre):
    pytest.importorskip("sklearn", reason="naive Bayes is that of scikit-learn")
    model = NaiveBayes(genre, longest=2)
    result = evaluate(model, genre.evaluation("validation", 8192), "accuracy", device="cpu", groups=genre.groups)
    assert 0.45 < result["score"] <= 1
    assert set(result["groups"]) == set(genre.titles["validation"])
    labels, texts = zip(*genre.whole_plays("train"), strict=True)
    log_probability = model(torch.stack([text[:8192] for text in texts]))
    torch.testing.assert_close(log_probability.exp().sum(dim=1), torch.ones(17, dtype=torch.float64))
    assert (log_probability.argmax(dim=1) == torch.tensor(labels)).double().mean() > 0.8


def test_naive_bayes_is_that_of_the_formula_with_every_blank_counted(genre):
    pytest.importorskip("sklearn", reason="naive Bayes is that of scikit-learn")
    counts = torch.zeros(3, genre.vocabulary.size, dtype=torch.float64)
    for label, play in genre.whole_plays("train"):
        counts[label] += play.bincount(minlength=genre.vocabulary.size)
    seen = counts.sum(dim=0) > 0
    log_share = (counts[:, seen] + 1).log() - (counts[:, seen] + 1).sum(dim=1, keepdim=True).log()
    passage = next(genre.evaluation("test", 2048)).inputs[:2]
    assert "\n\n" in genre.vocabulary.decode(passage[0])
    found = torch.stack([each.bincount(minlength=len(seen)) for each in passage])[:, seen].double() @ log_share.T
    torch.testing.assert_close(NaiveBayes(genre, longest=1)(passage), found.log_softmax(dim=1))


def test_training_passages_are_cut_from_training_plays(genre):
    batch = next(genre.train_batches(torch.Generator().manual_seed(0), 24, 512))
    texts = [as_read(genre, title) for title in titles("train")]
    assert set(batch.targets.tolist()) == {0, 1, 2}
    for passage in batch.inputs:
        assert any(genre.vocabulary.decode(passage) in text for text in texts)


def test_every_training_batch_has_as_many_of_each_genre_in_no_fixed_order(genre):
    batches = genre.train_batches(torch.Generator().manual_seed(0), 9, 64)
    drawn = [next(batches).targets for _ in range(20)]
    assert all(labels.bincount().tolist() == [3, 3, 3] for labels in drawn)
    assert len(set(map(tuple, map(torch.Tensor.tolist, drawn)))) > 15
    counts = next(genre.train_batches(torch.Generator().manual_seed(0), 4, 64)).targets.bincount(minlength=3)
    assert sorted(counts.tolist()) == [1, 1, 2]


def test_vocabulary_of_the_genres_comes_from_their_training_plays_alone(genre):
    trained = "".join(play_text(title, speakers=False) for title in genre.titles["train"])
    assert set(genre.vocabulary.names) - {"\ufffd"} == {c for c in set(trained) if trained.count(c) >= 10}


def test_passage_longer_than_a_play_is_refused(genre):
    for part, length in (("test", 200_000), ("validation", 0)):
        shortest = min(len(play_text(title, speakers=False)) for title in genre.titles[part])
        message = rf"^length must be from 1 to {shortest:,}, the shortest play of {part}, got {length}$"
        with pytest.raises(ValueError, match=message):
            next(genre.evaluation(part, length))
    with pytest.raises(ValueError, match=r"the shortest play of train, got 200000$"):
        next(genre.train_batches(torch.Generator(), 2, 200_000))


def test_digits_are_all_there_and_no_image_is_in_two_parts(digits):
    seen = [set(map(tuple, part.inputs.tolist())) for part in digits.parts.values()]
    assert [len(part.targets) for part in digits.parts.values()] == [1197, 300, 300]
    assert len(set.union(*seen)) == sum(map(len, seen)) == 1797


def test_pixels_are_in_reading_order(digits):
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    known = dict(zip(map(tuple, images.astype(int).tolist()), labels.tolist(), strict=True))
    inputs, labels = whole(digits, "test", 64)
    assert [known[tuple(image)] for image in inputs.tolist()] == labels.tolist()
    assert inputs.min() == 0
    assert inputs.max() == digits.vocabulary.size - 1 == 16


def test_digits_have_one_length(digits):
    with pytest.raises(ValueError, match=r"^length must be 64, the pixels of an image, got 128$"):
        next(digits.evaluation("test", 128))
    batch = next(digits.train_batches(torch.Generator().manual_seed(0), 6, 64))
    assert batch.inputs.shape == (6, 64)


def test_unknown_task_is_refused():
    with pytest.raises(ValueError, match=r"^name must be one of 'shakespeare', .*, got 'poetry'$"):
        make_task("poetry")
    assert list(TASKS)[:4] == ["shakespeare", "genre", "recall", "digits"]
