"""Measurements as JSON files: written whole or not at all, and validated when they are read."""

import json
import math
import os
from pathlib import Path

import jsonschema

from .clock import median_and_quartiles
from .schema import OF_MODELS, SCHEMA

__all__ = ["measurements", "read", "record_of", "select", "write"]

# In an installed package the files lie within it, in a checkout beside the chapter
_FOLDERS = (Path(__file__).parent / "measurements", Path(__file__).parents[2] / "book" / "speed" / "measurements")


def write(path, record):
    """Write measurements to a file, once they have been found valid.

    Parameters
    ----------
    path : path-like
        The file; its folder is made if it is not there.
    record : dict
        As ``gma_ref.timing.schema`` has it: of attention by its `SCHEMA`, or of models by `OF_MODELS`.

    Raises
    ------
    ValueError
        If the measurements are not valid; an existing file stays as it was.
    """
    _validate(record, "the measurements")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(_lines(record) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def read(path):
    """Read measurements from a file.

    Parameters
    ----------
    path : path-like
        A file that `write` wrote.

    Returns
    -------
    dict
        ``provenance``, ``settings``, ``load``, ``methods``, ``checks``, ``runs``, ``times``, ``memory``, ``ceilings``,
        ``targets``, ``skipped``; of models what `gma_ref.timing.models.read` says. What was timed in turns has the
        number of one run. Times are in seconds, memory is in bytes.

    Raises
    ------
    ValueError
        If the file is not valid JSON, lacks an entry, or gives a median that its samples do not have.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except ValueError as error:
        raise ValueError(f"{Path(path).name} is not JSON: {error}") from error
    _validate(record, Path(path).name)
    return record


def measurements():
    """Return where the measurements lie that come with the book.

    Returns
    -------
    dict of str to Path
        By the file's name without its ending: ``read(measurements()["cpu"])``.
    """
    return {path.stem: path for folder in _FOLDERS for path in sorted(folder.glob("*.json"))}


def record_of(device):
    """Return the book's record of a device: that of a full run, else of a short one, else None.

    Parameters
    ----------
    device : str
        ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    dict or None
        As `read` returns it.
    """
    found = measurements()
    paths = [found[name] for name in (device, f"{device}-quick") if name in found]
    return read(paths[0]) if paths else None


def select(entries, **wanted):
    """Return those entries of a list whose fields have the given values: ``select(record["times"], tokens=512)``."""
    return [entry for entry in entries if all(entry[name] == value for name, value in wanted.items())]


def _refuse_constant(name):
    """Refuse NaN and infinity, which Python reads and JSON does not know."""
    raise ValueError(f"it holds {name}")


def _validate(record, name):
    """Raise ValueError, with the place, if a record does not fit the schema or contradicts itself."""
    of_models = isinstance(record, dict) and record.get("format") == OF_MODELS["properties"]["format"]["const"]
    schema = jsonschema.Draft202012Validator(OF_MODELS if of_models else SCHEMA)
    error = jsonschema.exceptions.best_match(schema.iter_errors(record))
    if error is not None:
        raise ValueError(f"{name} must fit the schema; at {error.json_path}: {error.message}")
    for place, entry in enumerate(record["times"]):
        expected = median_and_quartiles(entry["samples"])
        given = (entry["median"], *entry["quartiles"])
        if not all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(expected, given, strict=True)):
            raise ValueError(f"{name} must have medians and quartiles of its samples; at $.times[{place}] it has not")


def _lines(record):
    """Return the record as JSON with one line for each entry of its lists: short, and readable in a comparison."""
    parts = []
    for name, value in record.items():
        if isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(json.dumps(entry, allow_nan=False) for entry in value) + "\n ]"
        else:
            text = json.dumps(value, allow_nan=False)
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}"
