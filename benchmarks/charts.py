"""The charts, drawn by matplotlib. What is drawn is picked out of the rows by pure functions.

In: rows. Out: an SVG file each; none where the rows have nothing to show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rows import JsonRow

Series = dict[str, list[tuple[float, float]]]
"""Points by the name of a line."""

_SIZE_INCHES = (8, 4.5)
_OURS = "ours"


# ---- what is drawn ------------------------------------------------------------------------------


def efficiencies(rows: Sequence[JsonRow]) -> Series:
    """Of `sweep`: efficiency by milliseconds of work, a line for each system and width."""
    lines: Series = {}
    for row in rows:
        if row["case"] == "sweep" and row.get("efficiency") is not None:
            work, _, width = row["point"].partition(", ")
            point = float(work.removesuffix(" ms")), float(row["efficiency"])
            lines.setdefault(f"{row['system']}, {width}", []).append(point)
    return {name: sorted(points) for name, points in lines.items()}


def latencies(rows: Sequence[JsonRow]) -> Series:
    """Of `live`: the share of records that were done within so many milliseconds."""
    return {
        row["system"]: [(ms, float(share)) for share, ms in row["latency_quantiles_ms"].items()]
        for row in rows
        if "latency_quantiles_ms" in row
    }


def repeats(rows: Sequence[JsonRow]) -> dict[str, list[float]]:
    """Of `crash` and `crashslow`: the records that came again after each kill."""
    return {
        f"{row['system']}\n{row['case']}": row["repeats_a_kill"]
        for row in rows
        if row.get("repeats_a_kill")
    }


def bytes_a_commit(rows: Sequence[JsonRow]) -> Series:
    """Of `gaps`: the size of a progress record by records in flight."""
    return {
        row["system"]: [(float(count), size) for count, size in row["bytes_a_commit"].items()]
        for row in rows
        if "bytes_a_commit" in row
    }


# ---- how ----------------------------------------------------------------------------------------


def draw_efficiencies(rows: Sequence[JsonRow], path: Path) -> bool:
    """A line for each system and width. False: there is nothing to draw."""
    lines = efficiencies(rows)
    with_work = {name: [it for it in line if it[0] > 0] for name, line in lines.items()}
    return _draw_lines(
        with_work, path, x="ms of work a record", y="efficiency", log_x=True, marked=True
    )


def draw_latencies(rows: Sequence[JsonRow], path: Path) -> bool:
    """A line for each system. False: there is nothing to draw."""
    return _draw_lines(
        latencies(rows), path, x="ms until a record is done", y="share of records", log_x=True
    )


def draw_repeats(rows: Sequence[JsonRow], path: Path) -> bool:
    """All kills of each system, and their median. False: there is nothing to draw."""
    found = repeats(rows)
    if not found:
        return False
    figure, axes = _paper()
    for place, values in enumerate(found.values()):
        axes.plot([place] * len(values), values, "o", alpha=0.6, color="tab:blue")
        axes.plot([place - 0.3, place + 0.3], [median(values)] * 2, color="black")
    axes.set_xticks(range(len(found)), list(found), fontsize=7)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylabel("records again after a kill -9")
    return _save(figure, path)


def draw_bytes(rows: Sequence[JsonRow], path: Path) -> bool:
    """One line. False: there is nothing to draw."""
    return _draw_lines(
        bytes_a_commit(rows),
        path,
        x="records in flight",
        y="bytes a commit",
        log_x=True,
        log_y=True,
        marked=True,
    )


def _draw_lines(
    lines: Series,
    path: Path,
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    marked: bool = False,
) -> bool:
    shown = {name: line for name, line in lines.items() if line}
    if not shown:
        return False
    figure, axes = _paper()
    for name, line in shown.items():
        width = 2.0 if name.startswith(_OURS) else 1.0
        axes.plot(
            [it[0] for it in line],
            [it[1] for it in line],
            label=name,
            linewidth=width,
            marker="o" if marked else None,
            markersize=3,
        )
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(fontsize=7)
    return _save(figure, path)


def _paper() -> tuple[Any, Any]:
    """A figure and its axes."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and half a second

    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=True, alpha=0.3)
    return figure, axes


def _save(figure: Any, path: Path) -> bool:
    """The same file for the same rows: no random ids, no date; text stays text."""
    from matplotlib import rc_context  # noqa: PLC0415 - see above

    with rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    return True


CHARTS: tuple[tuple[str, str, Callable[[Sequence[JsonRow], Path], bool]], ...] = (
    ("efficiency.svg", "Efficiency by work and width", draw_efficiencies),
    ("latency.svg", "Latency under a steady load, beside a slow key", draw_latencies),
    ("repeats.svg", "Records again after a kill -9", draw_repeats),
    ("commit-bytes.svg", "Bytes a commit by records in flight", draw_bytes),
)
"""File, title, and what draws it."""
