"""Means over seeds, differences and verdicts, against NumPy and SciPy."""

import math

import numpy as np
import pytest

from gma_ref.models import summary

stats = pytest.importorskip("scipy.stats")

GMA = [2.438, 2.431, 2.447]
SOFTMAX = [2.421, 2.4165, 2.419, 2.430]


def log(mixer, seed, score, part="validation", **settings):
    result = {"stopped": "the budget is used up", "validation": None, "test": None} | {part: {"score": score}}
    return {"name": f"{mixer}-s{seed}", "settings": {"mixer": mixer, "seed": seed} | settings, "result": result}


def test_mean_is_that_of_numpy_and_its_error_that_of_scipy():
    found = summary.mean_of(GMA)
    assert found.value == pytest.approx(np.mean(GMA))
    assert found.standard_error == pytest.approx(stats.sem(GMA))
    assert found.count == 3
    assert f"{found:.3f}" == "2.439 ± 0.005"


def test_scores_of_groups_are_collected_over_the_runs():
    logs = [
        {"result": {"test": {"groups": {"Othello": {"score": one}, "Coriolanus": {"score": other}}}}}
        for one, other in ((0.5, 0.25), (0.75, 0.5))
    ]
    assert summary.group_scores(logs) == {"Othello": [0.5, 0.75], "Coriolanus": [0.25, 0.5]}


def test_difference_is_that_of_welch_by_scipy():
    found = summary.difference(GMA, SOFTMAX)
    welch = stats.ttest_ind(GMA, SOFTMAX, equal_var=False)
    assert found.value / found.standard_error == pytest.approx(welch.statistic)
    assert found.degrees == pytest.approx(welch.df)
    ends = welch.confidence_interval(0.95)
    assert found.interval(stats.t.ppf(0.975, found.degrees)) == pytest.approx((ends.low, ends.high))


def test_scores_that_are_all_alike_have_no_error():
    found = summary.difference([2.0, 2.0], [1.5, 1.5, 1.5])
    assert found == (0.5, 0.0, 3.0)
    assert found.interval(2.0) == (0.5, 0.5)
    assert summary.verdict(found.interval(2.0)) == "worse"


@pytest.mark.parametrize(
    ("interval", "in_bits", "in_accuracy"),
    [
        ((-0.03, -0.01), "better", "worse"),
        ((-0.03, 0.0), "not apart", "not apart"),
        ((-0.03, 0.01), "not apart", "not apart"),
        ((0.0, 0.03), "not apart", "not apart"),
        ((0.01, 0.03), "worse", "better"),
    ],
)
def test_verdict_needs_an_interval_without_zero(interval, in_bits, in_accuracy):
    assert summary.verdict(interval) == in_bits
    assert summary.verdict(interval, unit="accuracy") == in_accuracy


@pytest.mark.parametrize("shift", [0.0, 0.01, 0.02, -0.03])
def test_verdict_of_an_interval_by_student_is_that_of_welchs_test(shift):
    shifted = [score + shift for score in SOFTMAX]
    found = summary.difference(GMA, shifted)
    welch = stats.ttest_ind(GMA, shifted, equal_var=False)
    said = summary.verdict(found.interval(stats.t.ppf(0.975, found.degrees)))
    assert said == ("not apart" if welch.pvalue > 0.05 else "worse" if welch.statistic > 0 else "better")


def test_scores_come_by_group_in_the_order_of_the_seeds():
    logs = [log("gma", 2, 2.5), log("gma", 1, 2.4), log("softmax", 1, 2.3), log("gma", 3, 2.6)]
    assert summary.scores(logs) == {"gma": [2.4, 2.5, 2.6], "softmax": [2.3]}


def test_scores_are_of_the_part_and_the_settings_asked_for():
    logs = [log("gma", 1, 2.4, "test", lr=0.1), log("gma", 2, 2.5, "test", lr=0.2), log("gma", 3, 2.6, lr=0.3)]
    assert summary.scores(logs, "test", lr=0.1) == {"gma": [2.4]}
    assert summary.scores(logs[:2], "test", by="lr") == {0.1: [2.4], 0.2: [2.5]}
    assert summary.scores(logs, lr=0.3) == {"gma": [2.6]}


def test_run_without_a_score_is_not_left_out_in_silence():
    stopped = log("gma", 1, None)
    stopped["result"] |= {"stopped": "loss must be finite", "validation": None}
    with pytest.raises(ValueError, match="gma-s1 has not: loss must be finite"):
        summary.scores([stopped])
    with pytest.raises(ValueError, match="gma-s1 has not: not finished"):
        summary.scores([stopped | {"result": None}])


def test_trials_are_told_by_mixer_and_rate_and_one_that_diverged_is_the_worst():
    logs = [log("gma", 0, 2.5, lr=0.1), log("gma", 0, 2.4, lr=0.2), log("favor", 0, 2.3, lr=0.1)]
    diverged = log("favor", 0, None, lr=0.2)
    diverged["result"]["validation"] = None
    assert summary.trials([*logs, diverged]) == {"gma": {0.1: 2.5, 0.2: 2.4}, "favor": {0.1: 2.3, 0.2: math.inf}}


def test_changes_are_told_in_words():
    usual = {"num_components": 64, "qk_norm": True, "num_heads": 4, "mixture_lr_factor": 1.0, "mixer_options": {}}
    runs = [{}, {"qk_norm": False}, {"seed": 4}, {"mixture_lr_factor": 1e-4}, {"mixture_lr_factor": 5.0}]
    runs += [{"num_components": 16, "num_heads": 8}, {"mixer_options": {"initial_variance": 2.4}}]
    logs = [log("gma", **{"seed": 0, "score": score} | usual | run) for score, run in enumerate(runs)]
    assert summary.changes(logs, usual) == {
        "as it is": [0, 2],
        "no normalisation": [1],
        "not learned": [3],
        "rate of the mixture × 5": [4],
        "K = 16, 8 heads": [5],
        "variances begin at 2.4": [6],
    }


def test_every_change_of_the_books_experiments_has_its_own_words():
    from gma_ref.models.experiments import runs_of

    logs = [
        {"settings": settings.as_dict(), "result": {"validation": {"score": 2.4}}}
        for settings in runs_of("language-ablation")
    ]
    found = summary.changes(logs, logs[0]["settings"])
    assert len(found.pop("as it is")) == 3
    assert {len(scores) for scores in found.values()} == {1}


def test_one_score_has_no_spread():
    for refused in (lambda: summary.mean_of([2.4]), lambda: summary.difference(GMA, [2.4])):
        with pytest.raises(ValueError, match="at least two scores"):
            refused()


def test_interval_of_a_known_difference():
    low, high = summary.Difference(1.0, 0.5, 4.0).interval(2.0)
    assert (low, high) == (0.0, 2.0)
    assert math.isclose(high - low, 2.0)
