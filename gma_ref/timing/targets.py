"""What GMA is meant to reach, one function a row: each a ratio of two things measured in turns in one run.

The bounds hold for float32, two threads, H = 4, d_r = d_v = K = 64 on a CPU. Under other settings the ratios are
measured too, and not judged.
"""

import contextlib

from .bench import Case
from .clock import ratio
from .compiled import program, without_program
from .target import Target

__all__ = ["TARGETS", "first_faster", "is_as_defined", "measure_targets", "programs"]


TARGETS = []


def target(title, at, sense=None, bound=None):
    """Make a function of a `Bench` a row of the table for each program of GMA."""

    def register(function):
        TARGETS.append(Target(function.__name__, title, at, function, bound, sense))
        return function

    return register


def programs(bench):
    """Return the programs of GMA to be measured: what "auto" takes, and beside the one in C that in PyTorch."""
    problem, names = bench.settings.problem(1), ["gma"]
    beside = bench.methods.get("gma_blocked")
    if beside and not beside.missing and not beside.refuses(problem):
        names.append(beside.name)
    return names


def in_turns(bench, pair, heads=None):
    """Return the ratio of two cases for each program of GMA, all of them timed in one run.

    Parameters
    ----------
    bench : Bench
    pair : callable
        Returns numerator and denominator, given the program's name.
    heads : int, optional

    Returns
    -------
    dict of str to tuple of float
        Median, first and third quartile.
    """
    pairs = {name: pair(name) for name in programs(bench)}
    # by length, so that the inputs of a length are made once
    cases = sorted({case for both in pairs.values() for case in both}, key=lambda case: (case.tokens, case))
    times = dict(zip(cases, bench.compare(cases, heads, part="targets"), strict=True))
    return {name: ratio(times[above], times[below]) for name, (above, below) in pairs.items()}


@target("bidirectional forward / the floor", "N = 16,384", "<=", 1.5)
def bidirectional_over_floor(bench):
    """Compare the bidirectional form with its bare products."""
    return in_turns(bench, lambda gma: (Case(gma, 16_384, causal=False), Case("floor", 16_384, causal=False)))


@target("causal forward / the floor", "N = 16,384", "<=", 2.2)
def causal_over_floor(bench):
    """Compare the causal form with the bare products of the bidirectional one."""
    return in_turns(bench, lambda gma: (Case(gma, 16_384), Case("floor", 16_384, causal=False)))


@target("causal forward, SDPA / GMA", "N = 4,096", ">=", 5)
def softmax_over_gma_at_4096(bench):
    """Compare with dot-product attention, causally."""
    return in_turns(bench, lambda gma: (Case("sdpa", 4_096), Case(gma, 4_096)))


@target("causal forward, SDPA / GMA", "N = 16,384", ">=", 18)
def softmax_over_gma_at_16384(bench):
    """Compare with dot-product attention on a sequence four times as long."""
    return in_turns(bench, lambda gma: (Case("sdpa", 16_384), Case(gma, 16_384)))


@target("causal forward and backward, SDPA / GMA", "N = 4,096", ">=", 6)
def softmax_over_gma_in_training(bench):
    """Compare with dot-product attention in training."""
    return in_turns(bench, lambda gma: (Case("sdpa", 4_096, training=True), Case(gma, 4_096, training=True)))


@target("causal forward, cumulative sums row by row / GMA", "N = 8,192", ">=", 40)
def cumulative_sums_over_gma(bench):
    """Compare with making every prefix memory, in the fastest order of plain PyTorch."""
    return in_turns(bench, lambda gma: (Case("gma_cumulative", 8_192), Case(gma, 8_192)))


@target("causal forward, cumulative sums by torch.cumsum / GMA", "N = 8,192")
def cumsum_over_gma(bench):
    """Compare with making every prefix memory by the function of that name."""
    return in_turns(bench, lambda gma: (Case("gma_cumsum", 8_192), Case(gma, 8_192)))


@target("forward and backward / forward, the larger of both forms", "N = 16,384", "<=", 3.5)
def training_over_forward(bench):
    """Compare training with the forward pass: bidirectional or causal, whichever costs more."""
    forms = {
        form: in_turns(
            bench, lambda gma, causal=causal: (Case(gma, 16_384, causal, training=True), Case(gma, 16_384, causal))
        )
        for form, causal in (("bidirectional", False), ("causal", True))
    }
    return {
        name: (
            *max(found[name] for found in forms.values()),
            ", ".join(f"{form} {found[name][0]:.2f}" for form, found in forms.items()),
        )
        for name in programs(bench)
    }


