"""The tables that a run prints."""

from .record import select

__all__ = ["target_line", "times_table"]


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
