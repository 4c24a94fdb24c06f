"""A row a system: the medians of its runs, or why there are none. Pure.

In: figures. Out: dicts that become JSON lines, and a table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from benchmarks.case import Case
from benchmarks.figures import Figures, Special

JsonRow = dict[str, Any]

_DIGITS = 4


def row_of(case: Case, system: str, found: Sequence[Figures], **told: object) -> JsonRow:
    """The row of a system that took part.

    Args:
        case: The case.
        system: Its name.
        found: Its runs, at least one.
        told: What is known of it besides.
    """
    row: JsonRow = {
        **_head(case, system),
        **told,
        "runs": len(found),
        "records": min(it.records for it in found),
        "ideal_s": _short(case.ideal_s) or None,
        "seconds": [_short(it.seconds) for it in found],
        "efficiency": _middle(it.efficiency for it in found),
        "first_record_s": [_short(it.first_record_s) for it in found],
        "out_of_order": _sum(it.out_of_order for it in found),
        "repeated": sum(it.repeated for it in found),
        "lost": sum(it.lost for it in found),
        "bytes_fetched": _middle(it.bytes_fetched for it in found),
        "cpu_worker_s": _middle(it.cpu_worker_s for it in found),
        "cpu_broker_s": _middle(it.cpu_broker_s for it in found),
        "resident_mb": _middle(it.resident_mb for it in found),
        "commit_bytes": _middle(it.commit_bytes for it in found),
    }
    for name in found[0].special:
        row[name] = combined([it.special[name] for it in found])
    if any(it.was_stopped for it in found):
        row["stopped"] = sum(it.was_stopped for it in found)
        row["note"] = "stopped after the time limit, judged by what it had handled"
    return row


def missing(case: Case, system: str, reason: str, *, is_unfit: bool = False) -> JsonRow:
    """The row of one that did not end, or, if `is_unfit`, never began: the case is not for it."""
    unfit = {"unfit": True} if is_unfit else {}
    return {**_head(case, system), "missing": reason, **unfit}


def combined(values: Sequence[Special]) -> Special:
    """Several runs' figure: the median of numbers, all items of lists, the median by name.

    >>> combined([1.0, 9.0, 2.0]), combined([[3.0], [4.0, 5.0]]), combined([{"a": 1.0}, {"a": 3.0}])
    (2.0, [3.0, 4.0, 5.0], {'a': 2.0})
    """
    if all(isinstance(value, list) for value in values):
        return [item for value in values if isinstance(value, list) for item in value]
    dicts = [value for value in values if isinstance(value, dict)]
    if dicts:
        return {name: _short(median(it[name] for it in dicts)) for name in dicts[0]}
    return _short(median(value for value in values if isinstance(value, (int, float))))


def with_ratios(rows: Sequence[JsonRow]) -> list[JsonRow]:
    """Rows of a case, with rates over that of the raw loop, and of at least once, beside them."""
    rates = {row["system"]: row["records_per_s"] for row in rows if "records_per_s" in row}
    if "raw" in rates:
        rows = [
            {**row, "of_raw": _short(row["records_per_s"] / rates["raw"])}
            if "records_per_s" in row
            else row
            for row in rows
        ]
    return [_with_ratio_of_pairs(row, rows) for row in rows]


def _with_ratio_of_pairs(row: JsonRow, rows: Sequence[JsonRow]) -> JsonRow:
    """With its rate over that of at least once: the median of the runs that were side by side."""
    bases = [it for it in rows if it["system"] in ("at-least-once", "ours") and "seconds" in it]
    if row["system"] != "exactly-once" or "seconds" not in row or not bases:
        return row
    [base, *_] = bases
    pairs = zip(base["seconds"], row["seconds"], strict=False)
    return {**row, "of_at_least_once": _short(median(one / other for one, other in pairs))}


def is_broken(row: JsonRow) -> bool:
    """Whether it lost something, broke an order that it promises, or did not end in time."""
    told = {**row, **row.get("figures", {})}
    if told.get("missing"):
        return not told.get("unfit")
    if "failed" in told or "stopped" in told:
        return True
    if any(told.get(name) for name in ("outputs_missing", "outputs_doubled", "outputs_behind")):
        return True
    return bool(told.get("lost") or (told.get("keeps_order") and told.get("out_of_order")))


def _head(case: Case, system: str) -> JsonRow:
    return {"case": case.name, **({"point": case.point} if case.point else {}), "system": system}


def _short(value: float) -> float:
    return round(value, _DIGITS)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _short(median(known)) if known else None


# ---- as text ------------------------------------------------------------------------------------


def _place(row: JsonRow) -> str:
    """Who, and at which point."""
    return f"{row['system']}, {row['point']}" if "point" in row else str(row["system"])


_BESIDES = (
    "others_done_s",
    "others_of_ideal",
    "latency_p50_ms",
    "latency_p99_ms",
    "latency_max_ms",
    "records_per_s",
    "of_raw",
    "of_at_least_once",
    "outputs_missing",
    "outputs_doubled",
    "outputs_behind",
    "steps_ms",
    "times_ideal",
    "all_begun_s",
    "repeats_median",
    "repeats_a_kill",
    "note",
)


def _besides(row: JsonRow) -> str:
    """The figures of its case alone, in words."""
    return ", ".join(f"{name} {_plain(row[name])}" for name in _BESIDES if name in row)


_COLUMNS: tuple[tuple[str, Callable[[JsonRow], str]], ...] = (
    ("system", _place),
    ("runs", lambda row: str(row["runs"])),
    ("seconds", lambda row: _number(median(row["seconds"]), 2)),
    ("efficiency", lambda row: _number(row["efficiency"], 2)),
    ("first record", lambda row: f"{median(row['first_record_s']):.2f} s"),
    ("lost", lambda row: str(row["lost"])),
    ("out of order", lambda row: _number(row["out_of_order"], 0)),
    ("again", lambda row: str(row["repeated"])),
    ("bytes fetched", lambda row: _number(row["bytes_fetched"], 2)),
    ("CPU", lambda row: _number(row["cpu_worker_s"], 1)),
    ("broker's CPU", lambda row: _number(row["cpu_broker_s"], 1)),
    ("MB", lambda row: _number(row["resident_mb"], 0)),
    ("besides", _besides),
)


def table(rows: Sequence[JsonRow]) -> str:
    """Markdown: a line a system, and a line with the reason for one that did not take part."""
    if any("figures" in row for row in rows):
        return _figures_table(rows)
    names = [name for name, _ in _COLUMNS]
    lines = [" | ".join(names), " | ".join(["---"] * len(names))]
    for row in rows:
        if "missing" in row:
            cells = [_place(row), *[""] * (len(names) - 2), row["missing"].replace("|", "/")]
        else:
            cells = [cell(row) for _, cell in _COLUMNS]
        lines.append(" | ".join(cells))
    return "".join(f"| {line} |\n" for line in lines)


def _figures_table(rows: Sequence[JsonRow]) -> str:
    """A line a figure, a column a point; points with other figures have a table of their own."""
    tables = []
    for names, alike in groupby(rows, key=lambda row: list(row["figures"])):
        points = list(alike)
        heads = [str(row.get("point", row["system"])) for row in points]
        lines = [" | ".join(["", *heads]), " | ".join(["---"] * (len(points) + 1))]
        lines += [
            " | ".join([name, *(_plain(row["figures"][name]) for row in points)]) for name in names
        ]
        tables.append("".join(f"| {line} |\n" for line in lines))
    return "\n".join(tables)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _plain(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
    if isinstance(value, dict):
        return " ".join(f"{name} {item:.3g}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(f"{item:,.0f}" for item in value)
    return str(value)
