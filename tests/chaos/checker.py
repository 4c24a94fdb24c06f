"""The judge of a run: what members wrote against what the topic holds. Pure; shares no code with
the library.

In: the rows of all runs, when each record was made and when the progress log first told it done,
which runs were away. Out: what was lost or told done too soon (I2), out of order (I4), repeated
(I5), and the longest time that any record had to wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tests.chaos.absence import Absence
from tests.chaos.outputs import OutputsVerdict
from tests.support.journal import Place, Row, lost, out_of_order, repeated

CLOCK_NS = 5_000_000
"""What the log's times, whole milliseconds of another clock, may differ from those of rows."""

ON_ITS_WAY_NS = 1_000_000_000
"""A record of the log has the time at which it was appended; others see it a moment later."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a run.

    Attributes:
        records: How many there were.
        lost: Those that nobody processed, or that were told done before anybody had.
        out_of_order: Every breach of key order between live members, as a line to read.
        repeated: How often a record came again.
        needless: Those repeats of live members that began after the log had told it done.
        longest_stop_s: The longest time from a record's making to the end of its first handler.
        slowest: The record that waited so long, and when it was made; None: there was none.
        outputs: What came of its outputs; None: there are none.
    """

    records: int
    lost: tuple[Place, ...]
    out_of_order: tuple[str, ...]
    repeated: int
    needless: tuple[str, ...]
    longest_stop_s: float
    slowest: tuple[Place, int] | None = None
    outputs: OutputsVerdict | None = None

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.out_of_order or self.needless) and (
            self.outputs is None or self.outputs.is_clean
        )


def judge(
    rows: Collection[Row],
    made_ns: Mapping[Place, int],
    absences: Collection[Absence],
    told_ns: Mapping[Place, int],
    told_by_live_ns: Mapping[Place, int],
) -> Verdict:
    """Judge a run by its rows.

    Args:
        rows: What all members wrote.
        made_ns: Every record of the topic, and when it was made.
        absences: Who was no live member.
        told_ns: When the progress log first told a record done, by whomever.
        told_by_live_ns: The same, but what zombies told does not count: nobody need believe it.
    """
    zombies = [row for row in rows if any(absence.covers(row) for absence in absences)]
    by_zombies = set(zombies)
    live = [row for row in rows if row not in by_zombies]
    first_end: dict[Place, int] = {}
    for row in rows:
        first_end[row.place] = min(row.ended_ns, first_end.get(row.place, row.ended_ns))
    waits_ns = {place: end - made_ns[place] for place, end in first_end.items() if place in made_ns}
    slowest = max(waits_ns, key=lambda place: waits_ns[place], default=None)
    too_soon = {
        place
        for place, told in told_ns.items()
        if told + CLOCK_NS < first_end.get(place, told + CLOCK_NS + 1)
    }
    return Verdict(
        records=len(made_ns),
        lost=tuple(sorted(lost(rows, made_ns) | too_soon)),
        out_of_order=tuple(out_of_order(live, zombies)),
        repeated=repeated(rows),
        needless=tuple(
            f"{row} began after it was told done, {told / 1e9:.3f} s"
            for row in live
            if (told := told_by_live_ns.get(row.place)) is not None
            and first_end[row.place] < row.ended_ns
            and row.started_ns > told + ON_ITS_WAY_NS
        ),
        longest_stop_s=waits_ns[slowest] / 1e9 if slowest else 0.0,
        slowest=(slowest, made_ns[slowest]) if slowest else None,
    )
