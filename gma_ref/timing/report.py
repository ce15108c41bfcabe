"""The tables that a run prints."""

__all__ = ["target_line", "times_table"]


def target_line(row):
    """Return one row of the table of targets as a line."""
    bound = f"{row['sense']} {row['bound']:,g}" if row["bound"] is not None else ""
    value = "-" if row["value"] is None else _number(row["value"])
    spread = " to ".join(map(_number, row["quartiles"])) if row["quartiles"] else ""
    note = f"  ({row['note']})" if row["note"] else ""
    title = f"{row['title']}, {row['at']}"
    return f"{row['verdict']:12} {value:>8} {bound:9} {spread:17} {title}{note}"


def _number(value):
    """Return a number with three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times_table(record, causal, training):
    """Return the medians of one form as a table in milliseconds: a line for each length, a column for each method."""
    wanted = [e for e in record["times"] if e["causal"] == causal and e["training"] == training]
    wanted = [e for e in wanted if e["heads"] == record["settings"]["heads"]]
    names = [method["name"] for method in record["methods"] if any(e["method"] == method["name"] for e in wanted)]
    names = [name for name in names if not name.endswith("_step")]
    lengths = sorted({e["tokens"] for e in wanted if e["method"] in names})
    # measured twice, in the sweep and for a target: the later one stands
    medians = {(e["method"], e["tokens"]): e["median"] * 1e3 for e in wanted}
    lines = [f"{'N':>9} " + " ".join(f"{name:>14}" for name in names)]
    for length in lengths:
        cells = (medians.get((name, length)) for name in names)
        lines.append(f"{length:>9,} " + " ".join(f"{'-' if ms is None else _number(ms):>14}" for ms in cells))
    title = f"{'causal' if causal else 'bidirectional'}, {'forward and backward' if training else 'forward'}, ms"
    return "\n".join((title, *lines))
