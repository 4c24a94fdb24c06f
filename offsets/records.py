"""The values of the progress log: what its records mean, without their bytes. Pure.

In and out: frozen values, one key type per kind of record and the value that goes with it. `codec`
turns them into bytes, `store` folds them. The log is compacted by key. So each tenure has a key of
its own, and so has each part of a tenure's record if one record is not enough, and each writer of a
base record or of a topic's start: none of these may overwrite another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypeAlias

from assignors.key_range import KeyRange
from offsets.progress import RangeProgress


@dataclass(frozen=True, slots=True, order=True)
class TenureId:
    """Names one incarnation's hold of key ranges of one partition.

    Attributes:
        member: The member's name; a static member keeps it over incarnations.
        incarnation: Names one run of the member; 64 bits, without an order.
        number: Counts the incarnation's tenures.
    """

    member: str
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.member}/{self.incarnation:x}#{self.number}"


# ── Keys ──


@dataclass(frozen=True, slots=True, order=True)
class TenureKey:
    """Whose progress: one tenure in one data partition.

    Attributes:
        group: The group id.
        topic_id: The data topic's id, 16 bytes: a topic made anew is another topic.
        partition: The data partition.
        tenure: The writer; nobody else writes this key.
        part: Which part of a record too large for one (`codec.split_facts`), from 0.
    """

    group: str
    topic_id: bytes
    partition: int
    tenure: TenureId
    part: int = 0


@dataclass(frozen=True, slots=True, order=True)
class BaseKey:
    """Who proposes the start of an epoch of one data partition.

    Attributes:
        group: The group id.
        topic_id: The data topic's id, 16 bytes.
        partition: The data partition.
        epoch: The number of the partition's progress history, from 0.
        writer: Unique per proposal. Were a key written twice, compaction would drop its first
            record, and with it the answer to who was first.
    """

    group: str
    topic_id: bytes
    partition: int
    epoch: int
    writer: str


@dataclass(frozen=True, slots=True, order=True)
class AnnounceKey:
    """Which member announces its incarnation."""

    group: str
    member: str


@dataclass(frozen=True, slots=True, order=True)
class DecisionKey:
    """Which record a person decided on."""

    group: str
    topic_id: bytes
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, order=True)
class ReleaseKey:
    """Of which tenure a person has released ranges; its owner has a key of its own."""

    group: str
    topic_id: bytes
    partition: int
    tenure: TenureId


@dataclass(frozen=True, slots=True, order=True)
class StopKey:
    """Which data partition stops its group."""

    group: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True, order=True)
class TopicStartKey:
    """Who says that a group reads a topic.

    Attributes:
        group: The group id.
        topic: The topic's name: one that was made again is known by it.
        writer: Unique per record, as of a `BaseKey`: the first record in the log counts.
    """

    group: str
    topic: str
    writer: str


@dataclass(frozen=True, slots=True, order=True)
class PolicyKey:
    """Whose policy: a topic's, for all groups, or a group's.

    Attributes:
        scope: "topic" or "group".
        name: The topic's name, or the group id.
    """

    scope: Literal["topic", "group"]
    name: str


@dataclass(frozen=True, slots=True, order=True)
class LoadKey:
    """Whose load: one member's. It writes a new one over the old one, and clears it in the end."""

    group: str
    member: str


# ── Values ──

KEY_BYTES_MAX = 64
"""So much of a key is kept."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A record that failed and is not finished.

    Attributes:
        offset: The record's offset.
        key_hash: Its key hash.
        attempts: How often it was tried, at least 1.
        parked: Whether it waits for a decision.
        error: The last failure, for people.
        since_ms: When it first failed, in milliseconds since 1970; for display only.
        fell: The last of its attempts has no outcome: it runs, or its process ended meanwhile. It
            was told before it began.
    """

    offset: int
    key_hash: int
    attempts: int
    parked: bool
    error: str
    since_ms: int
    fell: bool = False

    def knows_more(self, other: Attempt) -> bool:
        """Whether it tells of more attempts at the record than `other` does."""
        return (self.parked, self.attempts) > (other.parked, other.attempts)


class Act(IntEnum):
    """What becomes of an unfinished record at its member; the numbers are those of the codec.

    UNKNOWN: a newer member says what this code does not know. RUNS: a handler is at it. QUEUED: it
    waits for a worker. BACKS_OFF: it failed, and waits to be tried again. PARKED: it waits for a
    decision. BLOCKED: a handler elsewhere is at its key. PAUSED: the user has paused its partition.
    HELD_BACK: most of what its member runs fails alike, so it begins nothing but a probe.
    """

    UNKNOWN = 0
    RUNS = 1
    QUEUED = 2
    BACKS_OFF = 3
    PARKED = 4
    BLOCKED = 5
    PAUSED = 6
    HELD_BACK = 7


@dataclass(frozen=True, slots=True)
class Doing:
    """What becomes of one unfinished record. For people.

    Attributes:
        offset: The record's offset.
        key_hash: Its key hash.
        act: What becomes of it.
        since_ms: Since when, in milliseconds since 1970, to within some seconds.
    """

    offset: int
    key_hash: int
    act: Act
    since_ms: int


