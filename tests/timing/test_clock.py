"""Times of planted calls are the planted times, and everything takes its turn."""

import gc
import time

import pytest

from gma_ref.timing import Times, interleave, median_and_quartiles, ratio
from tests.timing.planted import Clock


def test_planted_sleeps_are_measured():
    times = interleave({"short": lambda: time.sleep(0.01), "long": lambda: time.sleep(0.05)}, repeats=5)
    assert min(times["short"].samples) >= 0.01
    assert min(times["long"].samples) >= 0.05
    # a busy machine wakes a sleeper late, but hardly every time
    assert min(times["short"].samples) < 0.04
    assert min(times["long"].samples) < 0.15


def test_planted_times_are_measured_exactly_by_a_clock_that_only_they_move():
    clock = Clock()
    times = interleave({"a": clock.call(0.25), "b": clock.call(3.0)}, repeats=4, clock=clock)
    assert times["a"] == Times((0.25,) * 4, 1)
    assert times["b"] == Times((3.0,) * 4, 1)


def test_order_is_interleaved_and_turns_back():
    clock, log = Clock(), []
    calls = {name: clock.call(1.0, log, name) for name in "abc"}
    interleave(calls, repeats=4, warmup=2, clock=clock)
    assert "".join(log) == "aaabbbccc" + "abc" + "cba" + "abc" + "cba"


def test_steady_drift_hits_all_alike():
    """Time of the machine grows with time itself; one after the other, the second would seem 40 times slower."""
    clock = Clock()
    calls = {"a": clock.call(1.0, drift=0.05), "b": clock.call(1.0, drift=0.05)}
    times = interleave(calls, repeats=10, clock=clock)
    median, first, third = ratio(times["a"], times["b"])
    assert median == pytest.approx(1, abs=0.06)
    assert first < 1 < third
    assert times["a"].samples[-1] > 2 * times["a"].samples[0]


def test_short_calls_are_repeated_within_a_sample():
    clock, log = Clock(), []
    times = interleave({"a": clock.call(1e-5, log, "a")}, repeats=3, least=2e-3, clock=clock)
    assert times["a"].calls == 200
    assert times["a"].median == pytest.approx(1e-5)
    assert len(log) == 1 + 3 + 3 * 200


@pytest.mark.parametrize(("first", "later", "calls"), [(10e-3, 1e-6, 2000), (1e-6, 1.4e-3, 2), (5e-3, 3e-3, 1)])
def test_a_sample_lasts_two_milliseconds_whatever_the_first_call_took(first, later, calls):
    clock, log = Clock(), []

    def call():
        clock.now += later if log else first
        log.append(None)

    times = interleave({"a": call}, repeats=3, clock=clock)["a"]
    assert times.calls == calls
    assert times.median == pytest.approx(later)
    assert times.median * times.calls > 1.999e-3


def test_what_gets_fewer_samples_takes_part_in_evenly_spread_rounds():
    clock, log = Clock(), []
    calls = {name: clock.call(1.0, log, name) for name in "ab"}
    times = interleave(calls, repeats={"a": 6, "b": 2}, clock=clock)
    assert "".join(log[4:]) == "a" + "a" + "ab" + "a" + "a" + "ba"
    assert [len(times[name].samples) for name in "ab"] == [6, 2]


def test_device_is_waited_for_before_and_after_each_sample():
    log = []
    interleave({"a": lambda: log.append("call")}, repeats=2, least=0, synchronise=lambda: log.append("wait"))
    assert log == ["wait", "call", "wait"] * 4


def test_work_that_runs_behind_the_call_belongs_to_it():
    """A call that returns before the device has finished, as on a GPU: without waiting it would seem free."""
    clock, queue = Clock(), []

    def synchronise():
        clock.now += sum(queue)
        queue.clear()

    times = interleave({"a": lambda: queue.append(2.0)}, repeats=3, synchronise=synchronise, clock=clock)
    assert times["a"].samples == (2.0, 2.0, 2.0)


def test_collector_of_cycles_is_off_during_samples_and_restored():
    states = []
    interleave({"a": lambda: states.append(gc.isenabled())}, repeats=2, least=0)
    assert gc.isenabled()
    assert states[-2:] == [False, False]
    with pytest.raises(ZeroDivisionError):
        interleave({"a": lambda: 1 / (len(states) < 7 and states.append(0) is None)}, repeats=9, least=0)
    assert gc.isenabled()


def test_median_and_quartiles_are_those_of_numpy():
    import numpy as np

    for numbers in ([3.0], [1.0, 2.0], [5.0, 1.0, 4.0], [2.0, 8.0, 4.0, 1.0, 9.0, 7.0]):
        expected = np.quantile(numbers, [0.5, 0.25, 0.75])
        np.testing.assert_allclose(median_and_quartiles(numbers), expected)


@pytest.mark.parametrize("bad", [{"calls": {}}, {"repeats": 0}, {"warmup": 0}, {"repeats": {"b": 3}}])
def test_nothing_to_time_is_refused(bad):
    arguments = {"calls": {"a": list}} | bad
    with pytest.raises(ValueError, match="at least 1 sample of each"):
        interleave(**arguments)
