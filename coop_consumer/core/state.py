"""What a member knows, in one place: its partitions, streams, tenures and views of the log. Pure.

The parts that decide (handover, intake, commits, lead, failures) all read and change this, and
append to `actions`; `MemberCore` is the one door through which events come in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from assignors import WHOLE, KeyRange, TopicPartition, Wait, union
from coop_consumer.core.actions import Action, Level, Report
from coop_consumer.core.events import NO_MEMBER, GroupMetadata
from coop_consumer.core.lanes import KeyLanes
from coop_consumer.core.placement import log_partition_of
from coop_consumer.core.record import RECORD_BYTES
from offsets import Committed, PartitionStore, ProgressStore

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.failure import Failure
    from coop_consumer.core.stop import Stop
    from coop_consumer.core.tenure import Tenure


@dataclass(slots=True)
class Waiting:
    """Ranges assigned to us in which no tenure of ours has begun.

    Attributes:
        waits: Other members' tenures that still claim some of it.
        since_ms: When they were assigned.
    """

    ranges: tuple[KeyRange, ...]
    waits: tuple[Wait, ...]
    since_ms: int


@dataclass(slots=True, eq=False)
class Stream:
    """An uninterrupted fetch of one partition.

    Attributes:
        next_offset: All below was delivered; a batch must start here.
        tenures: Who is fed by it.
    """

    number: int
    next_offset: int
    tenures: list[Tenure] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Partition:
    """Everything of one partition that this member owns, waits for, drains or leads.

    Attributes:
        view: The progress log's partition in which its history lies.
        claims: Others' tenures that were at our ranges when the newest assignment was made.
        tenures: Begun, with ranges that we process.
        draining: Given up; handlers or the last record are still under way.
        epoch: The epoch in which tag and log agree; 0: they don't, nobody may start.
        committed: The last seen committed offset and metadata; None: none, or never asked.
        asked_committed: An answer to `FetchCommitted` is under way.
        doubted: Committed offset and log epoch that do not agree, and whether the log was read
            once more since they were seen.
        unknown_since_ms: Since when we wait for a tenure that the log does not know; 0: we do not.
        waits_since_ms: Since when something of it waits; 0: nothing does.
        waits_told_ms: When that was told last; 0: not yet.
        told_epoch: The newest epoch of which we have made sure that the group hears.
        loss_epoch: The one that we began because the log had lost the one before.
        cut: In which epoch we saw that it was cut off, and at which offset; None: not, or it has
            been seen to that the next epoch begins there.
        end_offset: The end of the partition as the fetch saw it last; -1: not yet.
    """

    tp: TopicPartition
    topic_id: bytes
    view: LogView
    assigned: tuple[KeyRange, ...] = ()
    claims: tuple[Wait, ...] = ()
    waiting: list[Waiting] = field(default_factory=list)
    tenures: list[Tenure] = field(default_factory=list)
    draining: list[Tenure] = field(default_factory=list)
    main: Stream | None = None
    catch_up: Stream | None = None
    epoch: int = 0
    committed: Committed | None = None
    committed_known: bool = False
    asked_committed: bool = False
    doubted: tuple[Committed | None, int, bool] | None = None
    ask_again_ms: int = 0
    unknown_since_ms: int = 0
    waits_since_ms: int = 0
    waits_told_ms: int = 0
    told_epoch: int = 0
    loss_epoch: int = 0
    cut: tuple[int, int] | None = None
    end_offset: int = -1
    leading: bool = False

    @property
    def store(self) -> PartitionStore:
        """What the progress log tells about it, as far as it is read."""
        return self.view.store.partition(self.topic_id, self.tp.partition)

    def all_tenures(self) -> Iterator[Tenure]:
        """Tenures that hold or drain something."""
        yield from self.tenures
        yield from self.draining

    def processed(self) -> tuple[KeyRange, ...]:
        """The ranges of all tenures here."""
        return union(r for tenure in self.tenures for r in tenure.ranges)

    @property
    def is_lost(self) -> bool:
        """Whether the log does not know our epoch any more: its beginning was deleted."""
        return self.epoch > (self.store.epoch or 0)

    @property
    def is_whole(self) -> bool:
        """Whether all of it is ours, and at work."""
        return self.assigned == (WHOLE,) == self.processed()

    @property
    def idle(self) -> bool:
        """Nothing left that would need this object."""
        return not (self.assigned or self.waiting or self.tenures or self.draining or self.leading)


class Announcement(IntEnum):
    """How far the announcement of our run is in a view of the log; see `announcing`.

    NOT: not sent, or not known to be in the log. SENT: under way. IN_LOG: there, so that tenures
    may begin. CONTESTED: another run's has followed it. ASKED: and we have sent a JoinGroup since.
    """

    NOT = 0
    SENT = 1
    IN_LOG = 2
    CONTESTED = 3
    ASKED = 4


@dataclass(slots=True, eq=False)
class LogView:
    """What this member has read of one partition of the progress log.

    Attributes:
        asked: Number of the last `ReadLog` sent.
        complete: Number of the newest `ReadLog` answered in full.
        announcement: How far our announcement is.
        announce_offset: Where it lies.
        appending: Token of the commit under way; 0: none.
        told_offset: Where our last acknowledged commit lies that released something.
        due_ms: A commit is due at this time, if anything has changed.
        idle_due_ms: The same, once nothing is unfinished.
        earliest_ms: The group's budget allows no commit before.
        urgent: A release waits to be written.
        unreadable: Records that could not be read, as far as that was told.
        uncleared: Since the last assignment nobody has looked for what may be deleted.
        cleared_to: The log's end when that was last looked for; 0: not since the last assignment.
        cleared_read: The number of the `ReadLog` it rested on.
        wanted: So much has finished that a commit is due as soon as the budget allows.
    """

    log_partition: int
    store: ProgressStore
    asked: int = 0
    complete: int = 0
    end_offset: int = 0
    following: bool = False
    announcement: Announcement = Announcement.NOT
    announce_offset: int = -1
    appending: int = 0
    told_offset: int = -1
    due_ms: int = 0
    idle_due_ms: int = 0
    earliest_ms: int = 0
    urgent: bool = False
    unreadable: int = 0
    uncleared: bool = False
    cleared_to: int = 0
    cleared_read: int = 0
    wanted: bool = False

    @property
    def current(self) -> bool:
        """Whether the newest `ReadLog` was answered in full: nobody acts on a prefix."""
        return 0 < self.asked == self.complete


@dataclass(slots=True)
class Counters:
    """What has happened, for metrics and status.

    Attributes:
        committed: How many of the finished records the log is known to tell as done.
        failures: Calls of handlers that raised; after `retries` of them the record was tried again.
        walled: Partitions that are fetched no further now, because of their gap ranges (92).
        renewed: Consumers that were replaced because they stood still.
        forced: Beginnings in ranges that a person released: the order of keys may be broken.
        committed_at_ms: When the log acknowledged the last commit that told of finished records.
    """

    fetched: int = 0
    finished: int = 0
    committed: int = 0
    failures: int = 0
    retries: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    commits: int = 0
    committed_at_ms: int = 0
    commit_bytes: int = 0
    releases: int = 0
    overdue: int = 0
    renewed: int = 0
    forced: int = 0
    walled: int = 0
    lost_to_retention: int = 0
    unreadable: int = 0


RECORD_MAX_BYTES = 900_000
"""Of a value in the log. Below the 1 MB that brokers take by default, with room for its key."""
RECORD_MIN_BYTES = 4_096
"""No record is split into smaller parts."""
_SIZE_AGAIN_MS = 60_000


@dataclass(slots=True, eq=False)
class MemberState:
    """All a member knows.

    Attributes:
        name: Unique in the group; a static member keeps it over incarnations.
        incarnation: This run of that name.
        metadata: Of the assignment held now: who we are in which generation.
        first_generation: The first one of this run; -1: there was none yet.
        newest_generation: The last one that it knew; -1: there was none yet.
        joining: A JoinGroup is under way: no tenure may begin.
        closing: Drain, commit and leave.
        stop: Why the group stops, if it does.
        alone: The user assigns ranges itself; there is no group membership.
        capacity: How many records are processed at a time; its weight in the group.
        paused: Partitions of which nothing is fetched until the user resumes them.
        walled: Partitions of which nothing is fetched because they hold too many gap ranges.
        careful: Tenures whose last owners ended without a word, see `suspicion`.
        held_back_since_ms: Since when nothing is begun but a probe; 0: all is begun.
        record_max_bytes: What the log takes of one record; a larger one is split into parts.
        bytes_waiting: Bytes of the records admitted and unfinished, as each of them counts.
        beside_bytes: The mean size of keys and headers that are not counted with their records.
        breathe: Called in long work, between steps of some 0.1 ms: lets other threads run.
    """

    config: Config
    name: str
    incarnation: int
    log_partitions: int
    lock: AbstractContextManager[object] = field(default_factory=nullcontext)
    breathe: Callable[[], None] = lambda: None
    now_ms: int = 0
    metadata: GroupMetadata = NO_MEMBER
    first_generation: int = -1
    newest_generation: int = -1
    members: int = 1
    live: tuple[str, ...] = ()
    joining: bool = False
    closing: bool = False
    left: bool = False
    stop: Stop | None = None
    alone: bool = False
    capacity: int = field(init=False)
    paused: set[TopicPartition] = field(default_factory=set)
    walled: set[TopicPartition] = field(default_factory=set)
    careful: list[Tenure] = field(default_factory=list)
    nonce: int = 0
    held_back_since_ms: int = 0
    bytes_waiting: int = 0
    beside_bytes: float = 0.0
    topics: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    views: dict[int, LogView] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    record_max_bytes: int = field(default_factory=lambda: RECORD_MAX_BYTES)
    lanes: KeyLanes = field(init=False)
    _pending: int = -1
    _tokens: int = 0
    _tenures: int = 0
    _smaller_since: int = 0
    _too_large_at_ms: int = 0

    @property
    def generation(self) -> int:
        """Of the assignment held now; -1: none."""
        return self.metadata.generation

    def __post_init__(self) -> None:
        self.lanes = KeyLanes(self.lock)
        self.capacity = self.config.capacity or 1

    @property
    def group(self) -> str:
        """The group's id."""
        return self.config.group_id

    def token(self) -> int:
        """A number that tells the answer to one action from all others."""
        self._tokens += 1
        return self._tokens

    def tenure_number(self) -> int:
        """The number of the next tenure of this incarnation."""
        self._tenures += 1
        return self._tenures

    def view_of(self, tp: TopicPartition) -> LogView:
        """The progress log's partition in which this data partition's history lies."""
        number = log_partition_of(self.group, tp.topic, tp.partition, self.log_partitions)
        view = self.views.get(number)
        if view is None:
            view = self.views[number] = LogView(number, ProgressStore(self.group))
        return view

    def partition(self, tp: TopicPartition) -> Partition:
        """What we know of a partition; made when first asked for. Its topic must be known."""
        found = self.partitions.get(tp)
        if found is None:
            found = Partition(tp, self.topics[tp.topic][0], self.view_of(tp))
            self.partitions[tp] = found
        return found

    def assignment(self) -> dict[TopicPartition, tuple[KeyRange, ...]]:
        """The ranges that have begun here; those that still wait are not in it."""
        return {
            tp: ranges
            for tp, partition in sorted(self.partitions.items())
            if (ranges := union(r for t in partition.tenures if t.begun for r in t.ranges))
        }

    def pending(self) -> int:
        """Records admitted and unfinished, over all tenures; O(1) until `count_anew`."""
        if self._pending < 0:
            self._pending = sum(
                len(tenure.pending)
                for partition in self.partitions.values()
                for tenure in partition.all_tenures()
            )
        return self._pending

    @property
    def overhead(self) -> float:
        """Bytes that a record takes besides what is counted with it."""
        return RECORD_BYTES + self.beside_bytes

    def bytes_held(self) -> int:
        """Bytes that all records take which are admitted and unfinished. O(1) as `pending`."""
        return self.bytes_waiting + int(self.pending() * (RECORD_BYTES + self.beside_bytes))

    def count_anew(self) -> None:
        """Something has happened that may change what is pending."""
        self._pending = -1

    def split_smaller(self, token: int) -> None:
        """The log has refused an append for its size: split records into smaller parts.

        Args:
            token: Of the append. One that was built before the last call says nothing new.
        """
        if token <= self._smaller_since:
            return
        self._smaller_since = self._tokens
        is_smallest = self.record_max_bytes <= RECORD_MIN_BYTES
        self.record_max_bytes = max(RECORD_MIN_BYTES, self.record_max_bytes // 2)
        if is_smallest:
            if self.now_ms < self._too_large_at_ms:
                return
            self._too_large_at_ms = self.now_ms + _SIZE_AGAIN_MS
        topic = self.config.progress_topic
        now = (
            f"and takes not even {self.record_max_bytes} bytes, so no progress is committed"
            if is_smallest
            else f"so progress is written in parts of at most {self.record_max_bytes} bytes"
        )
        self.report(
            Level.ERROR if is_smallest else Level.WARNING,
            f"progress topic {topic}: refuses a record for its size, {now}. Nothing is lost. Raise "
            f"its limit: kafka-configs.sh --alter --entity-type topics --entity-name {topic} "
            "--add-config max.message.bytes=1048588",
        )

    def report(self, level: Level, text: str, failure: Failure | None = None) -> None:
        """Ask for a line in the log; with the traceback of a failure, if it has one."""
        self.actions.append(Report(level, text, failure))
