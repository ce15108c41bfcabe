"""How busy other programs keep the machine: noted beside every measurement, and refused on request."""

import time

import psutil

from gma_ref._provenance import usable_processors

__all__ = ["BusyError", "Watch", "require_quiet", "under_watch", "watch_for"]

LIMIT = 0.1  # of the processors: above it a machine counts as busy


class BusyError(RuntimeError):
    """Other programs use the processors that are to be measured."""


class Watch:
    """Counts, from when it is made, the processor time that other programs take.

    What this process and its finished children use does not count; what a virtual machine's host takes away does.
    """

    def __init__(self):
        self._start = _counters()

    def others(self):
        """Return how many processors other programs have kept busy, on average: 1.0 is one of them all the time."""
        (wall, machine, own), (wall_0, machine_0, own_0) = _counters(), self._start
        if wall <= wall_0:
            return 0.0
        return max(0.0, (machine - machine_0 - (own - own_0)) / (wall - wall_0))

    def is_busy(self):
        """Return whether that is more than a tenth of the processors."""
        return self.others() > LIMIT * usable_processors()


def require_quiet(watch, when):
    """Raise BusyError if a watch saw a busy machine.

    Parameters
    ----------
    watch : Watch
        Or anything with its two methods.
    when : str
        For the sentence: "before the first measurement".
    """
    if watch.is_busy():
        raise BusyError(
            f"other programs kept {watch.others():.2f} of {usable_processors()} processors busy {when}, "
            f"the limit is {LIMIT * usable_processors():.2f}"
        )


def watch_for(seconds):
    """Return a watch that has looked at the machine for some seconds in which this process sleeps."""
    watch = Watch()
    time.sleep(seconds)
    return watch


def under_watch(measure, refuse_busy=False):
    """Measure, and see how busy other programs keep the machine before and meanwhile.

    Parameters
    ----------
    measure : callable
        Without arguments.
    refuse_busy : bool
        Whether a busy machine is refused: before anything is measured, and again at the end.

    Returns
    -------
    measured
        What `measure` returns.
    load : dict
        The record's ``load``.

    Raises
    ------
    BusyError
        If the machine is busy and that is refused.
    """
    before = watch_for(1.0)
    if refuse_busy:
        require_quiet(before, "before the first measurement")
    noted, watch = before.others(), Watch()
    measured = measure()
    if refuse_busy:
        require_quiet(watch, "during the measurements")
    return measured, {"before": noted, "during": watch.others(), "busy": watch.is_busy()}


def _counters():
    """Return wall time, the processor time of the whole machine, and that of this process and its children."""
    machine = psutil.cpu_times()
    busy = sum(getattr(machine, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
    own = psutil.Process().cpu_times()
    children = getattr(own, "children_user", 0.0) + getattr(own, "children_system", 0.0)
    return time.monotonic(), busy, own.user + own.system + children
