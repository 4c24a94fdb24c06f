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
        history: The history of its epoch; None: nobody knows that epoch any more.
    """

    shell: MemberShell
    seat: Seat | None
    tenure: Tenure
    lane: LaneKey
    watched: Watched
    history: History | None

    @property
    def orphaned(self) -> bool:
        """Whether the group had, or has since, given its ranges away without its release.

        A member that left has released them in order, after its last handler ended.
        """
        return self.seat is None or self.seat.lost or self.shell.crashed

    @property
    def may_be_repeated(self) -> bool:
        """Whether its output is uncertain: it is orphaned, or a flush of it failed."""
        return self.orphaned or self.shell.flusher.failed


@dataclass(slots=True)
class Buffered:
    """A finished record whose output is lost if the members that have it crash."""

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
        rewritten_to: A message that is written below looks like one that a cut removed.
        undone: Offsets neither finished nor excused, with their messages.
        finished: The last finisher of an offset.
        failed: The last failure of an offset.
        buffered: Finished offsets whose output is not durable, and who has it buffered.
        durable: Offsets about which nothing is left to do.
        falls: How often an offset's handler has ended its process.
        noted: Offsets with an attempt in the log that has no outcome.
        dropped: Offsets that are not done in the log any more: an evicted member wrote its record
            too late, and the record was cleared.
        outputs: Offsets whose output is visible, with exactly once.
        letters: Offsets whose dead letter is visible, with exactly once.
        refused: Offsets whose output, or dead letter, a topic has refused.
        without_output: Offsets that may be done without one: skipped, or dead letters.
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
    outputs: set[int] = field(default_factory=set)
    letters: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    without_output: set[int] = field(default_factory=set)

    def open(self) -> dict[int, SimMessage]:
        """The offsets that must not be done in the log yet."""
        if not self.buffered:
            return self.undone
        return self.undone | {offset: it.message for offset, it in self.buffered.items()}

    def settle(self, offset: int) -> None:
        """Note that nothing is left to do about this offset."""
        self.undone.pop(offset, None)
        self.buffered.pop(offset, None)
        self.durable.add(offset)

    def may_be_skipped(self, offset: int) -> None:
        """Note that this offset may be done without a success of its handler."""
        self.undone.pop(offset, None)
        self.buffered.pop(offset, None)
        self.without_output.add(offset)

    def cut(self, end: int) -> None:
        """Note that everything at `end` or above is gone."""
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
        merged: The log's progress, and its epoch.
        by_lane: The offsets of each key, ascending.
        running: The handlers at work on each key.
        excused: Offsets that retention has removed or a person has decided to skip: a decision
            holds in later epochs, too.
        lost: Offsets that retention has removed, as long as nobody has accepted the loss.
        cuts: How often it was cut off, as long as nobody has accepted the loss.
        decided: Offsets about which a person has decided.
        is_decided: Somebody outside has decided where it begins.
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
        """Note that nobody has to process these offsets."""
        self.excused.update(offsets)
        for history in self.history.values():
            for offset in self.excused & history.open().keys():
                history.settle(offset)

    def holds(self, record: Record) -> bool:
        """Whether no cut has removed the record; another one may have its offset since."""
        written = record.leader_epoch or 0
        return all(record.offset < cut for cut in self.log.cuts[written:])

    @property
    def limit(self) -> int:
        """The highest position that can have been seen: the end, or a decided beginning."""
        return max(self.log.highest_end, *(h.base for h in self.history.values()), 0)


Place = tuple[bytes, int]
"""A topic's id and the number of a partition."""
Known = Mapping[Place, tuple[int, PartitionProgress]]
"""What the log told at some time: the epoch, and the progress in it."""
Parked = Mapping[tuple[bytes, int, int], frozenset[int]]
"""What the log had as parked at some time, by topic id, partition and epoch."""
Owned = dict[Place, tuple[KeyRange, ...]]
"""What a member may start now."""