@target("crossover with causal SDPA, forward and backward", "N from 256 to 4,096", "<=", 1_024)
def crossover(bench):
    """Return the shortest length from which on GMA trains at least as fast, among powers of two."""
    ratios = {
        N: in_turns(bench, lambda gma, N=N: (Case("sdpa", N, training=True), Case(gma, N, training=True)))
        for N in (4_096, 2_048, 1_024, 512, 256)
    }
    found = {}
    for name in programs(bench):
        of_one = {N: ratios[N][name][0] for N in sorted(ratios)}
        note = "SDPA / GMA: " + ", ".join(f"{value:.2f} at {N:,}" for N, value in of_one.items())
        found[name] = first_faster(of_one), note
    return found


def first_faster(ratios):
    """Return the least length at and above which every ratio is at least 1, or infinity."""
    found = float("inf")
    for length in sorted(ratios, reverse=True):
        if ratios[length] < 1:
            break
        found = length
    return found


@target("peak memory, forward and backward, beyond inputs, outputs and gradients / size of q", "N = 65,536", "<=", 1.5)
def memory_over_q(bench):
    """Measure what a training step needs for itself: bidirectional or causal, whichever needs more."""
    q, found = bench.settings.problem(65_536).bytes_of_q, {}
    for name in programs(bench):
        forms = {
            form: bench.peak(Case(name, 65_536, causal, training=True)).over / q
            for form, causal in (("bidirectional", False), ("causal", True))
        }
        found[name] = max(forms.values()), ", ".join(f"{form} {value:.2f}" for form, value in forms.items())
    return found


@target("causal forward, H = 1, time / time at 100,000", "N = 1,000,000", "<=", 11)
def million_over_hundred_thousand(bench):
    """See whether a million tokens take ten times as long as a hundred thousand."""
    return in_turns(bench, lambda gma: (Case(gma, 1_000_000), Case(gma, 100_000)), heads=1)


@target("causal forward, H = 1, peak memory beyond inputs and output, in GB", "N = 1,000,000", "<=", 1)
def memory_of_a_million(bench):
    """Measure what a million tokens need."""
    return {name: bench.peak(Case(name, 1_000_000), heads=1).over / 1e9 for name in programs(bench)}


@target("decoding step, GMA / SDPA with its cache", "position 100")
def step_at_100(bench):
    """Compare what a token costs early on."""
    return _step(bench, 101)


@target("decoding step, GMA / SDPA with its cache", "position 10,000", "<=", 0.1)
def step_at_10000(bench):
    """Compare what a token costs when the cache is long."""
    return _step(bench, 10_001)


def _step(bench, tokens):
    """Compare a step by what GMA takes, and again, in a run of its own, without the program in C."""
    found = {}
    for name in programs(bench):
        with without_program() if name == "gma_blocked" else contextlib.nullcontext():
            times = bench.compare([Case("gma_step", tokens), Case("sdpa_step", tokens)], part="targets")
        found[name] = ratio(*times)
    return found


def is_as_defined(settings):
    """Return whether the settings are those for which the bounds hold."""
    sizes = settings.batch, settings.heads, settings.width, settings.components, settings.threads, settings.shrink
    return (settings.device, settings.dtype, *sizes) == ("cpu", "float32", 1, 4, 64, 64, 2, 1)


def measure_targets(bench, show=None, targets=None):
    """Measure each target, and return the rows of the table.

    Parameters
    ----------
    bench : Bench
    show : callable, optional
        Is given each row as soon as it is there.
    targets : sequence of Target, optional
        By default all of them.

    Returns
    -------
    list of dict
        As in the record. A row that could not be measured says why in ``note``.
    """
    judged, rows = is_as_defined(bench.settings), []
    named = {"gma": program(bench.settings.problem(1)), "gma_blocked": "in PyTorch"}
    for one in TARGETS if targets is None else targets:
        common = {"name": one.name, "title": one.title, "at": one.at, "bound": one.bound, "sense": one.sense}
        try:
            made = [
                common | {"program": named[name]} | one.values(found, judged)
                for name, found in one.measure(bench).items()
            ]
        except Exception as error:  # a row that cannot be had must not take the others with it
            nothing = {"value": None, "quartiles": None, "verdict": "not measured", "note": bench.reason(error)}
            made = [common | {"program": named["gma"]} | nothing]
        rows += made
        if show:
            for row in made:
                show(row)
    return rows
