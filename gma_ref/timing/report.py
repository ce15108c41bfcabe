"""The tables that a run prints."""

from .curves import ratios
from .record import select

__all__ = ["models_table", "sizes_table", "target_line", "times_table"]


def target_line(row):
    """Return one row of the table of targets as a line."""
    bound = f"{row['sense']} {row['bound']:,g}" if row["bound"] is not None else ""
    value = "-" if row["value"] is None else _number(row["value"])
    spread = " to ".join(map(_number, row["quartiles"])) if row["quartiles"] else ""
    note = f"  ({row['note']})" if row["note"] else ""
    title = f"{row['program']}: {row['title']}, {row['at']}"
    return f"{row['verdict']:12} {value:>8} {bound:9} {spread:17} {title}{note}"


def _number(value):
    """Return a number with three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times_table(record, causal, training):
    """Return a sweep's medians of one form as a table in milliseconds: a line a length, a column a method.

    Parameters
    ----------
    record : dict
        Or anything with the list ``times`` of a `Bench`: ``{"times": bench.times}``.
    causal, training : bool

    Returns
    -------
    str
    """
    wanted = select(record["times"], part="sweep", causal=causal, training=training)
    names = list(dict.fromkeys(e["method"] for e in wanted))
    lengths = sorted({e["tokens"] for e in wanted})
    medians = {(e["method"], e["tokens"]): e["median"] * 1e3 for e in wanted}
    lines = [f"{'N':>9} " + " ".join(f"{name:>14}" for name in names)]
    for length in lengths:
        cells = (medians.get((name, length)) for name in names)
        lines.append(f"{length:>9,} " + " ".join(f"{'-' if ms is None else _number(ms):>14}" for ms in cells))
    title = f"{'causal' if causal else 'bidirectional'}, {'forward and backward' if training else 'forward'}, ms"
    return "\n".join((title, *lines))


def models_table(record, part, over="gma"):
    """Return one part of the times of models as a table: medians in ms, and ratios within one run to one of them.

    Parameters
    ----------
    record : dict
        Or anything with the list ``times`` of a `ModelBench`.
    part : {"step", "prefill", "decoding"}
    over : str
        The model that the others are compared with.

    Returns
    -------
    str
    """
    entries = select(record["times"], part=part)
    cells = {}
    for name in dict.fromkeys(entry["model"] for entry in entries):
        by_size = ratios(record, part, name, over=over)
        for entry in select(entries, model=name):
            size = entry["batch"], entry["tokens"]
            times = f" ×{_number(by_size[size][0])}" if size in by_size else ""
            cells[name, size] = f"{_number(entry['median'] * 1e3)}{times}"
    return _by_model(f"{part}, ms, × {over}", cells)


def sizes_table(entries, of, title, unit):
    """Return bytes of models as a table.

    Parameters
    ----------
    entries : list of dict
        The record's ``state`` or ``memory``.
    of, title : str
        The entry that is shown, and what it is called.
    unit : float
        Bytes of the unit.
    """
    cells = {(e["model"], (e["batch"], e["tokens"])): _number(e[of] / unit) for e in entries}
    return _by_model(title, cells)


def _by_model(title, cells):
    """Return a table with a line for each model and a column for each size."""
    names, sizes = (list(dict.fromkeys(keys)) for keys in zip(*cells, strict=True)) if cells else ((), ())
    lines = [f"{title:22} " + " ".join(f"{f'{batch} × {tokens:,}':>15}" for batch, tokens in sizes)]
    for name in names:
        lines.append(f"{name:22} " + " ".join(f"{cells.get((name, size), '-'):>15}" for size in sizes))
    return "\n".join(lines)
