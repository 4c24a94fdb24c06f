"""What a member knows, in one place: its partitions, streams, tenures and views of the log. Pure.

All parts of the core read this, and append to `actions`. Each record names in its docstring who
writes it. `MemberCore` is the one door through which events come in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, Unpack

from assignors import WHOLE, KeyRange, TopicPartition, Wait, intersect, subtract, union
from coop_consumer.core.actions import Action, Level, LogLine, Rejoin
from coop_consumer.core.agreement import Agreement
from coop_consumer.core.announcement import Announcement
from coop_consumer.core.counters import Counters
from coop_consumer.core.events import NO_MEMBER, GroupMetadata
from coop_consumer.core.hashes import without
from coop_consumer.core.lanes import KeyLanes
from coop_consumer.core.load import Sampler
from coop_consumer.core.pace import PartitionPace
from coop_consumer.core.placement import log_partition_of
from coop_consumer.core.record import RECORD_BYTES
from coop_consumer.core.record_size import RecordSize
from coop_consumer.core.tally import Tally
from coop_consumer.log_events import Facts, LogEvent
from offsets import ProgressStore, TenureId, TenureKey

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.blocked_read import Blockage
    from coop_consumer.core.failure import Failure
    from coop_consumer.core.stop import Stop
    from coop_consumer.core.tenure import Tenure
    from offsets import Attempt, PartitionProgress, PartitionStore


_APART_RECORDS, _APART_SHARE = 1_024, 1 / 8
"""A worker runs up to 256 records of a key at a time, and the fetch answers long before it has run
the rest."""

RESUME_SHARE = 0.5
"""What is held goes on once so much of its bound is left."""


@dataclass(slots=True)
class WaitingRanges:
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
        consumer: Which Consumer fetches it, see `StartStream`.
        next_offset: All below was delivered; a batch must start here.
        tenures: Those that it feeds.
        is_held: It is one of a hot hash, and its Consumer pauses. Written by `hot`.
        sampler: Which of its slices are looked at to measure load.
    """

    number: int
    consumer: int
    next_offset: int
    tenures: list[Tenure] = field(default_factory=list)
    is_held: bool = False
    sampler: Sampler = field(default_factory=Sampler)


