"""Every method at every length, as far as it fits and as there is time; their memory; and the machine's own limits."""

import torch

from .bench import CALLS, Case, UnavailableError
from .clock import interleave

__all__ = ["ceilings", "compare_mixtures", "sweep_memory", "sweep_times"]


def sweep_times(bench, lengths, methods):
    """Time methods at several lengths, forward and with gradients; all of one length and form in turns.

    A method whose time at the lengths before says that three samples would take too long is left out from there on.

    Parameters
    ----------
    bench : Bench
    lengths : sequence of int
        In rising order.
    methods : sequence of str
    """
    last = {}  # (method, causal, training) -> the last length and its median
    for tokens in lengths:
        for causal in (False, True):
            ready = {}
            for name in methods:
                method = bench.methods[name]
                for training in (False, True) if method.trains else (False,):
                    case = Case(name, tokens, causal, training)
                    if causal not in method.causal:
                        continue
                    try:
                        _refuse_long(bench, case, method.growth, last.get(case[:1] + case[2:]))
                        prepared = bench.prepare(case)
                        last[case[:1] + case[2:]] = tokens, prepared[1]
                        # where the check took long too, there is no time for the rest
                        _refuse_long(bench, case, method.growth, (tokens, prepared[1] * (CALLS - 2) / CALLS))
                        ready[case] = prepared
                    except Exception as error:  # one method that fails must not take the others with it
                        bench.skip(case, error)
            repeats = {case: bench.samples(seconds) for case, (_, seconds, _) in ready.items()}
            times = bench.time(ready, repeats, part="sweep") if ready else {}
            for case, taken in times.items():
                last[case[:1] + case[2:]] = tokens, taken.median


def _refuse_long(bench, case, growth, before):
    """Raise UnavailableError if a case would take longer than it may, for its check, its warm-up and three samples."""
    if before is None:
        return
    length, seconds = before
    expected = CALLS * seconds * (case.tokens / length) ** growth
    if expected > bench.settings.seconds_per_point:
        raise UnavailableError(
            f"check and samples would take about {expected:.2g} s, more than {bench.settings.seconds_per_point:g} s"
        )


def sweep_memory(bench, lengths, methods):
    """Measure the peak memory of methods in training, causally, at several lengths.

    Parameters
    ----------
    bench : Bench
    lengths : sequence of int
    methods : sequence of str
    """
    for tokens in lengths:
        for name in methods:
            method = bench.methods[name]
            if method.trains and True in method.causal:
                case = Case(name, tokens, causal=True, training=True)
                try:
                    _refuse_long(bench, case, method.growth, _slowest(bench, case))
                    bench.peak(case)
                except Exception as error:  # one method that fails must not take the others with it
                    bench.skip(case, error)


def _slowest(bench, case):
    """Return the longest length at which a case was timed, and the share of one call of its time there, or None."""
    timed = [entry for entry in bench.times if all(entry[name] == value for name, value in _form(case).items())]
    if not timed:
        return None
    longest = max(timed, key=lambda entry: entry["tokens"])
    return longest["tokens"] * bench.settings.shrink, longest["median"] / CALLS  # there is one call


def compare_mixtures(bench, tokens):
    """Time GMA with the usual mixture and with a sharp one, causally, in turns.

    Parameters
    ----------
    bench : Bench
    tokens : int
    """
    names = [name for name in ("gma", "gma_sharp", "gma_blocked", "gma_blocked_sharp") if name in bench.methods]
    for training in (False, True):
        ready = {}
        for case in (Case(name, tokens, causal=True, training=training) for name in names):
            try:
                ready[case] = bench.prepare(case)
            except Exception as error:  # one method that fails must not take the others with it
                bench.skip(case, error)
        if ready:
            fewest = min(bench.samples(seconds) for _, seconds, _ in ready.values())
            bench.time(ready, dict.fromkeys(ready, fewest), part="mixtures")


def _form(case):
    return {"method": case.method, "causal": case.causal, "training": case.training}


def ceilings(bench):
    """Measure what the machine can do at most: a large product, and copying more than its caches hold.

    Returns
    -------
    dict
        ``product_flop_per_second``, of two square matrices of width 2,048, and ``copy_bytes_per_second``, read and
        written, of 268 MB: by the fastest sample of each, as a limit is not what is usual.
    """
    side, numbers = 2048 // bench.settings.shrink, 2**26 // bench.settings.shrink
    dtype = getattr(torch, bench.settings.dtype)
    a, b, c = (torch.ones(side, side, dtype=dtype, device=bench.settings.device) for _ in range(3))
    source, copy = (torch.ones(numbers, dtype=torch.float32, device=bench.settings.device) for _ in range(2))
    calls = {"product": lambda: torch.mm(a, b, out=c), "copy": lambda: copy.copy_(source)}
    with bench.threads():
        times = interleave(calls, repeats=bench.settings.repeats, synchronise=bench.synchronise)
    return {
        "product_flop_per_second": 2 * side**3 / min(times["product"].samples),
        "copy_bytes_per_second": 2 * source.nbytes / min(times["copy"].samples),
    }
