"""Times of several callables, taken in turns, so that whatever drifts hits all of them alike."""

import gc
import math
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass

from tqdm import tqdm

__all__ = ["Times", "interleave", "median_and_quartiles", "ratio"]


@dataclass(frozen=True)
class Times:
    """Seconds of one call, once per sample.

    Attributes
    ----------
    samples : tuple of float
        Seconds; where a sample is several calls, its time is divided by their number.
    calls : int
        Calls in a sample.
    """

    samples: tuple
    calls: int

    @property
    def median(self):
        """The median of the samples, in seconds."""
        return statistics.median(self.samples)

    @property
    def quartiles(self):
        """The first and the third quartile of the samples, in seconds."""
        return median_and_quartiles(self.samples)[1:]


def interleave(calls, *, repeats=7, warmup=1, least=2e-3, synchronise=None, progress=False, clock=time.perf_counter):
    """Time several callables in turns: A B C, C B A, A B C, ...

    Every other round runs backwards. A machine that slows down steadily (heat, a growing neighbour) then adds the same
    to the mean time of each, and each has both neighbours before it, so that no callable always finds the caches as
    the same other one left them.

    Parameters
    ----------
    calls : dict of str to callable
        What to time. The values that they return are dropped.
    repeats : int or dict of str to int
        Samples of each. A callable with fewer than another takes part in some rounds only, evenly spread.
    warmup : int
        Calls of each before the clock counts, at least one. One to three more calls, of which the shortest counts,
        tell how many make a sample.
    least : float
        Seconds that a sample should last at least. A shorter call is repeated within the sample.
    synchronise : callable, optional
        Waits until the device has finished: ``torch.cuda.synchronize``. It runs before and after each sample.
    progress : bool or str
        Show a progress bar, with this text before it.
    clock : callable
        Returns seconds.

    Returns
    -------
    dict of str to Times

    Raises
    ------
    ValueError
        If there is nothing to time, or a number of samples is not at least 1.
    """
    counts = dict(repeats) if isinstance(repeats, dict) else dict.fromkeys(calls, repeats)
    if not calls or set(counts) != set(calls) or min(counts.values()) < 1 or warmup < 1:
        raise ValueError("interleave must get something to time, at least 1 warm-up and at least 1 sample of each")
    synchronise = synchronise or _nothing
    per_sample = {name: _warm_up(call, warmup, least, synchronise, clock) for name, call in calls.items()}
    rounds = max(counts.values())
    samples = {name: [] for name in calls}
    label = progress if isinstance(progress, str) else None
    with tqdm(total=sum(counts.values()), desc=label, disable=not progress, leave=False) as bar, _no_collection():
        for turn in range(rounds):
            for name in list(calls) if turn % 2 == 0 else reversed(calls):
                if (turn + 1) * counts[name] // rounds > turn * counts[name] // rounds:
                    seconds = _sample(calls[name], per_sample[name], synchronise, clock)
                    samples[name].append(seconds / per_sample[name])
                    bar.update()
    return {name: Times(tuple(taken), per_sample[name]) for name, taken in samples.items()}


def median_and_quartiles(numbers):
    """Return the median, the first and the third quartile of some numbers."""
    if len(numbers) == 1:
        return (numbers[0],) * 3
    first, middle, third = statistics.quantiles(numbers, n=4, method="inclusive")
    return middle, first, third


def ratio(numerator, denominator):
    """Return median and quartiles of the ratios of samples that were taken in the same round.

    Parameters
    ----------
    numerator, denominator : Times
        From one call of `interleave`, with equally many samples.

    Returns
    -------
    tuple of float
        Median, first and third quartile. Two samples of one round lie close in time, so a slow minute cancels.
    """
    pairs = zip(numerator.samples, denominator.samples, strict=True)
    return median_and_quartiles([a / b for a, b in pairs])


def _nothing():
    """Wait for nothing: a CPU has finished when the call returns."""


def _warm_up(call, warmup, least, synchronise, clock):
    """Call a few times, and return how many calls last `least` seconds."""
    for _ in range(warmup):  # the first call may build something: what it takes says nothing of the next
        _sample(call, 1, synchronise, clock)
    seconds = _sample(call, 1, synchronise, clock)
    if seconds >= least:
        return 1
    seconds = min(seconds, *(_sample(call, 1, synchronise, clock) for _ in range(2)))
    # rounded up, but not for an error of rounding
    return max(1, min(10_000, math.ceil(least / max(seconds, 1e-7) - 1e-6)))


def _sample(call, calls, synchronise, clock):
    synchronise()
    start = clock()
    for _ in range(calls):
        call()
    synchronise()
    return clock() - start


@contextmanager
def _no_collection():
    """Keep Python's collector of cycles from running inside a sample."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
