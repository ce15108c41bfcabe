"""What GMA is meant to reach, one function a row: each a ratio of two things measured in turns in one run.

The bounds hold for float32, two threads, H = 4, d_r = d_v = K = 64 on a CPU. Under other settings the ratios are
measured too, and not judged.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .bench import Case

__all__ = ["TARGETS", "Target", "is_as_defined", "measure_targets"]


@dataclass(frozen=True)
class Target:
    """One row of the table.

    Attributes
    ----------
    name, title, at : str
        Its function's name, what it says, and where it is measured.
    measure : callable
        Of a `Bench`; returns a number, or its median and quartiles, or these and a note.
    bound : float or None
        None: the number is reported only.
    sense : str or None
        ``"<="`` or ``">="``.
    """

    name: str
    title: str
    at: str
    measure: Callable
    bound: float | None = None
    sense: str | None = None

    def verdict(self, value, judged):
        """Return ``"met"``, ``"not met"``, ``"reported"`` or ``"not judged"``."""
        if self.bound is None:
            return "reported"
        if not judged:
            return "not judged"
        return "met" if (value <= self.bound if self.sense == "<=" else value >= self.bound) else "not met"


TARGETS = []


def target(title, at, sense=None, bound=None):
    """Make a function of a `Bench` a row of the table."""

    def register(function):
        TARGETS.append(Target(function.__name__, title, at, function, bound, sense))
        return function

    return register


def gma(bench):
    """Return the faster of the two forms of GMA that "auto" chooses from: in C where that is there, else blocked."""
    native = bench.methods.get("gma_native")
    refused = native is None or native.missing or native.refuses(bench.settings.problem(1))
    return "gma" if refused else "gma_native"


@target("bidirectional forward / the floor", "N = 16,384", "<=", 1.5)
def bidirectional_over_floor(bench):
    """Compare the bidirectional form with its bare products."""
    return bench.ratio(Case(gma(bench), 16_384, causal=False), Case("floor", 16_384, causal=False))


@target("causal forward / the floor", "N = 16,384", "<=", 2.2)
def causal_over_floor(bench):
    """Compare the causal form with the bare products of the bidirectional one."""
    return bench.ratio(Case(gma(bench), 16_384), Case("floor", 16_384, causal=False))


@target("causal forward, SDPA / GMA", "N = 4,096", ">=", 5)
def softmax_over_gma_at_4096(bench):
    """Compare with dot-product attention, causally."""
    return bench.ratio(Case("sdpa", 4_096), Case(gma(bench), 4_096))


@target("causal forward, SDPA / GMA", "N = 16,384", ">=", 18)
def softmax_over_gma_at_16384(bench):
    """Compare with dot-product attention on a sequence four times as long."""
    return bench.ratio(Case("sdpa", 16_384), Case(gma(bench), 16_384))


@target("causal forward and backward, SDPA / GMA", "N = 4,096", ">=", 6)
def softmax_over_gma_in_training(bench):
    """Compare with dot-product attention in training."""
    return bench.ratio(Case("sdpa", 4_096, training=True), Case(gma(bench), 4_096, training=True))


@target("causal forward, cumulative sums / GMA", "N = 8,192", ">=", 40)
def cumulative_sums_over_gma(bench):
    """Compare with making every prefix memory."""
    return bench.ratio(Case("gma_cumulative", 8_192), Case(gma(bench), 8_192))


@target("forward and backward / forward, the larger of both forms", "N = 16,384", "<=", 3.5)
def training_over_forward(bench):
    """Compare training with the forward pass: bidirectional or causal, whichever costs more."""
    forms = {
        form: bench.ratio(Case(gma(bench), 16_384, causal, training=True), Case(gma(bench), 16_384, causal))
        for form, causal in (("bidirectional", False), ("causal", True))
    }
    note = ", ".join(f"{form} {median:.2f}" for form, (median, *_) in forms.items())
    return max(forms.values()), note


@target("crossover with causal SDPA, forward and backward", "N from 256 to 4,096", "<=", 1_024)
def crossover(bench):
    """Return the shortest length from which on GMA trains at least as fast, among powers of two."""
    lengths = (256, 512, 1_024, 2_048, 4_096)
    ratios = {
        N: bench.ratio(Case("sdpa", N, training=True), Case(gma(bench), N, training=True))[0] for N in reversed(lengths)
    }
    note = "SDPA / GMA: " + ", ".join(f"{ratios[N]:.2f} at {N:,}" for N in lengths)
    return first_faster(ratios), note


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
    q = bench.settings.problem(65_536).bytes_of_q
    forms = {
        form: bench.peak(Case(gma(bench), 65_536, causal, training=True)).over / q
        for form, causal in (("bidirectional", False), ("causal", True))
    }
    return max(forms.values()), ", ".join(f"{form} {value:.2f}" for form, value in forms.items())


@target("causal forward, H = 1, time / time at 100,000", "N = 1,000,000", "<=", 11)
def million_over_hundred_thousand(bench):
    """See whether a million tokens take ten times as long as a hundred thousand."""
    return bench.ratio(Case(gma(bench), 1_000_000), Case(gma(bench), 100_000), heads=1)


@target("causal forward, H = 1, peak memory beyond inputs and output, in GB", "N = 1,000,000", "<=", 1)
def memory_of_a_million(bench):
    """Measure what a million tokens need."""
    return bench.peak(Case(gma(bench), 1_000_000), heads=1).over / 1e9


@target("decoding step, GMA / SDPA with its cache", "position 100")
def step_at_100(bench):
    """Compare what a token costs early on."""
    return bench.ratio(Case("gma_step", 101), Case("sdpa_step", 101))


@target("decoding step, GMA / SDPA with its cache", "position 10,000", "<=", 0.1)
def step_at_10000(bench):
    """Compare what a token costs when the cache is long."""
    return bench.ratio(Case("gma_step", 10_001), Case("sdpa_step", 10_001))


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
    judged, rows, by = is_as_defined(bench.settings), [], bench.methods[gma(bench)].title
    for one in TARGETS if targets is None else targets:
        row = {"name": one.name, "title": one.title, "at": one.at, "bound": one.bound, "sense": one.sense}
        try:
            found, note = one.measure(bench), ""
            if isinstance(found, tuple) and isinstance(found[-1], str):
                found, note = found
            value, *quartiles = found if isinstance(found, tuple) else (found,)
            row |= {
                "value": None if value == float("inf") else value,
                "quartiles": quartiles or None,
                "verdict": one.verdict(value, judged),
                "note": f"{by}: {note}" if note else by,
            }
        except Exception as error:  # a row that cannot be had must not take the others with it
            row |= {"value": None, "quartiles": None, "verdict": "not measured", "note": bench.reason(error)}
        rows.append(row)
        if show:
            show(row)
    return rows
