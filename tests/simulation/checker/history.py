"""Histories: what truly happened to each partition in each of its epochs, as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import KeyRange
from coop_consumer.core.record import Record
from offsets import PartitionProgress
from tests.simulation.data_log import SimMessage

if TYPE_CHECKING:
    from coop_consumer.core.tenure import Tenure
    from tests.simulation.coordinator import Seat
    from tests.simulation.data_log import DataLog
    from tests.simulation.plain import PlainShell
    from tests.simulation.shell import MemberShell

LaneKey = bytes | int | None
"""A key; the offset of a record that has no order to keep; None where a partition is one lane."""


@dataclass(slots=True, eq=False)
class Execution:
    """One run of a handler.

    Attributes:
        seat: The member's at the start; None: it had none.
        history: Of the epoch that it works for; None: of one that nobody knows any more.
    """

    shell: MemberShell
    seat: Seat | None
    tenure: Tenure
    lane: LaneKey
    watched: Watched
    history: History | None

    @property
    def orphaned(self) -> bool:
        """Whether the group had, or has since, given its ranges away without asking.

        Who left has let go of them in order, and nobody leaves before its last handler has ended.
        """
        return self.seat is None or self.seat.lost or self.shell.crashed

    @property
    def may_be_repeated(self) -> bool:
        """Whether nobody may be sure of its output: it is orphaned, or a flush of it failed."""
        return self.orphaned or self.shell.flusher.failed


@dataclass(slots=True)
class Buffered:
    """A finished record whose output is lost if those crash who have it."""

    message: SimMessage
    shells: set[MemberShell] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a record.

    Attributes:
        attempt: Which attempt it was.
        execution: Whose.
    """

    attempt: int
    execution: Execution


@dataclass(slots=True)
class History:
    """What truly happened to a partition in one epoch.

    Attributes:
        rewritten_to: Messages that are written below are taken for those that a cut removed.
        undone: Offsets neither finished nor excused, with their messages.
        finished: Who finished an offset last.
        failed: Of an offset, how it failed last.
        buffered: Finished offsets whose output is not durable, and in whose buffers it is.
        durable: Offsets about which nothing is left to do.
        falls: How often an offset's handler has ended its process.
        noted: Offsets that the log has an attempt of without an outcome.
        dropped: Offsets that the log does not tell as done any more: an evicted member had told it
            too late, and its word was cleared away.
    """

    base: int
    rewritten_to: int
    undone: dict[int, SimMessage]
    finished: dict[int, Execution] = field(default_factory=dict)
    failed: dict[int, Failure] = field(default_factory=dict)
    buffered: dict[int, Buffered] = field(default_factory=dict)
    durable: set[int] = field(default_factory=set)
    falls: Counter[int] = field(default_factory=Counter)
    noted: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)

    def open(self) -> dict[int, SimMessage]:
        """What may not be told as done yet."""
        if not self.buffered:
            return self.undone
        return self.undone | {offset: it.message for offset, it in self.buffered.items()}

    def settle(self, offset: int) -> None:
        """Nothing is left to do about this offset."""
        self.undone.pop(offset, None)
        self.buffered.pop(offset, None)
        self.durable.add(offset)

    def cut(self, end: int) -> None:
        """What lies at `end` or above is gone."""
        for of_offset in (self.undone, self.finished, self.failed, self.buffered):
            for offset in [o for o in of_offset if o >= end]:
                del of_offset[offset]
        self.durable = {offset for offset in self.durable if offset < end}


@dataclass(slots=True)
class Watched:
    """A partition of one topic id, as the checker sees it.

    Attributes:
        epochs: How many epochs there are reasons for.
        history: By epoch.
        merged: The progress that the log tells, and its epoch.
        by_lane: The offsets of each key, ascending.
        running: The handlers at work on each key.
        excused: Offsets that retention has removed or a person has decided to skip: a decision
            holds in later epochs, too.
        lost: Offsets that retention has removed, while nobody has accepted that.
        cuts: How often it was cut off while nobody has accepted that.
        decided: Offsets about which a person has decided.
        is_decided: Somebody else has said where it begins.
        decided_to: The highest offset at which a person had the group begin; -1: nobody has.
        by_plain: Offsets that plain members have processed.
        plain: The plain member that has begun a record of it last.
        born_under: The group read its topic before it was made: it begins at its first record.
        original_end: Where it ended before the group was there; -1: it is younger, or there is a
            reason to begin elsewhere.
    """

    log: DataLog
    topic_id: bytes
    epochs: int = 1
    history: dict[int, History] = field(default_factory=dict)
    merged: tuple[int, PartitionProgress] = (0, PartitionProgress())
    by_lane: dict[LaneKey, list[int]] = field(default_factory=dict)
    running: dict[LaneKey, list[Execution]] = field(default_factory=dict)
    excused: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    cuts: int = 0
    decided: set[int] = field(default_factory=set)
    is_decided: bool = False
    decided_to: int = -1
    by_plain: set[int] = field(default_factory=set)
    plain: PlainShell | None = None
    born_under: bool = False
    original_end: int = -1

    def excuse(self, offsets: Iterable[int]) -> None:
        """Nobody has to process these offsets."""
        self.excused.update(offsets)
        for history in self.history.values():
            for offset in self.excused & history.open().keys():
                history.settle(offset)

    def holds(self, record: Record) -> bool:
        """Whether no cut has removed the record: another one may stand at its offset since."""
        written = record.leader_epoch or 0
        return all(record.offset < cut for cut in self.log.cuts[written:])

    @property
    def limit(self) -> int:
        """Nothing above it can have been seen: the end, or where somebody decided to begin."""
        return max(self.log.highest_end, *(h.base for h in self.history.values()), 0)


Place = tuple[bytes, int]
"""A topic's id and the number of a partition."""
Known = Mapping[Place, tuple[int, PartitionProgress]]
"""What the log told at some time: the epoch, and the progress in it."""
Parked = Mapping[tuple[bytes, int, int], frozenset[int]]
"""What the log had as parked at some time, by topic id, partition and epoch."""
Owned = dict[Place, tuple[KeyRange, ...]]
"""What a member may start now."""
