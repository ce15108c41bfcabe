"""What the logs of several runs say together: means over seeds, differences, and a verdict with its rule."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Difference", "Mean", "changes", "difference", "group_scores", "mean_of", "scores", "trials", "verdict"]

# How a setting that differs is called, with its value
_WORDS = {
    "num_components": "K = {}",
    "qk_norm": "no normalisation",
    "num_heads": "{} heads",
    "convolution": "no convolution",
    "mixture_lr_factor": "rate of the mixture × {:g}",
    "placement": "placed by a first batch",
    "initial_variance": "variances begin at {:g}",
    "num_features": "{} features",
    "shared_mixture": "one mixture for all",
}


class Mean(NamedTuple):
    """The mean of some scores, and how far it would move with other seeds."""

    value: float
    standard_error: float
    count: int

    def __format__(self, spec):
        """Write ``mean ± standard error``, both in the format asked for."""
        return f"{self.value:{spec}} ± {self.standard_error:{spec}}"


class Difference(NamedTuple):
    """The difference of two means, its standard error, and the degrees of freedom of Student's t for it."""

    value: float
    standard_error: float
    degrees: float

    def interval(self, quantile: float) -> tuple[float, float]:
        """Return the ends of an interval: so many standard errors to each side, such as a quantile of Student's t."""
        return self.value - quantile * self.standard_error, self.value + quantile * self.standard_error


def scores(logs: Iterable[dict], part: str = "validation", by: str = "mixer", **settings) -> dict:
    """Collect the final scores of runs.

    Parameters
    ----------
    logs : iterable of dict
        As `gma_ref.models.experiments.logs` returns them.
    part : {"validation", "test"}
    by : str
        The setting whose values tell the groups apart.
    **settings
        What the runs must have been made with; others are left out.

    Returns
    -------
    dict
        For each value of the setting the scores, in the order of the seeds.

    Raises
    ------
    ValueError
        If a run has no such score: to leave out those that went wrong would favour what goes wrong.
    """
    found = {}
    for log in sorted(logs, key=lambda log: log["settings"]["seed"]):
        if any(log["settings"][name] != value for name, value in settings.items()):
            continue
        result = (log["result"] or {}).get(part)
        if result is None:
            stopped = log["result"] and log["result"]["stopped"]
            raise ValueError(f"logs must have a {part} score, which {log['name']} has not: {stopped or 'not finished'}")
        found.setdefault(log["settings"][by], []).append(result["score"])
    return found


def group_scores(logs: Iterable[dict], part: str = "test") -> dict[str, list[float]]:
    """Collect the scores of each group of sequences, such as a play or a number of pairs.

    Parameters
    ----------
    logs : iterable of dict
        Runs that are alike but for their seeds.
    part : {"validation", "test"}

    Returns
    -------
    dict
        For each group the scores of the runs, in the order of the logs. Where the groups are plays, the spread of their
        means is the one that counts for another play: passages of one play are not independent.
    """
    found = {}
    for log in logs:
        for name, group in log["result"][part]["groups"].items():
            found.setdefault(name, []).append(group["score"])
    return found


def trials(logs: Iterable[dict], by: str = "mixer") -> dict:
    """Return for each value of a setting the validation score at each learning rate, infinite where a run diverged."""
    found = {}
    for log in logs:
        scored = (log["result"] or {}).get("validation")
        found.setdefault(log["settings"][by], {})[log["settings"]["lr"]] = scored["score"] if scored else math.inf
    return found


def changes(logs: Iterable[dict], usual: Mapping) -> dict[str, list[float]]:
    """Collect validation scores by what the runs do otherwise than usual, in words; "as it is" where nothing is.

    Parameters
    ----------
    logs : iterable of dict
        As `gma_ref.models.experiments.logs` returns them.
    usual : mapping
        The settings of a log, or those that count.

    Returns
    -------
    dict of str to list of float
        In the order of the logs. A learning rate of the mixture of at most a thousandth of the others' is called "not
        learned".
    """
    found = {}
    for log in logs:
        settings = {**log["settings"], **log["settings"]["mixer_options"]}
        said = [
            "not learned" if name == "mixture_lr_factor" and settings[name] <= 1e-3 else word.format(settings[name])
            for name, word in _WORDS.items()
            if name in settings and settings[name] != usual.get(name)
        ]
        found.setdefault(", ".join(said) or "as it is", []).append(log["result"]["validation"]["score"])
    return found


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of at least two scores, with its standard error s / √n."""
    _check("values", values)
    return Mean(statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)), len(values))


def difference(values: Sequence[float], others: Sequence[float]) -> Difference:
    r"""Return how much larger the mean of some scores is than that of others, by Welch's rule.

    .. math:: s^2 = \frac{s_1^2}{n_1} + \frac{s_2^2}{n_2}, \qquad
              \nu = \frac{s^4}{\frac{(s_1^2/n_1)^2}{n_1 - 1} + \frac{(s_2^2/n_2)^2}{n_2 - 1}}

    The two may spread differently, and are taken as independent: what they have in common, such as the text that they
    are judged by, is not used.

    Parameters
    ----------
    values, others : sequence of float
        Scores of runs that differ in their seeds, at least two each.

    Notes
    -----
    Source: Welch (1947).
    """
    _check("values", values), _check("others", others)
    squares = [statistics.variance(group) / len(group) for group in (values, others)]
    degrees = [len(group) - 1 for group in (values, others)]
    total = sum(squares)
    spread = sum(square**2 / degree for square, degree in zip(squares, degrees, strict=True))
    return Difference(
        statistics.fmean(values) - statistics.fmean(others),
        math.sqrt(total),
        total**2 / spread if spread else float(sum(degrees)),  # all alike: no spread to tell them apart by
    )


def verdict(interval: tuple[float, float], unit: str = "bits per character") -> str:
    """Say what a difference means for the first of the two.

    Parameters
    ----------
    interval : pair of float
        The differences that are compatible with the runs, as `Difference.interval` gives them with the quantile of
        Student's t for its degrees of freedom.
    unit : str
        That of the scores: bits should be few, accuracy should be high.

    Returns
    -------
    {"better", "not apart", "worse"}
        "not apart" if 0 is in the interval: these runs do not tell the two apart, which does not say that they are
        equal.
    """
    low, high = interval
    if low <= 0 <= high:
        return "not apart"
    return "better" if (low > 0) == (unit == "accuracy") else "worse"


def _check(name, values):
    if len(values) < 2:
        raise ValueError(f"{name} must be at least two scores, since one has no spread, got {len(values)}")
