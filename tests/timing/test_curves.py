"""Ratios of a record never mix runs."""

import pytest

from gma_ref.timing import curve, gains


def entry(method, tokens, run, samples, part="sweep", training=False):
    middle = sorted(samples)[len(samples) // 2]
    form = {"causal": True, "training": training, "part": part, "run": run}
    return {"method": method, "tokens": tokens, "samples": samples, "median": middle, "calls": 1} | form


RECORD = {
    "times": [
        entry("gma", 512, 1, [1.0, 2.0, 4.0]),
        entry("sdpa", 512, 1, [3.0, 6.0, 12.0]),
        entry("sdpa", 512, 2, [8.0, 8.0, 8.0], training=True),
        entry("gma", 4_096, 3, [2.0, 2.0, 2.0]),
        entry("sdpa", 4_096, 3, [20.0]),
        entry("gma", 2_048, 4, [1.0]),
        entry("sdpa", 2_048, 5, [9.0]),
        entry("gma", 512, 6, [50.0, 50.0, 50.0], part="targets"),
        entry("elu", 512, 6, [1.0, 1.0, 1.0], part="targets"),
    ]
}


def test_curve_is_of_the_sweep_alone():
    assert {N: found["median"] for N, found in curve(RECORD, "gma").items()} == {512: 2.0, 2_048: 1.0, 4_096: 2.0}
    assert list(curve(RECORD, "gma")) == [512, 2_048, 4_096]
    assert curve(RECORD, "elu") == {}
    assert curve(RECORD, "gma", causal=False) == {}


def test_gain_is_the_median_ratio_of_rounds_within_a_run():
    # at 2,048 the two are of different runs; at 4,096 they have different numbers of samples
    assert gains(RECORD, "sdpa") == {512: pytest.approx(3.0), 4_096: pytest.approx(10.0)}
    drifted = {"times": [entry("gma", 8, 1, [1.0, 10.0, 3.0]), entry("sdpa", 8, 1, [2.0, 20.0, 9.0])]}
    assert gains(drifted, "sdpa") == {8: pytest.approx(2.0)}  # of the medians it would be 3
    assert gains(drifted, "gma", over="sdpa") == {8: pytest.approx(0.5)}


def test_gain_in_training_needs_both_in_training():
    assert gains(RECORD, "sdpa", training=True) == {}