@dataclass(frozen=True, slots=True)
class TenureRecord:
    """What a tenure knows and what it gave up, in one atomic value.

    Attributes:
        epoch: The epoch its facts belong to.
        first_offset: The log offset of the tenure's first record, -1 in the first itself. Tenures
            are ordered by it, and compaction removes the first record. If the first was sent again,
            it is in doubt where the first lies: then it is how far the log had been read before.
        facts: All facts of the tenure, released or not; of a split record, those of this part.
        released: The ranges given up: what they tell is final. Only in part 0.
        attempts: Its failed, unfinished records, released or not; of a split record, those of this
            part.
        parts: How many parts the record has. Part 0 is written last, so it vouches for the others.
        others: The number of the second part, if there is one; the third has the next number. A
            record's other parts never take the place of those of the record before: whoever reads
            between two of them, or after a crash there, would find less than before.
        leader_epoch: The highest leader epoch of a data record seen when the facts were made; -1:
            not known. A newer one below the facts' end betrays a data log that was cut off.
        walled: How many unfinished records of the partition its member holds, if that is as many as
            it may and it fetches no further; else 0. For people. Only in part 0.
        doings: What becomes of unfinished records that stand for long. For people. Only in part 0.
        fallen: How many owners in a row have fallen at its records: have ended without releasing
            them. Only in part 0, as the next two.
        suspects: Ranges, each with an offset: the fallen owners may have begun unfinished records
            of the range below that offset.
        begun_to: Nothing at or above this offset has been begun; -1: anything may have been.
    """

    epoch: int
    first_offset: int
    facts: tuple[RangeProgress, ...]
    released: tuple[KeyRange, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    parts: int = 1
    leader_epoch: int = -1
    others: int = 1
    walled: int = 0
    doings: tuple[Doing, ...] = ()
    fallen: int = 0
    suspects: tuple[tuple[KeyRange, int], ...] = ()
    begun_to: int = -1


@dataclass(frozen=True, slots=True)
class BaseRecord:
    """The start of an epoch: every record below `offset` counts as done, for every hash."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class AnnounceRecord:
    """A member's newest incarnation: ends those tenures of its earlier ones that it may know.

    Attributes:
        incarnation: The incarnation that begins.
        seen: Where the log ended before the group was asked whether this incarnation is the one
            that counts: what lies there or above may be of a later one.
        transactional_id: What fences its transactions; empty without transactions.
        host: Where it runs, for people.
    """

    incarnation: int
    seen: int
    transactional_id: str
    host: str


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A person's decision on a parked record: try it again, or count it as done."""

    action: Literal["retry", "skip"]
    decided_at_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """A person's word that nobody is to wait for a tenure at these ranges any more."""

    ranges: tuple[KeyRange, ...]
    released_at_ms: int


@dataclass(frozen=True, slots=True)
class StopRecord:
    """A group's decision to stop at a record that failed: all members commit and stop once."""

    offset: int
    key_hash: int
    reason: str
    member: str


@dataclass(frozen=True, slots=True)
class TopicStartRecord:
    """The group reads a topic; its partitions as they were when the group began to.

    `auto.offset.reset=latest` is for those. A partition that is added later, and a topic that is
    made again under the name, begin at their first record: they were born under the group.

    Attributes:
        topic_id: The topic's id then, 16 bytes.
        partitions: How many partitions it had. 0: none of those that have not begun may begin at
            the end, as the group had read the topic before this record was written.
    """

    topic_id: bytes
    partitions: int

    def had(self, topic_id: bytes, partition: int) -> bool:
        """Whether this partition of a topic of this id was there when the group began."""
        return topic_id == self.topic_id and partition < self.partitions


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """Settings that hold for a topic or a group, whatever its members configure."""

    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """What a member's records of one partition cost.

    Attributes:
        topic_id: The topic's id, 16 bytes.
        partition: The data partition.
        weight: Picoseconds of handler time for each offset of the partition, all hashes together
            that the member holds.
        pace: How many offsets a second the partition has to do, see `assignors.load`.
    """

    topic_id: bytes
    partition: int
    weight: int
    pace: int


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """A hash that takes much.

    Attributes:
        topic_id: The topic's id, 16 bytes.
        partition: The data partition.
        key_hash: Where the key lies.
        share: Per mille of the weight that the member has of the partition.
        key: At most 64 bytes of the key; None: it has none, or may not be shown.
        is_busy: Whether it keeps one worker busy all the time, so that no other worker helps it.
    """

    topic_id: bytes
    partition: int
    key_hash: int
    share: int
    key: bytes | None
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """How busy a member is, and with what. For people, and for whoever scales a group.

    Attributes:
        incarnation: The run that has measured it.
        at_ms: When, by its clock, in milliseconds since 1970.
        workers: How many records, or batches, it processes at a time.
        busy: Per mille of the workers' time that handlers have taken since the report before.
        handler_us: What the handler of a record takes on average, microseconds; 0: not known.
        finished: Records of all topics that it has finished a second, since the report before.
        partitions: The partitions that it holds some of, those first that take most.
        heavy: At most 4 hashes, the heaviest first.
        p50_us: The time that half of the handlers do not exceed, since the report before; 0: not
            known.
        p99_us: The same for 99 of 100 handlers.
        memory_bytes: What its process has in memory; 0: not known.
        capacity: Its weight in plans; 0: not known, so as many as its workers.
        ops_address: Where its own page is: host:port as it listens; "": nowhere, or not known.
    """

    incarnation: int
    at_ms: int
    workers: int
    busy: int
    handler_us: int
    finished: int
    partitions: tuple[PartitionLoad, ...] = ()
    heavy: tuple[HeavyKey, ...] = ()
    p50_us: int = 0
    p99_us: int = 0
    memory_bytes: int = 0
    capacity: int = 0
    ops_address: str = ""


Key: TypeAlias = (
    TenureKey
    | BaseKey
    | AnnounceKey
    | DecisionKey
    | ReleaseKey
    | StopKey
    | TopicStartKey
    | PolicyKey
    | LoadKey
)
Value: TypeAlias = (
    TenureRecord
    | BaseRecord
    | AnnounceRecord
    | DecisionRecord
    | ReleaseRecord
    | StopRecord
    | TopicStartRecord
    | PolicyRecord
    | LoadRecord
)
