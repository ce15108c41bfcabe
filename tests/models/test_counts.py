"""Counting the last few symbols, against the rule written out plainly, and against cutting the text in fact."""

import numpy as np
import pytest

from gma_ref.models.tasks.counts import contexts, counted_bits, mean_in_windows


def chance(seen, h, c, size):
    """p(c | h) by Witten and Bell's rule, as it is written."""
    shorter = chance(seen, h[1:], c, size) if h else 1 / size
    after = [seen[i] for i in range(len(h), len(seen)) if seen[i - len(h) : i] == h]
    different = len(set(after))
    return (after.count(c) + different * shorter) / (len(after) + different) if after else shorter


def texts(seed=0):
    draw = np.random.default_rng(seed)
    return draw.choice(5, p=[0.4, 0.3, 0.2, 0.05, 0.05], size=200), draw.integers(6, size=60)  # 5 is never seen


@pytest.mark.parametrize("order", [0, 1, 3])
def test_bits_are_those_of_the_rule(order):
    seen, text = texts()
    found = counted_bits(seen, text, 6, order)
    for back in range(order + 1):
        plain = [
            -np.log2(chance(seen.tolist(), text[i - back : i].tolist(), text[i], 6)) for i in range(order, len(text))
        ]
        np.testing.assert_allclose(found[back], plain)


def test_example_of_the_book():
    rows = counted_bits([0, 1, 0, 0, 1], [0, 1, 0], 2, 1)
    np.testing.assert_allclose(2**-rows, [[3 / 7, 4 / 7], [4 / 7, 11 / 14]])


def test_windows_hide_what_was_before_them():
    seen, text = texts(1)
    order, length = 3, 7
    expected = []
    for i in range(order, len(text)):
        first = (i - 1) // length * length  # the first input of the window whose target this is
        h = text[max(first, i - order) : i].tolist()
        expected.append(-np.log2(chance(seen.tolist(), h, text[i], 6)))
    rows = counted_bits(seen, text, 6, order)
    assert mean_in_windows(rows, length) == pytest.approx(np.mean(expected))
    assert mean_in_windows(rows, length) != pytest.approx(rows[-1].mean(), rel=1e-4)


def test_contexts_are_equal_where_the_tokens_are():
    text = [1, 2, 0, 1, 2, 2, 1, 2]
    code = contexts(text, 3, 2)
    assert [code[i] == code[0] for i in range(7 - 1)] == [True, False, False, True, False, False]
    np.testing.assert_array_equal(contexts(text, 3, 2, 4), code[2:])
    assert contexts(text, 3, 0).tolist() == [0] * 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((64, 3, 2), "start must leave 3 tokens before it, got 2"), ((64, 11), "back is too large for 64 symbols")],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        contexts([1, 2, 3], *arguments)
