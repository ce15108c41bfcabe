"""A busy machine is noticed, and refused on request."""

import subprocess
import sys
import time

import pytest

from gma_ref._provenance import usable_processors
from gma_ref.timing import BusyError, Watch, load, require_quiet, watch_for


class Counters:
    """Planted counters: wall time, the machine's processor time, this program's."""

    def __init__(self, *readings):
        self.readings = list(readings)

    def __call__(self):
        return self.readings.pop(0)


@pytest.mark.parametrize(
    ("machine", "own", "others"), [(10.0, 0.0, 1.0), (10.0, 10.0, 0.0), (15.0, 10.0, 0.5), (3.0, 3.1, 0)]
)
def test_only_what_others_use_counts(monkeypatch, machine, own, others):
    monkeypatch.setattr(load, "_counters", Counters((100.0, 50.0, 7.0), (110.0, 50.0 + machine, 7.0 + own)))
    assert Watch().others() == pytest.approx(others)


def test_another_busy_program_is_seen_and_refused():
    busy = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        busy.stdout.readline()
        watch = watch_for(2.0)
        assert watch.others() > 0.1
    finally:
        busy.kill()
        busy.wait()
        busy.stdout.close()


def test_own_work_is_counted_as_such():
    (_, machine_0, own_0), end = load._counters(), time.process_time() + 0.5
    while time.process_time() < end:
        pass
    _, machine, own = load._counters()
    assert own - own_0 >= 0.45
    assert machine - machine_0 >= own - own_0 - 0.1  # it is a part of what the machine did


class Planted:
    def __init__(self, others):
        self._others = others

    def others(self):
        return self._others

    def is_busy(self):
        return self._others > 0.1 * usable_processors()


def test_busy_machine_is_refused_with_the_figure():
    with pytest.raises(BusyError, match=r"^other programs kept 7\.50 of \d+ processors busy before the first"):
        require_quiet(Planted(7.5), "before the first measurement")
    require_quiet(Planted(0.01), "before the first measurement")


def test_limit_is_a_tenth_of_the_processors(monkeypatch):
    monkeypatch.setattr(load, "usable_processors", lambda: 8)
    for used, busy in ((0.7, False), (0.9, True)):
        monkeypatch.setattr(load, "_counters", Counters((0.0, 0.0, 0.0), (10.0, 10 * used, 0.0)))
        assert Watch().is_busy() == busy
