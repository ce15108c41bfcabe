"""The comparison: what is missing is reported, what is slow is left out, targets say what they mean."""

import dataclasses
import math

import pytest

from gma_ref.pytorch import native
from gma_ref.timing import PeakMemory, bench, sweep
from gma_ref.timing.bench import Bench, Case, Settings, UnavailableError, all_methods
from gma_ref.timing.compiled import compiled, own_program
from gma_ref.timing.peers import _cannot_import
from gma_ref.timing.targets import TARGETS, Target, first_faster, is_as_defined, measure_targets

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
        one.peak(Case("gma_cumulative", 65_536, training=True))
    assert one.times == one.memory == []


def test_what_would_take_too_long_is_left_out_by_how_its_time_grows():
    one = make("sdpa", "elu", settings=dataclasses.replace(SMALL, seconds_per_point=10.0))
    # a second at 1,000 tokens: 5 calls at 2,000 take 10 s where time is linear, 20 s where it is quadratic
    sweep._refuse_long(one, Case("elu", 2_000), 1, (1_000, 1.0))
    with pytest.raises(UnavailableError, match="about 20 s, more than 10 s"):
        sweep._refuse_long(one, Case("sdpa", 2_000), 2, (1_000, 1.0))


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
    assert [one.samples(seconds) for seconds in (1e-6, 1.0, 2.0, 9.0)] == [9, 9, 4, 3]


def test_memory_of_a_case_is_what_a_fresh_process_says():
    one = make("gma_cumulative", settings=Settings(threads=1, heads=1))
    found = one.peak(Case("gma_cumulative", 8_192))
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
    """A bench that gives planted ratios, and remembers what it was asked."""

    def __init__(self, settings=None):
        self.asked, self.wrong, self.settings = [], [], settings or Settings()
        self.methods = {"gma": all_methods()["gma"]}

    def ratio(self, numerator, denominator, heads=None):
        self.asked.append((numerator, denominator, heads))
        return 2.0, 1.9, 2.1

    def peak(self, case, heads=None):
        self.asked.append((case, heads))
        return PeakMemory(3 * 2**26 + 7, 2**27 + 7)


def test_rows_are_those_of_the_table():
    told = Told()
    rows = {row["name"]: row for row in measure_targets(told)}
    assert len(rows) == len(TARGETS) == 13
    expected = {
        "bidirectional_over_floor": (1.5, 2.0, "not met"),
        "causal_over_floor": (2.2, 2.0, "met"),
        "softmax_over_gma_at_4096": (5, 2.0, "not met"),
        "softmax_over_gma_at_16384": (18, 2.0, "not met"),
        "softmax_over_gma_in_training": (6, 2.0, "not met"),
        "cumulative_sums_over_gma": (40, 2.0, "not met"),
        "training_over_forward": (3.5, 2.0, "met"),
        "crossover": (1024, 256, "met"),
        "memory_over_q": (1.5, 1.0, "met"),
        "million_over_hundred_thousand": (11, 2.0, "met"),
        "memory_of_a_million": (1, 2**26 / 1e9, "met"),
        "step_at_100": (None, 2.0, "reported"),
        "step_at_10000": (0.1, 2.0, "not met"),
    }
    assert {name: (row["bound"], row["value"], row["verdict"]) for name, row in rows.items()} == expected
    assert (Case("gma", 16_384, False), Case("floor", 16_384, False), None) in told.asked
    assert (Case("gma", 1_000_000), Case("gma", 100_000), 1) in told.asked
    assert (Case("gma", 65_536, True, True), None) in told.asked


def test_targets_are_judged_for_the_program_in_c_where_it_serves_and_say_so():
    gma, in_c = all_methods()["gma"], dataclasses.replace(all_methods()["gma_native"], missing=None)
    for methods, settings, title in (
        ({"gma": gma}, Settings(), "GMA blocked"),
        ({"gma": gma, "gma_native": dataclasses.replace(in_c, missing="no compiler")}, Settings(), "GMA blocked"),
        ({"gma": gma, "gma_native": in_c}, Settings(), "GMA native"),
        ({"gma": gma, "gma_native": in_c}, Settings(dtype="float64"), "GMA blocked"),
    ):
        told = Told(settings)
        told.methods = methods
        rows = {row["name"]: row["note"] for row in measure_targets(told)}
        assert all(note.startswith(title) for note in rows.values())
        used = {case.method for cases in told.asked for case in cases[:2] if isinstance(case, Case)}
        assert ("gma_native" in used, "gma" in used) == (title == "GMA native", title != "GMA native")


def test_program_in_c_is_compiled_for_the_run_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("GMA_REF_CACHE", str(tmp_path))
    compiler = native.library.compiler()
    with own_program():
        (method,) = compiled()
        assert (method.missing is None) == (compiler is not None)
    assert compiled()[0].missing
    assert not list(tmp_path.iterdir())


def test_program_in_c_is_left_out_where_it_cannot_be():
    bench = Bench(Settings(dtype="float64"), {"gma_native": dataclasses.replace(compiled()[0], missing=None)})
    with pytest.raises(UnavailableError, match="GMA native takes float32 on the CPU alone"):
        bench.prepare(Case("gma_native", 10))
    bench = Bench(Settings(), {"gma_native": dataclasses.replace(compiled()[0], missing="no C compiler")})
    with pytest.raises(UnavailableError, match="GMA native is missing: no C compiler"):
        bench.peak(Case("gma_native", 10))


def test_row_that_cannot_be_measured_says_why():
    one = make("elu", sdpa=dataclasses.replace(ABSENT, name="sdpa"), gma=all_methods()["gma"])
    chosen = [target for target in TARGETS if target.name == "softmax_over_gma_at_4096"]
    (row,) = measure_targets(one, targets=chosen)
    assert (row["verdict"], row["value"]) == ("not measured", None)
    assert row["note"] == "Absent is missing: ModuleNotFoundError: absent"
