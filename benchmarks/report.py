"""What `make bench` leaves behind: the rows, a table for each case, and charts.

In: rows, and the conditions they were measured under. Out: `rows.json`, `README.md` and SVG files
in a folder. The charts are drawn by matplotlib, of the extra `bench`, imported when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from benchmarks.charts import CHARTS
from benchmarks.rows import JsonRow, table

ROWS, PAGE = "rows.json", "README.md"

_INTRODUCTION = """\
# Benchmarks

Written by `make bench`; the raw figures are in [rows.json](rows.json). Time is counted from the
first record handled to the last commit, for everybody. *seconds* and all other figures are the
medians of the runs, which took turns; *lost*, *out of order* and *again* are their sums. *bytes
fetched* is what the consumer was sent over what the topic has. *efficiency* is the time that the
work alone would take, spread evenly, over the time it took. What killed processes had used counts
as well. A system without figures says why.
"""


class ChartsMissingError(Exception):
    """matplotlib is not installed."""


def check_charts() -> None:
    """Find out before an hour of measurements whether the charts can be drawn.

    Raises:
        ChartsMissingError: They cannot.
    """
    if find_spec("matplotlib") is None:
        raise ChartsMissingError(
            "the charts need matplotlib: pip install 'coop-consumer[bench]', or run `make bench`"
        )


def write_rows(folder: Path, told: Mapping[str, str], rows: Sequence[JsonRow]) -> None:
    """The raw figures."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"conditions": told, "rows": rows}, indent=1)
    (folder / ROWS).write_text(text + "\n")


def write(folder: Path, told: Mapping[str, str], rows: Sequence[JsonRow]) -> None:
    """Everything."""
    write_rows(folder, told, rows)
    drawn = [(name, title) for name, title, draw in CHARTS if draw(rows, folder / name)]
    (folder / PAGE).write_text(page(told, rows, drawn))


def page(
    told: Mapping[str, str], rows: Sequence[JsonRow], charts: Sequence[tuple[str, str]]
) -> str:
    """The page, in Markdown."""
    parts = [_INTRODUCTION, "".join(f"- {name}: {value}\n" for name, value in told.items())]
    parts += [f"## {title}\n\n![{title}]({name})\n" for name, title in charts]
    for name, of_case in groupby(rows, key=lambda row: row["case"]):
        parts.append(f"## `{name}`\n")
        listed = list(of_case)
        if any("figures" in row for row in listed):
            parts.append(table(listed))
            continue
        for point, of_point in groupby(listed, key=lambda row: row.get("point", "")):
            parts.append((f"{point}:\n\n" if point else "") + table(list(of_point)))
    versions = sorted({str(row["version"]) for row in rows if "version" in row})
    parts.append("## Versions\n\n" + "".join(f"- {version}\n" for version in versions))
    return "\n".join(parts)
