"""What a case is: the records, what one of them costs, and what would be ideal. Pure.

In: a declaration (`benchmarks/cases.py` has them all). Out: keys, and the time that it would take
if only the work itself took time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.keys import even_keys, with_special, zipf_keys

Work = Literal["sleep", "await", "burn", "nothing", "batch"]
"""What a handler does: block its thread, await, compute; or nothing, by records or by batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case, or one point of a case that is measured at several.

    Attributes:
        name: As the command line has it.
        point: Which point of the case this is, or "".
        work_ms: What a record costs.
        width: How many records are worked on at a time.
        special: How many records have one key that is hot or slow.
        special_ms: What each of those costs; 0: what all others do.
        members: How many processes share the work, `width` in all.
        rate: Records a second that are produced while the group runs; 0: all of them before.
        joins_before: Whether the group is complete before the first record is produced.
        kills: How often a process is killed.
        sends: Whether a handler sends one record to another topic.
        interval_ms: Between two commits; 0: the default.
        held: How many unfinished records we may hold of a partition; 0: the default.
    """

    name: str
    records: int
    keys: int
    work: Work = "sleep"
    work_ms: float = 0.0
    width: int = 64
    zipf: bool = False
    special: int = 0
    special_ms: float = 0.0
    members: int = 1
    partitions: int = 3
    rate: int = 0
    joins_before: bool = False
    kills: int = 0
    sends: bool = False
    interval_ms: int = 0
    held: int = 0
    point: str = ""

    @property
    def is_judged(self) -> bool:
        """Whether every record is noted and its order judged: noting is what `noop` cannot bear."""
        return self.work != "nothing"

    @property
    def work_s(self) -> float:
        """The work of all records."""
        special_ms = self.special_ms or self.work_ms
        return ((self.records - self.special) * self.work_ms + self.special * special_ms) / 1_000

    @property
    def ideal_s(self) -> float:
        """The work spread over the width, if no key is busier than that; 0: there is none."""
        special_s = self.special * (self.special_ms or self.work_ms) / 1_000
        produced_s = self.records / self.rate if self.rate else 0.0
        return max(self.work_s / self.width, special_s, produced_s)

    def record_keys(self) -> Iterator[str]:
        """The key of each record."""
        spread = zipf_keys if self.zipf else even_keys
        return with_special(spread(self.records, self.keys), self.records, self.special)
