"""The standing of a record that is not done, and what a person can do about it. Pure.

In: the progress log, the assignment and the waits. Out: a `RecordState`, its beginning, and the
commands that change it, ready to paste.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from assignors import KeyRange, TopicPartition
from coop_consumer.errors import HandlerOverdueError
from coop_consumer.plain_text import command
from offsets import Act, Attempt, Doing, PartitionStore

if TYPE_CHECKING:
    from coop_consumer.status.model import PendingHandover, RangeOwner, RecordStatus


class RecordState(StrEnum):
    """The standing of a record that is not done, for members and status.

    RUNNING: a handler processes it. QUEUED: it waits for a worker. BACKING_OFF: it failed, and
    waits for the next attempt. RETRYING: it failed; its member has reported no more yet. PARKED: it
    waits for a decision. WAITING: another member still holds its range (or its key). PAUSED: the
    user has paused its partition. HELD_BACK: most records of its member fail alike, so the member
    begins only a probe. UNOWNED: nobody has its range. UNTOLD: it has not stood for long, or its
    member reports nothing about it.
    """

    RUNNING = "running"
    QUEUED = "waiting for a worker"
    BACKING_OFF = "backing off"
    RETRYING = "retrying"
    PARKED = "parked"
    WAITING = "waiting for a range"
    PAUSED = "paused"
    HELD_BACK = "held back"
    UNOWNED = "unowned"
    UNTOLD = "untold"


_OF_ACTS = {
    Act.UNKNOWN: RecordState.UNTOLD,
    Act.RUNS: RecordState.RUNNING,
    Act.QUEUED: RecordState.QUEUED,
    Act.BACKS_OFF: RecordState.BACKING_OFF,
    Act.PARKED: RecordState.PARKED,
    Act.BLOCKED: RecordState.WAITING,
    Act.PAUSED: RecordState.PAUSED,
    Act.HELD_BACK: RecordState.HELD_BACK,
}


@dataclass(frozen=True, slots=True)
class TenureNotes:
    """Reports of members, in the progress log, about their unfinished records.

    Attributes:
        records: By member and offset.
        paused: Ranges of partitions that a member has paused, with the member and since when.
    """

    records: Mapping[tuple[str, int], Doing] = field(default_factory=dict)
    paused: Sequence[tuple[str, KeyRange, int]] = ()

    def of(self, member: str, offset: int, key_hash: int) -> tuple[Act, int] | None:
        """This member's report about a record, and since when."""
        if (doing := self.records.get((member, offset))) is not None:
            return doing.act, doing.since_ms
        paused = (since for m, r, since in self.paused if m == member and key_hash in r)
        since_ms = next(paused, None)
        return None if since_ms is None else (Act.PAUSED, since_ms)


def told_of(store: PartitionStore) -> TenureNotes:
    """The tenures' reports about records that they have not released. O(tenures)."""
    records: dict[tuple[str, int], Doing] = {}
    paused = []
    for tenure in store.tenures():
        member = tenure.id.member
        for doing in tenure.record.doings:
            if not store.unreleased(tenure.id, (KeyRange(doing.key_hash, doing.key_hash),)):
                continue
            if doing.act is Act.PAUSED:
                held = store.unreleased(tenure.id, tenure.ranges)
                paused += [(member, key_range, doing.since_ms) for key_range in held]
            else:
                records[member, doing.offset] = doing
    return TenureNotes(records, tuple(paused))


@dataclass(frozen=True, slots=True)
class Stands:
    """How a record stands.

    Attributes:
        standing: Its state.
        since_ms: Since when, Unix time; 0 if that is not known.
        behind: The member that still holds its range, while it waits for that; else "".
    """

    standing: RecordState
    since_ms: int = 0
    behind: str = ""


def how_it_stands(
    key_hash: int,
    attempt: Attempt | None,
    owner: RangeOwner | None,
    handovers: Iterable[PendingHandover],
    said: tuple[Act, int] | None,
) -> Stands:
    """The state of a record that is not done.

    Args:
        key_hash: Of its key.
        attempt: Its failures, if it has failed.
        owner: The owner of its range, if there is one.
        handovers: The partition's handovers.
        said: The owner's report about it; see `TenureNotes.of`.
    """
    if attempt is not None and attempt.parked:
        is_said = said is not None and said[0] is Act.PARKED
        return Stands(RecordState.PARKED, said[1] if said is not None and is_said else 0)
    for handover in handovers:
        if any(key_hash in key_range for key_range in handover.ranges):
            return Stands(RecordState.WAITING, handover.since_ms, handover.holder)
    if owner is None:
        return Stands(RecordState.UNOWNED)
    if said is not None and said[0] is not Act.UNKNOWN:
        return Stands(_OF_ACTS[said[0]], said[1])
    return Stands(RecordState.UNTOLD if attempt is None else RecordState.RETRYING)


def is_overdue(error: str) -> bool:
    """Whether the text of a failure says that a handler runs for too long."""
    return error.startswith(HandlerOverdueError.__name__)


@dataclass(frozen=True, slots=True)
class Command:
    """A line for a shell, and what it is good for: an infinitive."""

    purpose: str
    line: str


def decide(
    group: str, tp: TopicPartition, offset: int, options: Sequence[str]
) -> tuple[Command, ...]:
    """What a person may decide about a parked record; see `commands_for`."""
    place = group, tp, offset
    return (
        Command("try it again", command("retry", *place, options=options)),
        Command("count it as done, unprocessed", command("skip", *place, options=options)),
    )


def look_at(tp: TopicPartition, offset: int, options: Iterable[str]) -> Command:
    """The command that shows a record."""
    words = ("--partition", tp.partition, "--from", offset, "--count", 1)
    return Command("look at it", command("read", tp.topic, *words, options=options))


def commands_for(
    group: str, tp: TopicPartition, record: RecordStatus, options: Iterable[str]
) -> tuple[Command, ...]:
    """What a person can do about a record.

    Args:
        group: The group.
        tp: The record's partition.
        record: What is known of it.
        options: What the command line needs to find the group, as words.
    """
    options = list(options)
    if record.standing is RecordState.PARKED:
        return decide(group, tp, record.offset, options)
    found: tuple[Command, ...] = ()
    if record.is_overdue:  # only its member can end the handler; the record may say why it hangs
        found = (look_at(tp, record.offset, options),)
    if record.standing is RecordState.WAITING and record.behind:
        line = command("release", group, tp, "--holder", record.behind, options=options)
        does = "begin without that release, if its handlers do nothing more"
        return (*found, Command(does, line))
    return found
