"""What members have processed, and its judge, which shares no code with members.

In: one `Row` for every handler that ended, from threads or processes of this machine. Out: missing
records, repeated records, and records that began before an earlier one of their key had ended.
Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

WAIT_S = 60.0
"""Long enough for a machine that does other things as well; a test that holds waits far less."""

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record whose handler ended.

    Attributes:
        member: The member's name.
        run: Which run of it: its process id, or a number.
        attempt: The attempt that succeeded.
        generation: The newest generation that its process knew when the handler began.
    """

    partition: int
    offset: int
    key: str
    started_ns: int
    ended_ns: int
    member: str
    run: int
    attempt: int = 1
    generation: int = -1

    @property
    def place(self) -> Place:
        return self.partition, self.offset


class Journal:
    """Rows in the order in which they came, and a way to wait for more."""

    def __init__(self) -> None:
        self.news = threading.Condition()
        self._rows: list[Row] = []

    def note(self, row: Row) -> None:
        with self.news:
            self._rows.append(row)
            self.news.notify_all()

    @property
    def rows(self) -> list[Row]:
        with self.news:
            return list(self._rows)

    @property
    def places(self) -> list[Place]:
        """The places of the rows, sorted; a repeated row stands twice."""
        return sorted(row.place for row in self.rows)

    @property
    def offsets(self) -> list[int]:
        """As `places`, for topics of one partition."""
        return [offset for _, offset in self.places]

    def wait(self, seen: Callable[[list[Row]], bool], wait_s: float = WAIT_S) -> list[Row]:
        """Wait until `seen(rows)` is true; it is called whenever a row has come."""
        with self.news:
            in_time = self.news.wait_for(lambda: seen(self._rows), wait_s)
            assert in_time, f"not in {wait_s} s; the last of {len(self._rows)}: {self._rows[-10:]}"
            return list(self._rows)

    def wait_for(self, places: Iterable[Place]) -> list[Row]:
        """Wait until every one of these has been processed."""
        wanted = set(places)
        return self.wait(lambda rows: wanted <= {row.place for row in rows})


def lost(rows: Iterable[Row], produced: Iterable[Place]) -> set[Place]:
    """What nobody processed (I2)."""
    return set(produced) - {row.place for row in rows}


def repeated(rows: Iterable[Row]) -> int:
    """How many records came again, each counted once a time (I5)."""
    return sum(count - 1 for count in Counter(row.place for row in rows).values())


def came_again(rows: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Rows that began after their record was finished, each with its last finisher."""
    by_place: dict[Place, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.started_ns):
        by_place[row.place].append(row)
    return [
        (row, max(before, key=lambda it: it.ended_ns))
        for same in by_place.values()
        for row in same[1:]
        if (before := [it for it in same if it.ended_ns < row.started_ns])
    ]


def begun_too_early(rows: Iterable[Row], plain: Collection[str]) -> list[Row]:
    """Rows with which a plain consumer began a partition, though one of ours had finished them.

    Our member leaves the first unfinished record to the plain consumer. Some records behind it may
    come again: a plain consumer knows no gaps.

    Args:
        rows: Of all members.
        plain: The names of the plain consumers, which process one record after the other.
    """
    again = {id(row) for row, before in came_again(rows) if before.member not in plain}
    early: list[Row] = []
    at: dict[tuple[int, int], int] = {}
    for row in sorted(rows, key=lambda row: row.started_ns):
        if row.member in plain:
            goes_on = at.get((row.run, row.partition)) == row.offset - 1
            at[row.run, row.partition] = row.offset
            if not goes_on and id(row) in again:
                early.append(row)
    return early


def out_of_order(rows: Iterable[Row], zombies: Iterable[Row] = ()) -> list[str]:
    """Every breach of key order, as a line to read (I4).

    A record may begin once every earlier record of its key has ended somewhere, if it was processed
    at all. No two handlers of a key overlap. So a record may come again after a crash, but none is
    skipped. Records that zombies processed count as processed; their times are not judged.
    """
    by_key: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row.partition, row.key].append(row)
    theirs: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in zombies:
        theirs[row.partition, row.key].append(row)
    return [
        breach
        for key, own in by_key.items()
        for breach in (*_overlaps(own), *_jumps(own, theirs[key]))
    ]


def _overlaps(rows: list[Row]) -> list[str]:
    in_time = sorted(rows, key=lambda row: row.started_ns)
    breaches, latest = [], in_time[0]
    for row in in_time[1:]:
        if row.started_ns < latest.ended_ns:
            breaches.append(f"{row} overlaps {latest}")
        latest = max(latest, row, key=lambda it: it.ended_ns)
    return breaches


def _jumps(rows: list[Row], zombies: list[Row]) -> list[str]:
    """Rows that began before an earlier offset of the key had first ended, on any member."""
    first_end: dict[int, int] = {}
    for row in (*rows, *zombies):
        first_end[row.offset] = min(row.ended_ns, first_end.get(row.offset, row.ended_ns))
    earlier = iter(sorted(first_end))
    breaches, ended_by, offset = [], 0, next(earlier)
    for row in sorted(rows, key=lambda row: row.offset):
        while offset < row.offset:
            ended_by, offset = max(ended_by, first_end[offset]), next(earlier)
        if row.started_ns < ended_by:
            breaches.append(f"{row} began before an earlier offset had ended")
    return breaches
