"""The judge of a run: what members wrote against what the topic holds. Pure; shares no code with
the library.

In: the rows of all runs, when each record was made, which runs were away. Out: what was lost (I2),
out of order (I4), repeated (I5), and the longest time that any record had to wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tests.journal import Place, Row, lost, out_of_order, repeated


@dataclass(frozen=True, slots=True)
class Absence:
    """A run that was away for so long that others took its ranges: a zombie until it knows.

    Attributes:
        run: The process id.
        since_ns: When it went, of the monotonic clock.
        generation: The newest that it had been told then.
    """

    run: int
    since_ns: int
    generation: int

    def covers(self, row: Row) -> bool:
        """Whether a zombie processed this: it ended later, under a generation of before."""
        return (
            row.run == self.run
            and row.ended_ns > self.since_ns
            and row.generation <= self.generation
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a run.

    Attributes:
        records: How many there were.
        lost: Those that nobody processed.
        out_of_order: Every breach of key order between live members, as a line to read.
        repeated: How often a record came again.
        longest_stop_s: The longest time from a record's making to the end of its first handler.
    """

    records: int
    lost: tuple[Place, ...]
    out_of_order: tuple[str, ...]
    repeated: int
    longest_stop_s: float


def judge(
    rows: Collection[Row], made_ns: Mapping[Place, int], absences: Collection[Absence]
) -> Verdict:
    """Judge a run by its rows; `made_ns` has every record of the topic, and when it was made."""
    zombies = [row for row in rows if any(absence.covers(row) for absence in absences)]
    by_zombies = set(zombies)
    live = [row for row in rows if row not in by_zombies]
    first_end: dict[Place, int] = {}
    for row in rows:
        first_end[row.place] = min(row.ended_ns, first_end.get(row.place, row.ended_ns))
    waits_ns = (first_end[place] - made for place, made in made_ns.items() if place in first_end)
    return Verdict(
        records=len(made_ns),
        lost=tuple(sorted(lost(rows, made_ns))),
        out_of_order=tuple(out_of_order(live, zombies)),
        repeated=repeated(rows),
        longest_stop_s=max(waits_ns, default=0) / 1e9,
    )
