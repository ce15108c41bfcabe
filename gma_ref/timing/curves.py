"""Curves of a record: times against length, and ratios, each within one run."""

from .clock import Times, ratio
from .record import select

__all__ = ["curve", "gains", "ratios"]


def curve(record, method, *, causal=True, training=False):
    """Return what a sweep found of a method.

    Parameters
    ----------
    record : dict
        As `read` returns it, or anything with the list ``times`` of a `Bench`.
    method : str
    causal, training : bool

    Returns
    -------
    dict of int to dict
        The entries by length. A sweep measures each once, so none is of another run than its neighbours in time.
    """
    found = select(record["times"], part="sweep", method=method, causal=causal, training=training)
    return {entry["tokens"]: entry for entry in sorted(found, key=lambda entry: entry["tokens"])}


def gains(record, other, *, over="gma", causal=True, training=False):
    """Return the time of one method over that of another, by length, where one run of a sweep has both.

    Parameters
    ----------
    record : dict
    other, over : str
        Numerator and denominator.
    causal, training : bool

    Returns
    -------
    dict of int to float
        The median of the ratios of the rounds, or the ratio of the medians where one of the two has fewer samples.
    """
    above, below = (curve(record, method, causal=causal, training=training) for method in (other, over))
    common = [N for N in above if N in below and above[N]["run"] == below[N]["run"]]
    return {N: _ratio(above[N], below[N]) for N in common}


def ratios(record, part, model, *, over="gma"):
    """Return the time of one model over that of another, by size, where one run has both.

    Parameters
    ----------
    record : dict
        As `gma_ref.timing.models.read` returns it, or anything with the list ``times`` of a `ModelBench`.
    part : {"step", "prefill", "decoding"}
    model, over : str
        Numerator and denominator.

    Returns
    -------
    dict of (int, int) to tuple of float
        By sequences and tokens of each: median, first and third quartile.
    """
    below = {(entry["run"], entry["tokens"]): entry for entry in select(record["times"], part=part, model=over)}
    found = {}
    for entry in select(record["times"], part=part, model=model):
        other = below.get((entry["run"], entry["tokens"]))
        if other is not None:
            found[entry["batch"], entry["tokens"]] = ratio(_times(entry), _times(other))
    return found


def _ratio(above, below):
    if len(above["samples"]) != len(below["samples"]):
        return above["median"] / below["median"]
    return ratio(_times(above), _times(below))[0]


def _times(entry):
    return Times(tuple(entry["samples"]), entry["calls"])
