"""The learning rate: never 0 at the start, highest after the warm-up, then down a cosine."""

from itertools import pairwise

import pytest

from gma_ref.models.schedule import learning_rate_factor


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5])
def test_first_step_moves_the_weights(warmup):
    assert learning_rate_factor(0.0, warmup) > 0


def test_rate_rises_to_1_and_falls_to_its_end():
    factors = [learning_rate_factor(step / 1000, 0.1, 0.2) for step in range(1001)]
    top = factors.index(max(factors))
    assert top == 100
    assert factors[top] == 1
    assert all(before < after for before, after in pairwise(factors[:101]))
    assert all(before > after for before, after in pairwise(factors[100:]))
    assert factors[-1] == pytest.approx(0.2)
    assert factors[550] == pytest.approx(0.6)  # halfway down


def test_time_that_has_run_over_counts_as_the_end():
    assert learning_rate_factor(1.3, 0.1, 0.2) == learning_rate_factor(1.0, 0.1, 0.2)
