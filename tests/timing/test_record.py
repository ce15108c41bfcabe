"""Files of measurements: valid, the same after a round trip, never half written, refused when they are not valid."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from gma_ref._provenance import provenance
from gma_ref.timing import measurements, read, record_of, select, write
from gma_ref.timing.schema import OF_MODELS, SCHEMA

ROOT = Path(__file__).parents[2]
CASE = {"method": "gma", "tokens": 512, "causal": True, "training": False, "heads": 4}
RUN = {"run": 1, "part": "sweep"}


def record():
    return {
        "format": "gma_ref.timing 1",
        "provenance": provenance(("torch", "numpy", "no-such-library")),
        "settings": {
            "device": "cpu",
            "dtype": "float32",
            "threads": 2,
            "batch": 1,
            "heads": 4,
            "width": 64,
            "components": 64,
            "seed": 0,
            "repeats": 3,
            "seconds_per_point": 2.0,
            "shrink": 1,
            "quick": True,
        },
        "load": {"before": 0.0, "during": 0.1, "busy": False},
        "methods": [{"name": "gma", "title": "GMA", "includes": "all", "missing": None}],
        "checks": [CASE | {"what": "output", "error": 1e-7, "allowed": 5e-4}],
        "runs": [RUN | {"seconds": 0.7, "others": 0.05}],
        "times": [
            RUN | CASE | {"median": 0.2, "quartiles": [0.15, 0.25], "samples": [0.1, 0.3, 0.2], "calls": 1},
        ],
        "memory": [CASE | {"peak": 100, "held": 120, "over": -20}],
        "ceilings": {"copy_bytes_per_second": 1e10},
        "targets": [
            {
                "name": "crossover",
                "title": "crossover",
                "at": "N",
                "program": "in C",
                "value": None,
                "quartiles": None,
                "bound": 1024,
                "sense": "<=",
                "verdict": "not met",
                "note": "",
            }
        ],
        "skipped": [CASE | {"reason": "it does not fit"}],
    }


@pytest.mark.parametrize("schema", [SCHEMA, OF_MODELS])
def test_schema_is_one(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "new folder" / "cpu.json"
    write(path, record() | {"provenance": (made := provenance())})
    assert read(path) == record() | {"provenance": made}
    assert json.loads(path.read_text(encoding="utf-8"))["times"][0]["median"] == 0.2
    assert [one.name for one in path.parent.iterdir()] == ["cpu.json"]


def test_each_measurement_stands_on_a_line_of_its_own(tmp_path):
    twice = record()
    twice["times"] = 2 * twice["times"]
    write(tmp_path / "cpu.json", twice)
    lines = (tmp_path / "cpu.json").read_text(encoding="utf-8").splitlines()
    assert sum('"samples"' in line for line in lines) == 2


def spoil_median(made):
    made["times"][0]["median"] = 0.21


def spoil_format(made):
    made["format"] = "gma_ref.timing 0"


def leave_out(name):
    def spoil(made):
        del made[name]

    return spoil


def put(value, *place):
    def spoil(made):
        for step in place[:-1]:
            made = made[step]
        made[place[-1]] = value

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_median, r"medians and quartiles of its samples; at \$\.times\[0\]"),
        (spoil_format, r"at \$\.format"),
        (leave_out("load"), "'load' is a required property"),
        (put(-0.1, "times", 0, "samples", 0), r"\$\.times\[0\]\.samples\[0\]"),
        (put("quickly", "targets", 0, "verdict"), r"\$\.targets\[0\]\.verdict"),
        (put("my-machine", "provenance", "host"), "'host' was unexpected"),
        (put("/home/somebody", "provenance", "environment", "OMP_PATH"), "environment"),
        (put("yesterday", "provenance", "date"), r"\$\.provenance\.date"),
    ],
)
def test_invalid_measurements_are_neither_written_nor_read(tmp_path, spoil, said):
    spoilt, path = record(), tmp_path / "cpu.json"
    spoil(spoilt)
    write(path, record())
    before = path.read_bytes()
    with pytest.raises(ValueError, match=said):
        write(path, spoilt)
    assert path.read_bytes() == before
    path.write_text(json.dumps(spoilt), encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        read(path)


def test_what_is_not_json_is_refused(tmp_path):
    (tmp_path / "cpu.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"^cpu\.json is not JSON"):
        read(tmp_path / "cpu.json")


def test_entries_are_selected_by_their_fields():
    entries = [{"method": "a", "tokens": 1}, {"method": "b", "tokens": 1}, {"method": "a", "tokens": 2}]
    assert select(entries, method="a") == [entries[0], entries[2]]
    assert select(entries, method="a", tokens=2) == [entries[2]]


def test_full_record_of_a_device_goes_before_a_short_one(tmp_path, monkeypatch):
    monkeypatch.setattr("gma_ref.timing.record._FOLDERS", (tmp_path,))
    assert record_of("cuda") is None
    for name, repeats in (("cuda-quick", 3), ("cuda", 9)):
        made = record()
        made["settings"]["repeats"] = repeats
        write(tmp_path / f"{name}.json", made)
        assert record_of("cuda")["settings"]["repeats"] == repeats
    assert record_of("cpu") is None


def test_nan_is_neither_written_nor_read(tmp_path):
    spoilt, path = record(), tmp_path / "cpu.json"
    spoilt["ceilings"]["copy_bytes_per_second"] = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(path, spoilt)
    assert not list(tmp_path.iterdir())
    path.write_text(json.dumps(spoilt), encoding="utf-8")
    with pytest.raises(ValueError, match=r"^cpu\.json is not JSON: it holds NaN"):
        read(path)


def test_committed_measurements_are_valid_and_name_no_place():
    folder = ROOT / "book" / "speed" / "measurements"
    for path in (*folder.glob("cpu*.json"), *folder.glob("cuda*.json"), *folder.glob("models*.json")):
        assert read(path)["checks"], path.name
        assert not re.search(r"/(home|root|work|usr|tmp)\b|\\\\", path.read_text(encoding="utf-8")), path.name


def test_one_record_of_the_processor_is_committed():
    assert len(list((ROOT / "book" / "speed" / "measurements").glob("cpu*.json"))) == 1


def test_committed_measurements_are_found_by_name():
    folder = ROOT / "book" / "speed" / "measurements"
    found = measurements()
    assert found == {path.stem: path for path in folder.glob("*.json")}
    assert "initialisation" in found
