"""Top tokens: by hand, against a slow count, and at the edges."""

import numpy as np
import pytest

from gma_ref.diagnostics import top_tokens
from tests.diagnostics.examples import draw, hard

BY_HAND = np.array([[1, 0], [0.5, 0.5], [0.25, 0.75], [0, 1], [0.25, 0.75]])
WORDS = ["to", "be", "or", "be", "to"]  # component 0 has 2: to 1.25, be 0.5, or 0.25; component 1 has 3


def test_tokens_shares_and_lifts_by_hand():
    tokens, share, lift = top_tokens(BY_HAND, WORDS)
    # equal shares of "or" and "to" stand in the order of the words
    assert tokens.tolist() == [["to", "be", "or"], ["be", "or", "to"]]
    np.testing.assert_allclose(share, [[0.625, 0.25, 0.125], [0.5, 0.25, 0.25]], rtol=1e-15)
    np.testing.assert_allclose(lift, [[0.625 / 0.4, 0.25 / 0.4, 0.125 / 0.2], [1.25, 1.25, 0.625]], rtol=1e-15)


def test_sorted_by_lift_the_rare_come_first_unless_left_out():
    tokens, _, lift = top_tokens(BY_HAND, WORDS, by="lift", count=2)
    assert tokens.tolist() == [["to", "be"], ["be", "or"]]
    assert (np.diff(lift) <= 0).all()
    tokens, share, _ = top_tokens(BY_HAND, WORDS, by="lift", min_count=2)
    assert tokens.tolist() == [["to", "be"], ["be", "to"]]
    np.testing.assert_allclose(share, [[0.625, 0.25], [0.5, 0.25]])  # "or" still counts in the mass
    assert top_tokens(BY_HAND, WORDS, min_count=3).tokens.shape == (2, 0)


@pytest.mark.parametrize("by", ["share", "lift"])
def test_they_are_those_of_a_slow_count(by):
    text = "but soft what light through yonder window breaks" * 3
    gamma = draw(2, len(text), 4)
    tokens, share, lift = top_tokens(gamma, text, count=5, by=by)
    for b in range(2):
        for k in range(4):
            mass = gamma[b, :, k].sum()
            shares = {t: sum(g for g, one in zip(gamma[b, :, k], text, strict=True) if one == t) / mass for t in text}
            lifts = {t: value / (text.count(t) / len(text)) for t, value in shares.items()}
            score = shares if by == "share" else lifts
            expected = sorted(score, key=lambda t, score=score: -score[t])[:5]
            assert tokens[b, k].tolist() == expected
            np.testing.assert_allclose(share[b, k], [shares[t] for t in expected], rtol=1e-12)
            np.testing.assert_allclose(lift[b, k], [lifts[t] for t in expected], rtol=1e-12)


def test_a_component_that_does_not_care_has_lifts_of_one():
    _, share, lift = top_tokens(np.full((6, 2), 0.5), "aaabbc")
    np.testing.assert_allclose(share, [[3 / 6, 2 / 6, 1 / 6]] * 2)
    np.testing.assert_allclose(lift, 1, rtol=1e-12)


def test_masked_tokens_are_no_tokens():
    mask = np.array([True, True, False, True, True])
    poisoned = np.where(mask[:, None], BY_HAND, np.nan)
    found, expected = top_tokens(poisoned, WORDS, mask), top_tokens(BY_HAND[mask], ["to", "be", "be", "to"])
    assert found.tokens.tolist() == expected.tokens.tolist()
    np.testing.assert_array_equal(found.share, expected.share)
    np.testing.assert_array_equal(found.lift, expected.lift)


def test_components_without_mass_and_texts_without_tokens():
    _, share, lift = top_tokens(hard([0, 0], 2), "ab")
    np.testing.assert_array_equal(share, [[0.5, 0.5], [0, 0]])
    np.testing.assert_array_equal(lift, [[1, 1], [0, 0]])
    assert top_tokens(np.zeros((3, 0, 2)), "").tokens.shape == (3, 2, 0)
    assert top_tokens([[1.0]], ["word"], count=0).share.shape == (1, 0)
    assert top_tokens([[1.0]], ["word"]).tokens.tolist() == [["word"]]
