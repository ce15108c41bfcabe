"""The comparison: what is missing is reported, what is slow is left out, targets say what they mean."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch

from gma_ref.pytorch import native
from gma_ref.timing import PeakMemory, Times, bench, sweep
from gma_ref.timing.bench import Bench, Case, Settings, UnavailableError, all_methods
from gma_ref.timing.compiled import own_program, program, without_program
from gma_ref.timing.peers import _cannot_import
from gma_ref.timing.target import Target
from gma_ref.timing.targets import TARGETS, first_faster, is_as_defined, measure_targets

SMALL = Settings(threads=1, repeats=3, heads=2, width=8, components=4)
ABSENT = dataclasses.replace(all_methods()["elu"], name="absent", title="Absent", missing="ModuleNotFoundError: absent")


def make(*names, settings=SMALL, **more):
    return Bench(settings, {**{name: all_methods()[name] for name in names}, **more})


def test_missing_library_is_found_missing():
    assert _cannot_import("no_such_library_at_all") == "ModuleNotFoundError: No module named 'no_such_library_at_all'"
    assert _cannot_import("json") is None


def test_missing_peer_is_reported_and_skipped_and_the_rest_is_measured():
    one = make("elu", absent=ABSENT)
    sweep.sweep_times(one, [64], ["elu", "absent"])
    assert {entry["method"] for entry in one.times} == {"elu"}
    assert len(one.times) == 4
    reasons = {entry["reason"] for entry in one.skipped if entry["method"] == "absent"}
    assert reasons == {"Absent is missing: ModuleNotFoundError: absent"}
    assert one.wrong == []


def test_method_that_fails_does_not_take_the_others_with_it():
    def prepare(inputs, causal, training):
        raise ZeroDivisionError("planted")

    broken = dataclasses.replace(all_methods()["elu"], name="broken", prepare=prepare)
    one = make("elu", broken=broken)
    sweep.sweep_times(one, [64], ["broken", "elu"])
    assert {entry["method"] for entry in one.times} == {"elu"}
    assert one.wrong == ["ZeroDivisionError: planted"] * 4


def test_what_does_not_fit_is_left_out_before_it_is_tried(monkeypatch):
    monkeypatch.setattr(Bench, "_free", lambda self: 1e9)
    one = make("gma_cumulative", settings=Settings(threads=1, repeats=3))
    with pytest.raises(UnavailableError, match=r"^it takes about \d+\.\d GB, and 1\.0 GB are free$"):
        one.compare([Case("gma_cumulative", 65_536)])
    with pytest.raises(UnavailableError):
        one.peak(Case("gma_cumulative", 65_536))
    assert one.times == one.memory == []


def test_what_would_take_too_long_is_left_out_by_how_its_time_grows():
    one = make("sdpa", "elu", settings=dataclasses.replace(SMALL, seconds_per_point=10.0))
    # a second at 1,000 tokens: 7 calls at 1,400 take 9.8 s where time is linear, 14 s where it is quadratic
    sweep._refuse_long(one, Case("elu", 1_400), 1, (1_000, 1.0))
    with pytest.raises(UnavailableError, match="check and samples would take about 14 s, more than 10 s"):
        sweep._refuse_long(one, Case("sdpa", 1_400), 2, (1_000, 1.0))


def test_all_samples_of_a_group_are_taken_in_one_run(monkeypatch):
    groups = []
    real = bench.interleave

    def spy(calls, **options):
        groups.append(set(calls))
        return real(calls, **options)

    monkeypatch.setattr(bench, "interleave", spy)
    sweep.sweep_times(make("floor", "elu"), [64, 128], ["floor", "elu"])
    forms = [(causal, training) for causal in (False, True) for training in (False, True)]
    for N, group in zip((64, 128), groups[::2], strict=True):
        assert group == {Case("elu", N, *form) for form in forms[:2]} | {Case("floor", N, False, False)}
    for N, group in zip((64, 128), groups[1::2], strict=True):
        assert group == {Case("elu", N, *form) for form in forms[2:]}


def test_slow_calls_get_fewer_samples_but_three():
    one = make("elu", settings=dataclasses.replace(SMALL, repeats=9, seconds_per_point=10.0))
    assert [one.samples(seconds) for seconds in (1e-6, 0.75, 1.25, 9.0)] == [9, 9, 4, 3]


def test_memory_of_a_case_is_what_a_fresh_process_says():
    one = make("gma_cumsum", settings=Settings(threads=1, heads=1))
    found = one.peak(Case("gma_cumsum", 8_192))
    q = 8_192 * 64 * 4
    assert found.held == q
    # the prefix memories have 64 numbers for each of q, and there is a temporary of that size
    assert 64 < found.over / q < 64 * 3
    (entry,) = one.memory
    assert (entry["tokens"], entry["heads"], entry["over"]) == (8_192, 1, found.over)


def test_shrinking_divides_every_length():
    settings = dataclasses.replace(SMALL, shrink=8)
    assert settings.problem(1024).tokens == 128
    assert not is_as_defined(dataclasses.replace(Settings(), shrink=8))


def test_bounds_hold_for_one_setting_only():
    assert is_as_defined(Settings())
    for change in ({"threads": 1}, {"heads": 8}, {"dtype": "bfloat16"}, {"device": "cuda"}, {"components": 32}):
        assert not is_as_defined(dataclasses.replace(Settings(), **change))


def test_verdicts():
    most, least = (Target("", "", "", None, 2.0, sense) for sense in ("<=", ">="))
    assert [most.verdict(value, True) for value in (1.9, 2.0, 2.1, math.inf)] == ["met", "met", "not met", "not met"]
    assert [least.verdict(value, True) for value in (1.9, 2.0, 2.1)] == ["not met", "met", "met"]
    assert most.verdict(1.0, False) == "not judged"
    assert Target("", "", "", None).verdict(5.0, True) == "reported"
    assert most.verdict(math.nan, True) == "not met"


def test_crossover_is_where_it_stays_faster():
    assert first_faster({256: 0.5, 512: 1.2, 1024: 1.5}) == 512
    assert first_faster({256: 1.5, 512: 0.9, 1024: 1.5}) == 1024
    assert first_faster({256: 1.5, 512: 1.0}) == 256
    assert first_faster({256: 1.5, 512: 0.9}) == math.inf


class Told:
    """A bench in which a case takes as many seconds as it is told, and which remembers what it was asked."""

    def __init__(self, settings=None, **seconds):
        self.asked, self.runs, self.wrong, self.settings, self.seconds = [], [], [], settings or Settings(), seconds
        self.methods = {"gma": all_methods()["gma"]}

    def compare(self, cases, heads=None, part=None):
        assert part == "targets"
        self.asked += [(case, heads) for case in cases]
        self.runs.append((list(cases), program(self.settings.problem(1))))
        return [Times((self.seconds.get(case.method, 1.0),) * 3, 1) for case in cases]

    def peak(self, case, heads=None):
        self.asked.append((case, heads))
        return PeakMemory(3 * 2**26 + 7, 2**27 + 7)


def test_rows_are_those_of_the_table():
    told = Told(gma=0.5, gma_step=2.0)
    rows = {row["name"]: row for row in measure_targets(told)}
    assert len(rows) == len(TARGETS) == 14
    expected = {
        "bidirectional_over_floor": (1.5, 0.5, "met"),
        "causal_over_floor": (2.2, 0.5, "met"),
        "softmax_over_gma_at_4096": (5, 2.0, "not met"),
        "softmax_over_gma_at_16384": (18, 2.0, "not met"),
        "softmax_over_gma_in_training": (6, 2.0, "not met"),
        "cumulative_sums_over_gma": (40, 2.0, "not met"),
        "cumsum_over_gma": (None, 2.0, "reported"),
        "training_over_forward": (3.5, 1.0, "met"),
        "crossover": (1024, 256, "met"),
        "memory_over_q": (1.5, 1.0, "met"),
        "million_over_hundred_thousand": (11, 1.0, "met"),
        "memory_of_a_million": (1, 2**26 / 1e9, "met"),
        "step_at_100": (None, 2.0, "reported"),
        "step_at_10000": (0.1, 2.0, "not met"),
    }
    assert {name: (row["bound"], row["value"], row["verdict"]) for name, row in rows.items()} == expected
    assert {(Case("gma", 16_384, False), None), (Case("floor", 16_384, False), None)} <= set(told.asked)
    assert {(Case("gma", 1_000_000), 1), (Case("gma", 100_000), 1)} <= set(told.asked)
    assert (Case("gma", 65_536, True, True), None) in told.asked
    assert (Case("gma_cumulative", 8_192), None) in told.asked


needs_compiler = pytest.mark.skipif(native.library.compiler() is None, reason="no C compiler here")


@pytest.fixture(scope="module")
def in_c():
    """Compile the program for these tests, and return the methods as they are then."""
    with own_program():
        yield all_methods()


@needs_compiler
def test_both_programs_are_judged_in_the_same_run_and_rows_say_which_is_which(in_c):
    told = Told(gma=0.5, gma_blocked=4.0, sdpa=2.0)
    told.methods = in_c
    rows = measure_targets(told)
    assert [row["program"] for row in rows] == ["in C", "in PyTorch"] * len(TARGETS)
    chosen = {row["program"]: row["value"] for row in rows if row["name"] == "softmax_over_gma_at_4096"}
    assert chosen == {"in C": 4.0, "in PyTorch": 0.5}
    together = [{case.method for case in run} for run, _ in told.runs if Case("sdpa", 16_384) in run]
    assert together == [{"sdpa", "gma", "gma_blocked"}]
    # a step has no name for the form in PyTorch: it is what is taken without the program
    assert [by for run, by in told.runs if Case("gma_step", 101) in run] == ["in C", "in PyTorch"]


@needs_compiler
def test_gma_in_pytorch_is_no_row_where_it_is_gma_itself(in_c):
    for methods, settings in ((in_c, Settings(dtype="float64")), (without(in_c), Settings())):
        told = Told(settings)
        told.methods = methods
        rows = measure_targets(told)
        assert {row["program"] for row in rows} <= {"in C", "in PyTorch"}
        assert len(rows) == len(TARGETS)
        assert "gma_blocked" not in {case.method for case, _ in told.asked}


def without(methods):
    with without_program():
        assert all_methods()["gma_blocked"].missing == "GMA is this form here"
        return methods | {"gma_blocked": all_methods()["gma_blocked"]}


@needs_compiler
def test_gma_is_timed_in_c_and_in_pytorch_and_says_what_it_is(in_c):
    bench = Bench(SMALL, in_c)
    bench.compare([Case("gma", 600), Case("gma_blocked", 600), Case("gma_step", 50)])
    with without_program():
        bench.compare([Case("gma", 600), Case("gma_step", 50)])
    assert [entry.get("variant") for entry in bench.times] == ["in C", None, "in C", "in PyTorch", "in PyTorch"]


def test_program_in_c_is_compiled_for_the_run_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("GMA_REF_CACHE", str(tmp_path))
    native.built.cache_clear()
    compiler = native.library.compiler()
    with own_program() as said:
        assert (native.missing() is None) == (compiler is not None)
        assert said.startswith("GMA's program in C: compiled" if compiler else "GMA without its program in C")
    assert native.missing()
    assert not list(tmp_path.iterdir())


def test_without_a_compiler_the_run_goes_on_and_says_why(monkeypatch):
    monkeypatch.setattr(native.library, "compiler", lambda: None)
    with own_program() as said:
        assert said.startswith("GMA without its program in C, in PyTorch's operations: ")
        assert "none was found" in said
        assert program(Settings().problem(1)) == "in PyTorch"
        assert not all_methods()["gma"].missing


def test_what_is_timed_in_turns_is_one_run_with_its_own_load(monkeypatch):
    loads = iter([0.25, 1.5])
    monkeypatch.setattr(bench, "Watch", lambda: SimpleNamespace(others=lambda: next(loads)))
    one = make("elu", "sdpa")
    one.compare([Case("elu", 32), Case("sdpa", 32)])
    one.compare([Case("elu", 64)], part="again")
    assert [(entry["run"], entry["part"], entry["method"], entry["tokens"]) for entry in one.times] == [
        (1, "compared", "elu", 32),
        (1, "compared", "sdpa", 32),
        (2, "again", "elu", 64),
    ]
    assert [(run["run"], run["part"], run["others"]) for run in one.runs] == [(1, "compared", 0.25), (2, "again", 1.5)]
    assert all(run["seconds"] > 0 for run in one.runs)


def test_threads_are_those_of_the_settings_while_something_runs_and_no_longer():
    seen, elu = [], all_methods()["elu"]

    def prepare(inputs, causal, training):
        prepared = elu.prepare(inputs, causal, training)

        def forward():
            seen.append(torch.get_num_threads())
            return prepared.forward()

        return dataclasses.replace(prepared, forward=forward)

    before = torch.get_num_threads()
    for threads in (1, 2):
        settings = dataclasses.replace(SMALL, threads=threads)
        watched = Bench(settings, {"elu": dataclasses.replace(elu, prepare=prepare)})
        seen.clear()
        watched.compare([Case("elu", 40)])
        assert set(seen) == {threads}
        assert torch.get_num_threads() == before


def test_what_has_one_slow_form_is_compared_with_it_once():
    one = make("gma", "gma_naive", "gma_cumsum", "elu")
    one.compare([Case(name, 40) for name in one.methods])
    assert {key[0] for key in one._slow} == {"gma", "elu"}


def test_sharp_mixtures_are_timed_beside_the_usual_one():
    one = make("gma", "gma_sharp")
    sweep.compare_mixtures(one, 64)
    assert [(entry["method"], entry["training"], entry["run"], entry["part"]) for entry in one.times] == [
        ("gma", False, 1, "mixtures"),
        ("gma_sharp", False, 1, "mixtures"),
        ("gma", True, 2, "mixtures"),
        ("gma_sharp", True, 2, "mixtures"),
    ]
    assert one.skipped == []


def test_row_that_cannot_be_measured_says_why():
    one = make("elu", sdpa=dataclasses.replace(ABSENT, name="sdpa"), gma=all_methods()["gma"])
    chosen = [target for target in TARGETS if target.name == "softmax_over_gma_at_4096"]
    (row,) = measure_targets(one, targets=chosen)
    assert (row["verdict"], row["value"]) == ("not measured", None)
    assert row["note"] == "Absent is missing: ModuleNotFoundError: absent"