@dataclass(slots=True, eq=False)
class Partition:
    """Everything of one partition that this member owns, waits for, drains or leads.

    Written by `handover` (`assigned`, `claims`, `waiting`), `withdrawal` (`unassign`), `claims`
    (waits that are over), `beginning` and `ending` (`waiting`, `tenures`, `draining`), `streams`
    (`streams`), `hot` and `streams` (`hot`), `intake`, `streams` and `data_loss` (`end_offset`),
    `data_loss` (`topic_id`), `intake` and `loads` (`pace`).

    Attributes:
        view: The progress log's partition in which its history lies.
        assigned: The ranges of the newest assignment.
        claims: Others' tenures that were at our ranges when that was made.
        waiting: What of `assigned` no tenure of ours has begun in.
        tenures: Begun, with ranges that we process.
        draining: Given up; handlers or the last record are still under way.
        streams: Its fetches, each by its Consumer.
        hot: Hashes of which so many records wait that they have a tenure and a stream of their own.
        end_offset: The end of the partition as the fetch saw it last; -1: not yet.
        exactly_once: Only what was read in the log is known to be done.
        pace: How many offsets a second it has to do.
        agreement: Which epoch counts.
    """

    tp: TopicPartition
    topic_id: bytes
    view: LogView
    assigned: tuple[KeyRange, ...] = ()
    claims: tuple[Wait, ...] = ()
    waiting: list[WaitingRanges] = field(default_factory=list)
    tenures: list[Tenure] = field(default_factory=list)
    draining: list[Tenure] = field(default_factory=list)
    streams: dict[int, Stream] = field(default_factory=dict)
    hot: set[int] = field(default_factory=set)
    end_offset: int = -1
    exactly_once: bool = False
    pace: PartitionPace = field(default_factory=PartitionPace)
    agreement: Agreement = field(init=False)

    def __post_init__(self) -> None:
        self.agreement = Agreement(
            self.tp, lambda: self.view.store.partition(self.topic_id, self.tp.partition)
        )

    def unassign(self) -> None:
        """No range of it is ours any more."""
        self.assigned = ()
        self.waiting = []

    # ---- what is held --------------------------------------------------------------------------

    def all_tenures(self) -> Sequence[Tenure]:
        """Tenures that hold or drain something."""
        return [*self.tenures, *self.draining] if self.draining else self.tenures

    def processed(self) -> tuple[KeyRange, ...]:
        """The ranges of all tenures here."""
        return union(r for tenure in self.tenures for r in tenure.ranges)

    def is_hot(self, tenure: Tenure) -> bool:
        """Whether a tenure is one of a hot hash, and of nothing else; also while it drains."""
        return tenure.was_hot or (
            len(tenure.ranges) == 1
            and any(tenure.ranges[0] == KeyRange(key_hash, key_hash) for key_hash in self.hot)
        )

    def hashes_at_work(self) -> set[int]:
        """Hashes at which a handler runs in this process, but for those that a person released."""
        return {
            hash_
            for tenure in self.all_tenures()
            for hash_ in (*tenure.draining, *tenure.blocked.lingering)
            if not self.store.forced(tenure.id, [KeyRange(hash_, hash_)])
        }

    def unlogged(self, ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
        """What of these ranges we have released, and the log does not tell so yet.

        With exactly once it is nobody's until then, not even ours: what was done of it may never be
        committed. With at least once our next tenure knows what was done, unless it was void.
        """
        unlogged = [
            r
            for it in self.all_tenures()
            if self.exactly_once or it.is_void
            for r in subtract(it.released, it.logged.released)
        ]
        return intersect(union(unlogged), union(ranges)) if unlogged else ()

    def had_before(self, tenure: Tenure, ranges: tuple[KeyRange, ...]) -> bool:
        """Whether other tenures of ours had some of these ranges. The log may lack their facts."""
        return any(
            had.overlaps(key_range)
            for other in self.all_tenures()
            if other is not tenure
            for had in (*other.held, *other.released)
            for key_range in ranges
        )

    @property
    def is_whole(self) -> bool:
        """Whether all of it is ours, and at work."""
        if self.assigned != (WHOLE,):
            return False
        return [it.ranges for it in self.tenures] == [(WHOLE,)] or self.processed() == (WHOLE,)

    @property
    def idle(self) -> bool:
        """Nothing left that would need this object."""
        holds = self.assigned or self.waiting or self.tenures or self.draining
        return not (holds or self.agreement.leads)

    @property
    def is_unsettled(self) -> bool:
        """Whether something here waits for the log, a tag, or another member."""
        agreement = self.agreement
        return bool(
            self.waiting
            or agreement.is_wanting
            or (agreement.is_lost and not self.idle)
            or any(tenure.blocked.hashes for tenure in self.tenures)
        )

    # ---- what is done --------------------------------------------------------------------------

    @property
    def store(self) -> PartitionStore:
        """Its part of the progress log, as far as that is read."""
        return self.view.store.partition(self.topic_id, self.tp.partition)

    def progress_in(self, epoch: int) -> PartitionProgress:
        """What is done by the log, and by our tenures of an epoch beyond that."""
        progress = self.store.progress()
        if self.exactly_once:
            return progress
        for tenure in self.all_tenures():
            is_of_it = tenure.epoch == epoch and tenure.key.topic_id == self.topic_id
            if is_of_it and not tenure.is_void:
                for fact in tenure.facts():
                    progress.merge(fact)
        return progress

    def attempts_in(self, epoch: int, *, but: Tenure | None = None) -> dict[int, Attempt]:
        """What has failed by the log, and by our tenures of an epoch beyond that.

        Of a hash whose release the log has, the log alone counts: its next owner may have failed as
        well, or a person may have decided.

        Args:
            epoch: Which.
            but: The tenure that asks; what it knows itself is left out.
        """
        found = self.store.attempts() if self.store.epoch == epoch else {}
        told = {it.id: it.record.attempts for it in self.store.tenures()} if found else {}
        for tenure in self.all_tenures():
            if tenure.epoch != epoch or tenure.key.topic_id != self.topic_id:
                continue
            released = tenure.logged.released
            for attempt in told.get(tenure.id, ()):  # it may know since that this is over
                is_ours = not any(attempt.key_hash in r for r in released)
                if is_ours and found.get(attempt.offset) == attempt:
                    del found[attempt.offset]
            if tenure is but:
                continue
            for offset, attempt in tenure.attempts.items():
                if any(attempt.key_hash in r for r in released):
                    continue
                # Without a group, somebody else may have had the hash before our release is logged.
                if not found.setdefault(offset, attempt).knows_more(attempt):
                    found[offset] = attempt
        return found

    def check(self) -> None:
        """Assert the invariants of what is held (I1, I2, I4, I10)."""
        # A hash may be blocked in one tenure while an older one drains it.
        held = sorted(
            r
            for tenure in self.all_tenures()
            for r in subtract(
                without(tenure.held, tenure.blocked.hashes),
                self.store.forced(tenure.id, tenure.held),
            )
        )
        for one, other in pairwise(held):
            assert one.hi < other.lo, f"I1: {self.tp}: {one} and {other} are held twice"
        for tenure in self.all_tenures():
            tenure.check()
        self.agreement.check()


def tenures_of(partitions: Iterable[Partition]) -> Iterator[Tenure]:
    """All that these hold or drain. It costs little where they are a thousand."""
    return chain.from_iterable(map(Partition.all_tenures, partitions))


@dataclass(slots=True, eq=False)
class CommitSchedule:
    """When the next commit to a partition of the log is due. Written by `commits`.

    Attributes:
        appending: Token of the commit under way; 0: none.
        release_offset: Where our last acknowledged commit lies that released something.
        due_ms: A commit is due at this time, if anything has changed.
        idle_due_ms: The same, once nothing is unfinished.
        earliest_ms: The group's budget allows no commit before.
        is_urgent: A commit is due at once; see `LogView.hurry`.
        is_large: So much has finished that a commit is due as soon as the budget allows.
    """

    appending: int = 0
    release_offset: int = -1
    due_ms: int = 0
    idle_due_ms: int = 0
    earliest_ms: int = 0
    is_urgent: bool = False
    is_large: bool = False

    def spent(self, now_ms: int, spacing_ms: int) -> None:
        """Something was appended that takes so long of this member's part of the budget."""
        self.earliest_ms = max(self.earliest_ms, now_ms) + spacing_ms
        self.due_ms = max(self.due_ms, self.earliest_ms)
        self.idle_due_ms = max(self.idle_due_ms, self.earliest_ms)

    def forget_log(self) -> None:
        """Records of the log are gone: no release of ours has to be read in it."""
        self.release_offset = -1


@dataclass(slots=True, eq=False)
class ClearingMark:
    """How far a partition of the log was looked through for what may be deleted.

    Written by `clearing`, and by `assigned` when an assignment comes.

    Attributes:
        is_new: Since the last assignment nobody has looked.
        offset: The log's end at the last look; 0: not since the last assignment.
        read: The number of the `ReadLog` on which that rested.
    """

    is_new: bool = False
    offset: int = 0
    read: int = 0

    def assigned(self, *, leads: bool) -> None:
        """An assignment has come, by which we lead, or not, partitions whose history lies here."""
        self.is_new |= leads
        self.offset = 0


@dataclass(slots=True, eq=False)
class LogView:
    """What this member has read of one partition of the progress log, and appends to it.

    Written by `log_reading`. Its three values have an owner each.

    Attributes:
        asked: Number of the last `ReadLog` sent.
        complete: Number of the newest `ReadLog` answered in full.
        unreadable: Records that could not be read, by reason, as far as they were counted.
        unreadable_due_ms: By reason, when more of them are told again.
        blocked: What holds up the read under way; None: nothing, as far as is known.
        announcement: How far the announcement of this run is.
        schedule: When the next commit is due.
        clearing: How far it was looked through for what may be deleted.
    """

    log_partition: int
    store: ProgressStore
    asked: int = 0
    complete: int = 0
    end_offset: int = 0
    following: bool = False
    unreadable: Mapping[str, int] = field(default_factory=dict)
    unreadable_due_ms: dict[str, int] = field(default_factory=dict)
    blocked: Blockage | None = None
    announcement: Announcement = field(init=False)
    schedule: CommitSchedule = field(default_factory=CommitSchedule)
    clearing: ClearingMark = field(default_factory=ClearingMark)

    def __post_init__(self) -> None:
        self.announcement = Announcement(self.log_partition)

    def hurry(self) -> None:
        """Something is to be committed at once: others wait for it."""
        self.schedule.is_urgent = True

    @property
    def current(self) -> bool:
        """Whether the newest `ReadLog` was answered in full: nobody acts on a prefix."""
        return 0 < self.asked == self.complete

    @property
    def has_own_releases(self) -> bool:
        """Whether what we have released ourselves is read."""
        return self.store.next_offset > self.schedule.release_offset


@dataclass(slots=True, eq=False)
class OwnMembership:
    """How this run of a member stands in its group.

    Written by `assignments` (`metadata`, `members`, `live`, `joining`, `alone`), `orders` (the
    generations), `closing` (`closing`, `left`), `failures` and `orders` (`stop`), `data_loss`
    (`patterns`), and the core (`capacity`). `MemberState.rejoin` counts the `nonce`.

    Attributes:
        capacity: How many records are processed at a time; its weight in the group.
        metadata: Of the assignment held now: who we are in which generation.
        first_generation: The first one of this run; -1: there was none yet.
        newest_generation: The last one that it knew; -1: there was none yet.
        members: How many there are.
        live: Their names, if this member is the group's lead.
        joining: A JoinGroup is under way: no tenure may begin.
        closing: Drain, commit and leave.
        left: Nothing is to be done any more.
        stop: Why the group stops, if it does.
        alone: The user assigns ranges itself; there is no group membership.
        nonce: Tells one JoinGroup from the one before, so that the leader plans anew.
        patterns: By which it subscribes, besides names.
    """

    capacity: int
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
    nonce: int = 0
    patterns: tuple[str, ...] = ()

    @property
    def generation(self) -> int:
        """Of the assignment held now; -1: none."""
        return self.metadata.generation

    @property
    def is_member(self) -> bool:
        """Whether it holds an assignment."""
        return self.metadata.generation >= 0

    @property
    def is_stable(self) -> bool:
        """Whether nothing is about to end the assignment, so that ranges may begin."""
        return not (self.joining or self.closing)


@dataclass(slots=True, eq=False)
class Load:
    """What this member has taken in, and what it holds back.

    Written by `intake` (bytes; `suspicion` as well, of what it forgets), `requests` (`paused`),
    `pressure` (`walled`), `suspicion` (`careful`) and `circuit` (`held_back_since_ms`).

    Attributes:
        bytes_waiting: Bytes of the records admitted and unfinished, as each of them counts.
        beside_bytes: The mean size of keys and headers that are not counted with their records.
        paused: Partitions of which nothing is fetched until the user resumes them.
        walled: Partitions of which nothing is fetched because they hold too many gap ranges.
        careful: Tenures whose last owners ended without a word, see `suspicion`.
        held_back_since_ms: Since when nothing is begun but a probe; 0: all is begun.
    """

    bytes_waiting: int = 0
    beside_bytes: float = 0.0
    paused: set[TopicPartition] = field(default_factory=set)
    walled: set[TopicPartition] = field(default_factory=set)
    careful: list[Tenure] = field(default_factory=list)
    held_back_since_ms: int = 0


@dataclass(slots=True, eq=False)
class OwnRun:
    """What a run of a member is made with. Nobody writes it.

    Attributes:
        name: Unique in the group; a static member keeps it over incarnations.
        incarnation: This run of that name.
        log_partitions: How many partitions the progress topic has.
        lock: Guards the lanes.
        breathe: Called in long work, between steps of some 0.1 ms: lets other threads run.
    """

    config: Final[Config]
    name: Final[str]
    incarnation: Final[int]
    log_partitions: Final[int]
    lock: Final[AbstractContextManager[object]]
    breathe: Final[Callable[[], None]]


@dataclass(slots=True, eq=False)
class MemberState(OwnRun):
    """All a member knows.

    Written by the core (`now_ms`, and `actions` once they are handed out) and `data_loss`
    (`topics`, `topics_left`, `topics_missing`). All parts append `actions`. `partition` and
    `view_of` add partitions and views. Each of the other values names its writers.

    Attributes:
        now_ms: The time of the event that is handled.
        membership: How it stands in the group.
        load: What it has taken in, and holds back.
        record_size: What the log takes of one record.
        topics: Id and number of partitions by name.
        topics_left: Those that this member consumes no more.
        topics_missing: Those that do not exist now.
        partitions: What it holds, waits for, or leads.
        views: The progress log's partitions, by number, as far as they are read.
        actions: What the event that is handled has brought about so far.
        newest_token: The last one that `token` has given.
    """

    now_ms: int = 0
    membership: OwnMembership = field(init=False)
    load: Load = field(default_factory=Load)
    record_size: RecordSize = field(default_factory=RecordSize)
    topics: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    topics_left: set[str] = field(default_factory=set)
    topics_missing: frozenset[str] = frozenset()
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    views: dict[int, LogView] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    tally: Tally = field(default_factory=Tally)
    lanes: KeyLanes = field(init=False)
    newest_token: int = 0
    _pending: int = -1
    _tenures: int = 0

    def __post_init__(self) -> None:
        self.lanes = KeyLanes(self.lock)
        self.membership = OwnMembership(self.config.capacity or 1)

    @property
    def group(self) -> str:
        """The group's id."""
        return self.config.group_id

    def token(self) -> int:
        """A number by which the answer to one action is known."""
        self.newest_token += 1
        return self.newest_token

    def new_tenure_key(self, partition: Partition) -> TenureKey:
        """The key of the next tenure of this incarnation."""
        self._tenures += 1
        tenure = TenureId(self.name, self.incarnation, self._tenures)
        return TenureKey(self.group, partition.topic_id, partition.tp.partition, tenure)

    def rejoin(self, why: str) -> None:
        """Ask for a new assignment: what the leader plans by has changed."""
        self.membership.nonce += 1
        self.actions.append(Rejoin(why))

    def view_of(self, tp: TopicPartition) -> LogView:
        """The progress log's partition in which this data partition's history lies."""
        number = log_partition_of(self.group, tp.topic, tp.partition, self.log_partitions)
        view = self.views.get(number)
        if view is None:
            view = self.views[number] = LogView(number, ProgressStore(self.group, self.config.tag))
        return view

    def partition(self, tp: TopicPartition) -> Partition:
        """What we know of a partition; made when first asked for. Its topic must be known."""
        found = self.partitions.get(tp)
        if found is None:
            topic_id, once = self.topics[tp.topic][0], self.config.exactly_once
            found = Partition(tp, topic_id, self.view_of(tp), exactly_once=once)
            self.partitions[tp] = found
        return found

    def spacing_ms(self, count: int) -> int:
        """How long so many records of a partition of the log take of this member's budget."""
        return self.membership.members * count * 1_000 // self.config.commit_budget_records

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
            tenures = tenures_of(self.partitions.values())
            self._pending = sum(len(tenure.pending) for tenure in tenures)
        return self._pending

    @property
    def overhead(self) -> float:
        """Bytes that a record takes besides what is counted with it."""
        return RECORD_BYTES + self.load.beside_bytes

    def bytes_held(self) -> int:
        """Bytes that all records take which are admitted and unfinished. O(1) as `pending`."""
        return self.load.bytes_waiting + int(self.pending() * self.overhead)

    def apart_max(self) -> float:
        """How many records of a hot hash may wait: a small share of each bound."""
        each = self.bytes_held() / max(1, self.pending())
        return min(
            _APART_RECORDS,
            self.config.max_num_ranges_held * _APART_SHARE,
            self.config.max_bytes_key_range_cache * _APART_SHARE / max(1.0, each),
        )

    def count_anew(self) -> None:
        """Something has happened that may change what is pending."""
        self._pending = -1

    def report(
        self,
        level: Level,
        event: LogEvent,
        text: str,
        failure: Failure | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        """Ask for a line in the log; with the traceback of a failure, if it has one."""
        self.actions.append(LogLine(level, event, text, facts, failure))
