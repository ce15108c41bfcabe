import math

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD

from gma_ref.word_vectors import count_neighbours, positive_pmi, word_vectors

CORPUS = [
    "the king loves the queen and the queen loves the king".split(),
    "a king and a queen and a fool see the sea".split(),
    ["alone"],
    [],
]


def test_neighbours_are_counted_on_each_side():
    index = {"the": 0, "king": 1, "queen": 2}
    counts = count_neighbours(index, CORPUS, num_contexts=1)  # the one context is "the"
    before, after = counts.T
    assert before.tolist() == [0, 2, 2]  # "the king" twice, "the queen" twice
    assert after.tolist() == [0, 0, 0]  # "the" never follows any of the three


def test_pmi_is_the_slow_one():
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, size=(6, 4)).astype(float)
    smoothed = [counts[:, c].sum() ** 0.75 for c in range(4)]
    pmi = positive_pmi(counts)
    for w in range(6):
        for c in range(4):
            expected = 0.0
            if counts[w, c]:
                p_context_given_word = counts[w, c] / counts[w].sum()
                expected = max(0.0, math.log(p_context_given_word / (smoothed[c] / sum(smoothed))))
            assert pmi[w, c] == pytest.approx(expected)


def test_projection_is_a_truncated_svd():
    words = ["king", "queen", "the", "fool", "loves"]
    vectors = word_vectors(words, CORPUS, dim=3, num_contexts=5, num_fitted=100)
    everything = list(dict.fromkeys(word for text in CORPUS for word in text))
    common = sorted(everything, key=lambda word: -sum(text.count(word) for text in CORPUS))
    index = {word: row for row, word in enumerate(common)}
    svd = TruncatedSVD(3, algorithm="arpack", random_state=0)
    pmi = positive_pmi(count_neighbours(index, CORPUS, 5))
    expected = svd.fit(pmi).transform(pmi)[[index[word] for word in words]]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-9)  # equal up to signs


def test_a_word_without_neighbours_is_the_zero_vector():
    assert not word_vectors(["alone"], CORPUS, dim=2, num_contexts=5).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": ["duke"]}, "words must occur in the corpus, got 'duke'"),
        ({"words": ["king"], "dim": 0}, "dim must be an integer of at least 1, got 0"),
        ({"words": ["king"], "dim": 2.0}, "dim must be an integer of at least 1, got 2.0"),
        ({"words": ["king"], "num_fitted": -1}, "num_fitted must be an integer of at least 1, got -1"),
        ({"words": ["king"], "dim": 30, "num_contexts": 5}, "dim must be at most twice the number of contexts, got 30"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        word_vectors(corpus=CORPUS, **arguments)


def test_a_list_of_words_is_no_corpus():
    with pytest.raises(TypeError, match="corpus must hold texts, each a list of words, got the string 'king'"):
        word_vectors(["king"], ["king", "queen"], dim=1)


def test_a_corpus_may_be_read_only_once():
    once = (iter(text) for text in CORPUS)
    expected = word_vectors(["king", "queen"], CORPUS, dim=2, num_contexts=5)
    np.testing.assert_array_equal(word_vectors(iter(["king", "queen"]), once, dim=2, num_contexts=5), expected)
