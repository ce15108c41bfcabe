"""Measure GMA against its floor, its targets and other methods: ``python -m gma_ref.timing``."""

import argparse
import contextlib
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from gma_ref._provenance import provenance, usable_processors

from .bench import Bench, Settings, all_methods
from .compiled import own_program
from .load import BusyError, under_watch
from .record import select, write
from .report import target_line, times_table
from .sweep import ceilings, compare_mixtures, sweep_memory, sweep_times
from .targets import measure_targets

LENGTHS = (256, 512, 1_024, 2_048, 4_096, 16_384, 65_536)
QUICK_LENGTHS = (256, 2_048, 8_192)
LIBRARIES = ("torch", "numpy", "performer-pytorch", "mambapy")
MIXTURES = 4_096  # tokens, for the two mixtures
PARTS = ("targets", "times", "memory")


def main(arguments=None):
    """Run the comparison; return the exit status: 1 if something was wrong, 2 if the machine was busy."""
    given = _arguments(arguments)
    settings = _settings(given)
    try:
        return _run(given, settings)
    except BusyError as error:
        print(f"Refused: {error}.", file=sys.stderr)
        return 2


def _run(given, settings):
    """Measure, print and write; return the exit status."""

    def measured():
        with own_program() if settings.device == "cpu" else contextlib.nullcontext() as said:
            if said:
                print(said)
            bench = Bench(settings, all_methods(), progress=sys.stderr.isatty())
            return bench, measure(bench, given.only)

    (bench, record), load = under_watch(measured, given.refuse_busy)
    record["load"] = load
    _say(record)
    path = _file(given, settings)
    write(path, record)
    print(f"\nWritten to {path}")
    for sentence in bench.wrong:
        print(f"Wrong: {sentence}", file=sys.stderr)
    return 1 if bench.wrong else 0


def measure(bench, parts=PARTS):
    """Measure the parts, print the table of targets as it grows, and return the record without its ``load``."""
    settings, on_cuda = bench.settings, bench.settings.device != "cpu"
    made = provenance(  # first: the checkout may change while the code that was loaded runs
        LIBRARIES,
        accelerator=torch.cuda.get_device_name() if on_cuda else None,
        float32_products=torch.get_float32_matmul_precision(),
    )
    swept = [name for name, method in bench.methods.items() if method.swept]
    print(_title(settings))
    for method in bench.methods.values():
        if method.missing:
            print(f"missing, and left out: {method.title} ({method.missing})")
    targets, limits = [], {}
    if "targets" in parts:
        targets = measure_targets(bench, show=lambda row: print(target_line(row), flush=True))
    if "times" in parts:
        limits = ceilings(bench)
        sweep_times(bench, QUICK_LENGTHS if settings.quick else LENGTHS, swept)
        compare_mixtures(bench, MIXTURES)
    if "memory" in parts:
        if settings.quick:
            swept = [name for name in ("gma", "gma_blocked", "gma_cumsum", "sdpa") if name in bench.methods]
        sweep_memory(bench, (2_048,) if settings.quick else (1_024, 4_096, 16_384, 65_536), swept)
    return {
        "format": "gma_ref.timing 1",
        "provenance": made,
        "settings": asdict(settings),
        "methods": [
            {"name": one.name, "title": one.title, "includes": one.includes, "missing": one.missing}
            for one in bench.methods.values()
        ],
        "checks": bench.checks,
        "runs": bench.runs,
        "times": bench.times,
        "memory": bench.memory,
        "ceilings": limits,
        "targets": targets,
        "skipped": bench.skipped,
    }


def _settings(given):
    """Return the settings that the arguments ask for."""
    chosen = {name: getattr(given, name) for name in ("device", "dtype", "shrink", "quick")}
    repeats = given.repeats or (5 if given.quick else 9)
    seconds = given.seconds or (2.0 if given.quick else 15.0)
    threads = min(given.threads, usable_processors())
    return Settings(threads=threads, repeats=repeats, seconds_per_point=seconds, **chosen)


def _title(settings):
    """Return the line that says what is measured where."""
    where = "CPU" if settings.device == "cpu" else torch.cuda.get_device_name()
    sizes = f"B = {settings.batch}, H = {settings.heads}, d = {settings.width}, K = {settings.components}"
    threads = f"{settings.threads} thread" + "s" * (settings.threads > 1)
    return f"{where}, {settings.dtype}, {threads}, {sizes}\n"


def _say(record):
    """Print the tables of times, what was left out, and how busy the machine was."""
    for causal in (False, True):
        for training in (False, True):
            if select(record["times"], part="sweep", causal=causal, training=training):
                print("\n" + times_table(record, causal, training))
    for entry in record["skipped"]:
        form = ("causal" if entry["causal"] else "bidirectional") + (", training" if entry["training"] else "")
        print(f"left out: {entry['method']}, {form}, N = {entry['tokens']:,}: {entry['reason']}")
    if record["load"]["busy"]:
        print(f"\nThe machine was busy: other programs used {record['load']['during']:.2f} processors.")


def _file(given, settings):
    """Return where the record goes: beside the chapter in a checkout, else here; a short run never over a full one."""
    folder = given.output or (Path("book/speed/measurements") if Path("book").is_dir() else Path())
    short = "" if set(given.only) == set(PARTS) and not given.quick and settings.shrink == 1 else "-quick"
    return folder / f"{settings.device}{short}.json"


def _arguments(arguments):
    parser = argparse.ArgumentParser(prog="python -m gma_ref.timing", description=__doc__.partition(":")[0] + ".")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "float64", "bfloat16", "float16"), default="float32")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch; the targets are for 2")
    parser.add_argument("--quick", action="store_true", help="the targets and a few lengths, within two minutes or so")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--repeats", type=int, help="samples of each, at most")
    parser.add_argument("--seconds", type=float, help="what one callable at one length may take")
    parser.add_argument("--shrink", type=int, default=1, help="divide every length, to try the program")
    parser.add_argument("--refuse-busy", action="store_true", help="stop if other programs use the processors")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where the JSON file goes")
    given = parser.parse_args(arguments)
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU here")
    return given


if __name__ == "__main__":
    sys.exit(main())
