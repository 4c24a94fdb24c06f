"""The checker: sees everything, and raises `AssertionError` with the invariant that is broken.

In: every record of the progress log as it is appended, every start and end of a handler, every
plan, every commit, and each member after each step that touched it. It folds the log at once and
completely, so it knows what the log truly says while members still read a prefix. What a handler
finished counts for the epoch of its tenure: a rewind begins anew. Where handlers buffer their
output, what is finished but not flushed counts as not processed, and is lost with its process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import (
    WHOLE,
    Claim,
    KeyRange,
    Member,
    Subscription,
    TopicPartition,
    covers,
    decode_assignment,
    decode_subscription,
    intersect,
    subtract,
    union,
)
from coop_consumer.config import OnDataLoss, OnFailure
from coop_consumer.core.handover import singles, without
from coop_consumer.core.lanes import HELD, Lane, records_of
from coop_consumer.core.record import Record
from coop_consumer.planning import assignor_of
from offsets import (
    BaseKey,
    Committed,
    DecisionKey,
    GapTracker,
    LogRecord,
    PartitionProgress,
    PartitionStore,
    ProgressStore,
    TenureId,
    TenureKey,
    TenureRecord,
    TopicStartKey,
    Value,
    decode_key,
    decode_value,
)
from tests.simulation.data_log import SimMessage

if TYPE_CHECKING:
    from coop_consumer.core.leader import GroupMemberData
    from coop_consumer.core.policies import Policies
    from coop_consumer.core.state import Partition
    from coop_consumer.core.tenure import Tenure
    from tests.simulation.coordinator import Seat
    from tests.simulation.data_log import DataLog
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

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
    born_under: bool = False
    original_end: int = -1

    def excuse(self, offsets: Iterable[int]) -> None:
        """Nobody has to process these offsets."""
        self.excused.update(offsets)
        for history in self.history.values():
            for offset in self.excused & history.open().keys():
                history.settle(offset)

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


class Checker:
    """Checks I1 to I5, I8 and I10."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stores = [ProgressStore(world.group) for _ in range(world.scenario.log_partitions)]
        self._watched: dict[TopicPartition, Watched] = {}
        # By the tenure itself: it may be renamed, which is no new beginning.
        self._known: dict[Tenure, tuple[int, tuple[int, PartitionProgress]]] = {}
        self._owned: dict[MemberShell, Owned] = {}
        self._parked: dict[Tenure, frozenset[int]] = {}
        self._evicted = set[TenureId]()
        self._checked: dict[MemberShell, dict[TopicPartition, object]] = {}
        self._marks: dict[MemberShell, object] = {}
        self._tenures: dict[MemberShell, int] = {}
        self._reads_topic, self._was_read = False, False
        self._probes: dict[MemberShell, list[tuple[Record, int]]] = {}
        self._tried: dict[tuple[Tenure, int], int] = {}
        self._disturbed = self._fallen = self._crashed = 0
        self._in_turn: set[tuple[TopicPartition, int]] = set()  # when a member crashed
        self._is_orderly, self._was_sought = True, False
        self.accepts_loss = world.config.on_data_loss is OnDataLoss.WARN
        self.repeats = Counter[str]()

    # ---- the data topic ------------------------------------------------------------------------

    def made(self, log: DataLog, topic_id: bytes) -> None:
        """A partition is there, or there anew: what was known of one so called counts no more."""
        self._watched[log.tp] = Watched(log, topic_id, born_under=self._reads_topic)

    def about_to_begin(self, committed: Collection[TopicPartition]) -> None:
        """No member has started yet; a plain group has committed these partitions."""
        for tp, watched in self._watched.items():
            if committed:
                watched.is_decided, watched.born_under = tp in committed, True
            else:
                watched.original_end = watched.log.end
        self._was_read = bool(committed)

    def _know_less(self) -> None:
        """From here on members may find a topic that the group reads, and no word of it."""
        self._was_read = True
        for watched in self._watched.values():
            watched.original_end = -1

    def produced(self, tp: TopicPartition, message: SimMessage) -> None:
        """A message was appended."""
        watched, offset = self._watched[tp], message.offset()
        watched.by_lane.setdefault(self._lane(message.key(), offset), []).append(offset)
        for history in watched.history.values():
            if offset >= max(history.base, history.rewritten_to):
                history.undone[offset] = message

    def retained_from(self, tp: TopicPartition, low: int) -> None:
        """Retention is about to remove what lies below: nobody can process it, so it is lost."""
        watched = self._watched[tp]
        lost = {o for o in map(SimMessage.offset, watched.log.messages) if o < low}
        if self.accepts_loss:
            watched.excuse(lost)
        else:
            watched.lost |= lost

    def cut(self, tp: TopicPartition, end: int) -> None:
        """An unclean election is about to remove what lies at `end` or above: it is lost.

        What the next leader writes at these offsets looks, until the cut is noticed, like what was
        removed: whoever had seen that need not process this in the same epoch.
        """
        watched = self._watched[tp]
        watched.epochs += self.accepts_loss
        watched.cuts += not self.accepts_loss
        watched.lost -= {offset for offset in watched.lost if offset >= end}
        for offsets in watched.by_lane.values():
            del offsets[bisect_left(offsets, end) :]
        for history in watched.history.values():
            history.rewritten_to = watched.log.highest_end
            history.cut(end)

    def accept_loss(self) -> None:
        """A person has heard of lost data, and lets the group go on: what is lost is excused."""
        self.accepts_loss = True
        for watched in self._watched.values():
            watched.excuse(watched.lost)
            watched.epochs += watched.cuts
            watched.lost, watched.cuts = set(), 0

    def foreign(self, tp: TopicPartition) -> None:
        """Somebody else decided about the committed offset: one more epoch may begin."""
        self._watched[tp].epochs += 1
        self._watched[tp].is_decided = True
        self._know_less()

    def reset(self, tp: TopicPartition, epoch: int) -> None:
        """An operator is about to begin this epoch: what was done in one so called counts no more.

        Until then the log may have lost all that it told of such an epoch.
        """
        watched = self._watched[tp]
        watched.epochs = max(watched.epochs + 1, epoch)
        watched.history.pop(epoch, None)
        watched.is_decided = True
        self._know_less()

    def sought(self) -> None:
        """A user has one record or another handed out again: its attempts are counted anew."""
        self._is_orderly, self._was_sought = False, True
        self._disturbed += 1

    def evicted(self, tenures: Iterable[TenureId]) -> None:
        """Their member was put out of the group: facts of theirs that come late may be dropped."""
        self._evicted.update(tenures)
        self._is_orderly = False
        self._disturbed += 1

    # ---- the progress log ----------------------------------------------------------------------

    def appended(self, partition: int, record: LogRecord) -> None:
        """A record is in the log."""
        store = self._stores[partition]
        store.apply(record)
        key = decode_key(record.key)
        is_told = isinstance(key, BaseKey) and not self._was_read
        self._reads_topic |= is_told or isinstance(key, TopicStartKey)
        if not isinstance(key, TenureKey | BaseKey | DecisionKey):
            return
        if (
            isinstance(key, BaseKey)
            and record.value is None
            and self._world.log.has_lost(partition)
        ):
            self.damaged(partition)  # the one that was to stay may have been lost before
            return
        tp = self._world.partition_of(key.topic_id, key.partition)
        deleted = isinstance(key, TenureKey) and record.value is None
        if isinstance(key, TenureKey) and key.part and not deleted:
            self._world.happened("record in parts")
        if tp is not None and isinstance(key, TenureKey) and deleted and not key.part:
            self._check_nobody_waits(tp, key)
        evicted = (
            isinstance(key, TenureKey)
            and deleted
            and (
                key.tenure in self._evicted
                or not self._world.is_member(key.tenure.member, key.tenure.incarnation)
            )
        )
        if tp is not None:
            told = store.partition(key.topic_id, key.partition)
            self._merge(tp, told, may_shrink=evicted)
            if isinstance(key, TenureKey) and record.value is not None:
                self._note_attempts(tp, decode_value(key, record.value))

    def _note_attempts(self, tp: TopicPartition, record: Value) -> None:
        """An attempt that is told before it begins may be the last one, whatever comes of it."""
        assert isinstance(record, TenureRecord)
        history = self._watched[tp].history.get(record.epoch)
        for attempt in record.attempts:
            if history is not None and attempt.fell:
                history.noted.add(attempt.offset)
                if attempt.attempts >= self._world.config.max_attempts and self._world.skips:
                    history.undone.pop(attempt.offset, None)

    def falls(self, record: Record) -> None:
        """The handler of this record ends its process.

        Nobody knows after the first fall whose record it was, and after the second one it may be
        one of several: so it takes three of them at least, and no more than `max.attempts`. Where
        an heir was careful with too few, its successor is with more: that may cost some falls.
        """
        history = self._history(record.tenure)
        if history is None or self._world.config.on_failure is OnFailure.STOP:
            return  # each start of a group that stops is an attempt of its own
        history.falls[record.offset] += 1
        self._fallen += 1
        fallen = history.falls[record.offset]
        allowed = max(3, self._world.config.max_attempts) + 3
        others = self._disturbed - (self._fallen - 1)  # whatever else has happened by now
        assert fallen <= allowed * (1 + others), (
            f"falls: {record} has ended {fallen} processes, with max.attempts="
            f"{self._world.config.max_attempts}"
        )

    def given_up(self, tp: TopicPartition, offset: int, error: str) -> None:
        """A record has had its last attempt: not for a fall that another one caused."""
        place, beside = (tp, offset), self._disturbed - self._crashed
        fell = "begun by itself" in error and place != self._world.killer
        assert not fell or place in self._in_turn or beside, (
            f"falls: {tp}@{offset} is given up ({error}), and {self._world.killer} is the one"
        )

    def _check_nobody_waits(self, tp: TopicPartition, key: TenureKey) -> None:
        """I3: what somebody waits to hear of a tenure is not deleted.

        But for who came back to a static member's seat: it was given the wait list of the run
        before, which may have heard all it waited for. And but for tenures of who was put out:
        others have taken them over and cleared them away, and then he is back and claims them. Who
        waits for one asks again after a while, and will not be told to wait.
        """
        if key.tenure in self._evicted:
            return
        for shell in self._world.shells:
            partition = shell.core.state.partitions.get(tp)
            if partition is None or partition.topic_id != key.topic_id:
                continue
            if not (shell.alive and shell.has_newest_assignment) or shell.inherits:
                continue
            waits = [(item.waits, item.ranges) for item in partition.waiting]
            waits += [(tenure.waits, singles(tenure.blocked)) for tenure in partition.tenures]
            for others, ranges in waits:
                for wait in others:
                    is_it = TenureId(wait.member, wait.incarnation, wait.number) == key.tenure
                    assert not (is_it and intersect(wait.ranges, ranges)), (
                        f"I3: {key.tenure} is deleted while {shell.title} waits for it in {tp}"
                    )

    def compacted(self, partition: int) -> None:
        """The log was compacted: a reader from its beginning must find the same progress (I3)."""
        self._read_again(partition)
        for tp, store in self._partitions_of(partition):
            self._merge(tp, store, may_shrink=False)

    def damaged(self, partition: int) -> None:
        """Acknowledged records are gone from the log: records may repeat, none may be lost."""
        self._read_again(partition)
        self._reads_topic = self._is_orderly = False
        self._disturbed += 1
        self._know_less()
        for tp, watched in self._watched.items():
            # Without the log only what is committed tells that the group has read the topic.
            watched.born_under &= bool(self._world.coordinator.offsets)
            if self._world.log_partition(tp) == partition:
                watched.epochs = max(watched.epochs, *watched.history, 0) + 1
                watched.merged = 0, PartitionProgress()
                for history in watched.history.values():
                    history.finished.clear()
                    history.failed.clear()
        for tp, store in self._partitions_of(partition):
            self._merge(tp, store, may_shrink=True)

    def _read_again(self, partition: int) -> None:
        fresh = self._stores[partition] = ProgressStore(self._world.group)
        for record in self._world.log.records(partition):
            fresh.apply(record)

    def _partitions_of(self, partition: int) -> Iterator[tuple[TopicPartition, PartitionStore]]:
        store = self._stores[partition]
        for topic_id, number in store.partitions():
            tp = self._world.partition_of(topic_id, number)
            if tp is not None:
                yield tp, store.partition(topic_id, number)

    def _merge(self, tp: TopicPartition, store: PartitionStore, *, may_shrink: bool) -> None:
        watched, epoch = self._watched[tp], store.epoch or 0
        old_epoch, old = watched.merged
        progress = store.progress()
        assert epoch >= old_epoch, f"I3: {tp} went back from epoch {old_epoch} to {epoch}"
        assert epoch <= watched.epochs, f"I3: {tp} began epoch {epoch} without anybody's decision"
        if epoch == old_epoch > 0:
            base = watched.history[epoch].base
            assert store.base_offset == base, (
                f"I3: {tp} moved the beginning of epoch {epoch} from {base} to {store.base_offset}"
            )
        if epoch == old_epoch and not may_shrink:
            # (Facts of an evicted owner that come after its successor's start may be dropped.)
            for fact in old.clip(WHOLE):
                assert progress.contains(fact), f"I3: {tp} lost {fact}, has {_text(progress)}"
        if epoch == old_epoch > 0 and may_shrink:
            watched.history[epoch].dropped.update(
                message.offset()
                for message in watched.log.messages
                if old.is_done(message.key_hash, message.offset())
                and not progress.is_done(message.key_hash, message.offset())
            )
        watched.merged = epoch, progress
        if epoch > old_epoch > 0:
            self._world.happened("epoch reset")
            if store.base_offset < old.stable:
                self._world.happened("rewind")
        if epoch:
            self._begin_history(watched, epoch, store.base_offset)
            assert progress.next_offset <= watched.limit, (
                f"I10: {tp} has {_text(progress)}, nothing was ever written at {watched.limit}"
            )
            for offset, message in watched.history[epoch].open().items():
                assert not progress.is_done(message.key_hash, offset), (
                    f"I2: {tp}@{offset} (key {message.key()!r}) counts as done in epoch {epoch} "
                    f"but was never processed, or not flushed: {_text(progress)}"
                )

    def _check_beginning(self, watched: Watched, base: int) -> None:
        """Where a partition begins of which nobody has decided anything."""
        if self._world.scenario.offset_reset == "earliest" or watched.born_under:
            passed = [
                offset
                for offset in map(SimMessage.offset, watched.log.messages)
                if offset < base and offset not in watched.excused
            ]
            assert not passed, f"I2: {watched.log.tp} begins at {base}, {passed} are passed over"
        else:
            assert base >= watched.original_end, (
                f"start: {watched.log.tp} begins at {base}; by auto.offset.reset=latest the group "
                f"begins at its end, which was at {watched.original_end} before anybody was there"
            )

    def _begin_history(self, watched: Watched, epoch: int, base: int) -> None:
        """An epoch begins; after a damage to the log it may be one that there was before.

        What lay below its first beginning was done before it, and need not be done again because
        a base record of somebody who came too late is the only one left.
        """
        old = watched.history.get(epoch)
        if old is not None and old.base == base:
            return
        is_as_it_was = watched.epochs == 1 and not watched.log.cuts
        if is_as_it_was and not (watched.history or watched.is_decided):
            self._check_beginning(watched, base)
        undone = {m.offset(): m for m in watched.log.messages if m.offset() >= base}
        if old is not None:
            undone = {o: m for o, m in undone.items() if o in old.undone}
        new = watched.history[epoch] = History(base, old.rewritten_to if old else 0, undone)
        if old is not None:
            new.buffered, new.durable = old.buffered, old.durable
        watched.excuse(())

    def committed(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        """A member's commit of offsets is stored."""
        for tp, committed in offsets.items():
            watched, epoch, (offset, metadata) = self._watched[tp], committed.epoch, committed
            if not committed.is_of(watched.topic_id):
                continue  # of a topic that was so called: it means nothing for this one
            assert epoch in watched.history, f"I2: {tp} committed {metadata!r}, no epoch"
            undone = [o for o in watched.history[epoch].open() if o < offset]
            assert not undone, f"I2: {tp} committed {offset} ({metadata}), {undone} is unprocessed"
            assert offset <= watched.limit, (
                f"I10: {tp} committed {offset} beyond its end {watched.limit}"
            )

    def progress_now(self) -> Known:
        """What the log tells now."""
        return {(w.topic_id, tp.partition): w.merged for tp, w in self._watched.items()}

    def parked_now(self) -> Parked:
        """What the log has as parked now."""
        if self._world.config.on_failure is not OnFailure.PARK:
            return {}
        return {
            (watched.topic_id, tp.partition, watched.merged[0]): frozenset(
                offset for offset, it in self._world.store(tp).attempts().items() if it.parked
            )
            for tp, watched in self._watched.items()
        }

    def epoch(self, tp: TopicPartition) -> int:
        """The epoch that the log tells; 0: none."""
        return self._watched[tp].merged[0]

    def undone(self, tp: TopicPartition, epoch: int) -> list[int]:
        """Offsets that nobody has processed in an epoch."""
        watched = self._watched[tp]
        history = watched.history.get(epoch)
        return sorted(history.undone if history else map(SimMessage.offset, watched.log.messages))

    def store(self, partition: int) -> ProgressStore:
        """The whole of one log partition, folded."""
        return self._stores[partition]

    # ---- the group -----------------------------------------------------------------------------

    def _check_stays(
        self,
        counts: Mapping[str, int],
        told: Mapping[str, Subscription],
        ranges: Mapping[str, Mapping[TopicPartition, tuple[KeyRange, ...]]],
        policies: Policies,
    ) -> None:
        """I6: the plan moves no more than it must, by what its members hold."""
        members = [
            Member(
                name,
                topics=tuple(counts),
                capacity=it.capacity,
                host=it.host,
                allow_sharing=it.allow_sharing,
                owned=_by_partition(claim for claim in it.claims if not claim.draining),
                draining=_by_partition(claim for claim in it.claims if claim.draining),
            )
            for name, it in told.items()
        ]
        least = assignor_of(self._world.config).assign(
            partitions=counts,
            members=members,
            topic_allows_sharing=policies.topic_allows_sharing(counts),
            group_allows_sharing=not policies.group,
        )
        moved, needed = (sum(_lost(it, plan) for it in members) for plan in (ranges, least))
        assert moved <= needed, f"I6: a plan moves {moved} hashes where {needed} are enough"

    def planned(
        self,
        counts: Mapping[str, int],
        members: Iterable[GroupMemberData],
        assignments: Iterable[bytes],
        policies: Policies,
    ) -> None:
        """I1: the ranges of every partition are disjoint and cover the hash space.

        Unless everybody is about to leave: then there is nobody to give them to.
        """
        ranges: dict[TopicPartition, list[KeyRange]] = {
            TopicPartition(topic, number): []
            for topic, count in counts.items()
            for number in range(count)
        }
        members, plans = list(members), [decode_assignment(data) for data in assignments]
        for plan in plans:
            for tp, own in plan.ranges.items():
                ranges[tp] += own
        told = [decode_subscription(member.user_data) for member in members]
        if len({it.name for it in told}) == len(told):
            staying = {it.name: it for it in told if not it.leaving}
            by_name = {it.name: plan.ranges for it, plan in zip(told, plans, strict=True)}
            self._check_stays(counts, staying, by_name, policies)
        if all(decode_subscription(member.user_data).leaving for member in members):
            assert not any(ranges.values()), f"I1: who leaves is assigned {ranges}"
            return
        for tp, of_partition in ranges.items():
            at = WHOLE.lo
            for key_range in sorted(of_partition):
                assert key_range.lo == at, f"I1: {tp} is assigned as {sorted(of_partition)}"
                at = key_range.hi + 1
            assert at == WHOLE.hi + 1, f"I1: {tp} is assigned as {sorted(of_partition)}"
            may_share = not policies.group and tp.topic not in policies.topics
            assert may_share or of_partition == [WHOLE], (
                f"policy: {tp} must not be shared, and is assigned as {sorted(of_partition)}"
            )

    @staticmethod
    def joins(shell: MemberShell, subscription: bytes) -> None:
        """A member joins: it has to speak of what it can process now."""
        capacity = decode_subscription(subscription).capacity
        assert capacity == shell.capacity, (
            f"capacity: {shell.title} joins with {capacity} and has {shell.capacity}"
        )

    def looked_at(self, shell: MemberShell) -> None:
        """A member has taken in an event."""
        state = shell.core.state
        if self._tenures.get(shell) == state._tenures:
            return  # none has begun
        self._tenures[shell] = state._tenures
        for partition in state.partitions.values():
            for tenure in partition.all_tenures():
                if tenure not in self._known:
                    place = tenure.key.topic_id, tenure.tp.partition
                    known = shell.known.get(place, (0, PartitionProgress()))
                    self._known[tenure] = state.generation, known
                    if parked := shell.parked.get((*place, tenure.epoch)):
                        self._parked[tenure] = parked

    def check(self, shell: MemberShell) -> None:
        """What must hold of a member between two steps (I1, I2, I4, I8, I10)."""
        if not shell.alive:
            self._owned.pop(shell, None)
            return
        mark = _mark(shell)
        if mark == self._marks.get(shell):
            return  # most ticks find nothing to do
        self._marks[shell] = mark
        shell.core.lanes.check()
        self._check_bounds(shell)
        checked, self._checked[shell] = self._checked.get(shell, {}), {}
        owned: Owned = {}
        for tp, partition in shell.core.state.partitions.items():
            now = self._checked[shell][tp] = _version(partition)
            if now != checked.get(tp):
                shell.core.check_partition(partition)
            watched, place = self._watched[tp], (partition.topic_id, tp.partition)
            for tenure in partition.tenures:
                seen_to, is_current = (
                    tenure.tracker.seen_to,
                    tenure.key.topic_id == watched.topic_id,
                )
                assert not is_current or seen_to <= watched.limit, (
                    f"I10: {tenure} saw {seen_to} of {watched.limit}"
                )
                if tenure.begun:
                    mine = without(tenure.ranges, tenure.blocked)
                    owned[place] = (*owned.get(place, ()), *mine)
        if owned != self._owned.get(shell):
            self._owned[shell] = owned
            self._check_apart(shell, owned)

    def _check_apart(self, shell: MemberShell, owned: Owned) -> None:
        """I1: what two members of the group may start now is apart."""
        if shell.seat is None or shell.seat.lost:
            return
        for other, theirs in self._owned.items():
            if other is shell or not other.alive or other.seat is None or other.seat.lost:
                continue
            for place in owned.keys() & theirs.keys():
                tp = self._world.partition_of(*place)
                if tp is None or any(self._is_superseded(s, tp) for s in (shell, other)):
                    continue
                both = [r for r in owned[place] if any(map(r.overlaps, theirs[place]))]
                assert not both, f"I1: {shell.title} and {other.title} both hold {both} of {place}"

    @staticmethod
    def _check_bounds(shell: MemberShell) -> None:
        """I8: at a bound the fetch is held, and nothing more comes than was under way then.

        Gap ranges are what lies between records admitted and unfinished: so many, so few.
        """
        state, config = shell.core.state, shell.core.state.config
        finished = {id(record): record.size for record in state.lanes.finished}
        waiting = sum(finished.values()) + sum(record.size for record in state.lanes.fresh)
        for tenure in state.careful:
            if tenure.suspicion is not None:
                careful = [*tenure.suspicion.waiting, *tenure.suspicion.apart]
                waiting += sum(record.size for _, record in careful)
        for tp in state.partitions:
            for entry in state.lanes._table(tp).values():  # who looks at it must not file anything
                is_held = isinstance(entry, Lane) and entry.state is HELD
                for record in records_of(entry):
                    if is_held or record.offset in record.tenure.pending:
                        waiting += 0 if id(record) in finished else record.size
        assert waiting == state.bytes_waiting, (
            f"I8: {shell.title} holds {waiting} bytes and counts {state.bytes_waiting}"
        )
        for tp, partition in state.partitions.items():
            held = sum(len(tenure.pending) for tenure in partition.all_tenures())
            came, wall = shell.fetcher.last_batch.get(tp, 0), config.max_num_ranges_held
            assert held < wall + max(came, 1), (
                f"I8: {shell.title} holds {held} records of {tp}; the wall is {wall}, and the "
                f"batch that reached it had {came}"
            )
        came, bound = shell.fetcher.bytes_at_hold, config.max_bytes_key_range_cache
        assert waiting < bound + max(came, 1), (
            f"I8: {shell.title} holds {waiting} bytes; the bound is {bound}, {came} were on their "
            "way when it was reached"
        )

    def finished_by(self, shell: MemberShell) -> list[tuple[Watched, History, SimMessage]]:
        """What this member has finished of what it holds, and so must be in the log once it says
        that all is committed.
        """
        held = {id(t) for p in shell.core.state.partitions.values() for t in p.tenures}
        return [
            (watched, history, message)
            for watched in self._watched.values()
            if (history := watched.history.get(watched.merged[0])) is not None
            for message in watched.log.messages
            if (by := history.finished.get(message.offset())) is not None
            and id(by.tenure) in held
            and by.tenure.sought is None
        ]

    def answered(
        self, shell: MemberShell, done: Iterable[tuple[Watched, History, SimMessage]]
    ) -> None:
        """It says that all of this is committed."""
        if shell.seat is None or shell.seat.lost or not self._is_orderly:
            return  # its records may have been cleared away
        for watched, history, message in done:
            epoch, progress = watched.merged
            if watched.history.get(epoch) is history:
                assert progress.is_done(message.key_hash, message.offset()), (
                    f"answer: {shell.title} says that all is committed, and "
                    f"{watched.log.tp}@{message.offset()} is not in the log"
                )

    def says_caught_up(self, shell: MemberShell) -> None:
        """It says that all it was assigned is processed, up to the end as it has seen it.

        But for what a user has skipped; who was put out, or has not heard of a new topic, may err.
        """
        is_member = shell.seat is not None and not shell.seat.lost
        if not (is_member and shell.alive) or shell.core.state.closing:
            return
        for tp, ranges in shell.ranges.items():
            watched, partition = self._watched[tp], shell.core.state.partitions[tp]
            if partition.topic_id != watched.topic_id:
                continue
            assert tp in shell.fetcher.seen, (
                f"caught_up: {shell.title} says so, and has not seen the end of {tp}"
            )
            end, leader_epoch = shell.fetcher.seen[tp]
            begun = [tenure for tenure in partition.tenures if tenure.begun]
            held = union(r for tenure in begun for r in tenure.ranges)
            assert covers(held, ranges), (
                f"caught_up: {shell.title} says so, and has {held} of {tp} {ranges}"
            )
            for tenure in begun:
                history = self._history(tenure)
                if history is None or tenure.sought is not None:
                    continue
                left = [
                    offset
                    for offset, message in history.undone.items()
                    if offset < end
                    and (message.leader_epoch() or 0) <= leader_epoch
                    and offset not in watched.lost
                    and any(message.key_hash in r for r in tenure.ranges)
                ]
                assert not left, f"caught_up: {shell.title} says so, and {left} of {tp} are left"
        self._world.happened("caught up")

    def waits_for_decision(self, tp: TopicPartition, offsets: Collection[int]) -> bool:
        """Whether all of these are parked, or behind a parked record of their key."""
        watched = self._watched[tp]
        store = self._world.store(tp)
        parked = [offset for offset, it in store.attempts().items() if it.parked]
        behind = {
            offset
            for lane in watched.by_lane.values()
            if (first := min((o for o in parked if o in lane), default=-1)) >= 0
            for offset in lane
            if offset >= first
        }
        return behind.issuperset(offsets)

    def replaced(self) -> None:
        """A static member's run is fenced by the next one: it commits no more of what it did."""
        self._is_orderly = False
        self._disturbed += 1

    def crashed(self, shell: MemberShell) -> None:
        """Its handlers are no more."""
        self._is_orderly = False
        self._disturbed += 1
        self._crashed += 1
        turn = shell.core.suspects.turn
        if turn is not None:
            self._in_turn.add((turn.tenure.tp, turn.record.offset))
        for watched in self._watched.values():
            for lane, executions in watched.running.items():
                watched.running[lane] = [e for e in executions if e.shell is not shell]
        self.gone(shell)

    # ---- buffered output -----------------------------------------------------------------------

    def buffered(self, shell: MemberShell) -> list[tuple[History, int]]:
        """What is in this member's buffer now."""
        return [
            (history, offset)
            for watched in self._watched.values()
            for history in watched.history.values()
            for offset, it in history.buffered.items()
            if shell in it.shells
        ]

    def flushed(self, shell: MemberShell, buffered: Iterable[tuple[History, int]]) -> None:
        """This part of its buffer is durable."""
        self._world.note(shell.title, "has flushed")
        for history, offset in buffered:
            if offset in history.buffered:
                history.settle(offset)

    def gone(self, shell: MemberShell) -> None:
        """The process has ended: what was in its buffer alone has to be processed again."""
        for history, offset in self.buffered(shell):
            it = history.buffered[offset]
            it.shells.remove(shell)
            if not it.shells:
                del history.buffered[offset]
                history.undone[offset] = it.message

    def loaded(self, shell: MemberShell, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """A member's user code loads state: what was done in these ranges is durable."""
        watched = self._watched[tp]
        history = watched.history.get(watched.merged[0])
        if history is None:
            return
        evicted = shell.seat is None or shell.seat.lost
        for offset, it in history.buffered.items():
            by = history.finished.get(offset)
            told = not evicted and by is not None and not by.may_be_repeated
            if (told or shell in it.shells) and any(it.message.key_hash in r for r in ranges):
                raise AssertionError(
                    f"I2: {shell.title} loads the state of {tp} {ranges}, and {offset} is buffered "
                    f"in {[other.title for other in it.shells]}"
                )

    # ---- handlers ------------------------------------------------------------------------------

    def _lane(self, key: bytes | None, offset: int) -> LaneKey:
        match self._world.scenario.ordering:
            case "partition":
                return None
            case "none":
                return offset
            case _:
                return offset if key is None else key

    def started(self, shell: MemberShell, record: Record) -> Execution:
        """A handler starts."""
        tenure = record.tenure
        watched, lane = self._watched[tenure.tp], self._lane(record.key, record.offset)
        history = self._history(tenure)
        self._check_probe(record)
        mine = Execution(shell, shell.seat, tenure, lane, watched, history)
        assert any(record.key_hash in r for r in tenure.ranges), (
            f"I4: {record} starts in {shell.title}, which has given its key up: {tenure}"
        )
        assert record.key_hash not in tenure.blocked, (
            f"I4: {record} starts in {shell.title}, which waits for whoever is at its key"
        )
        if history is None:  # it works for a topic that is no more, and will hear of it
            return mine
        for other in watched.running.setdefault(lane, []):
            self._check_alone(mine, other, record)
        if self._is_there(watched, record):  # else another was written there, of any key
            offsets = watched.by_lane.get(lane, [])
            earlier = offsets[: bisect_left(offsets, record.offset)]
            sought = 0 if tenure.sought is None else tenure.sought._offset
            skipped = [o for o in earlier if o in history.undone and o >= sought]
            assert not skipped, f"I4: {record} starts in {shell.title} before {skipped} of its key"
            self._check_repeat(mine, history, record)
            self._check_attempt(mine, history, record)
        assert tenure.tp not in shell.core.state.paused, (
            f"pause: {record} starts in {shell.title}, where its partition is paused"
        )
        watched.running[lane].append(mine)
        return mine

    def _history(self, tenure: Tenure) -> History | None:
        """What a tenure works for; None: its topic is no more."""
        watched = self._watched[tenure.tp]
        if tenure.key.topic_id != watched.topic_id:
            return None
        return watched.history[tenure.epoch]

    def _check_alone(self, mine: Execution, other: Execution, record: Record) -> None:
        assert mine.shell is not other.shell, f"I4: {record} runs twice in {mine.shell.title}"
        if mine.orphaned or self._is_superseded(mine.shell, mine.tenure.tp):
            return  # a zombie that does not know it yet
        if self._is_superseded(other.shell, other.tenure.tp):
            return
        if other.orphaned:
            seat = other.shell.seat
            came_back = seat is not None and not seat.gone and seat.first_generation
            if not came_back or self._known[mine.tenure][0] < came_back:
                return
        raise AssertionError(
            f"I4: {record} starts in {mine.shell.title} while {other.shell.title} is at its key"
        )

    def _is_superseded(self, shell: MemberShell, tp: TopicPartition) -> bool:
        """Whether a later run of a member's name has announced itself, which ends its tenures."""
        found = self._stores[self._world.log_partition(tp)].announced(shell.name)
        return found is not None and found.incarnation > shell.incarnation

    def _check_repeat(self, mine: Execution, history: History, record: Record) -> None:
        before = history.finished.get(record.offset)
        if before is None or mine.orphaned or mine.tenure.sought is not None:
            return
        if self._is_superseded(mine.shell, mine.tenure.tp):
            return
        superseded = self._is_superseded(before.shell, before.tenure.tp)
        assert before.may_be_repeated or superseded or before.tenure.sought is not None, (
            f"I5: {record} is repeated by {mine.shell.title}; {before.shell.title} had finished it "
            "and handed over in good order"
        )
        epoch, known = self._known[mine.tenure][1]
        told = epoch == record.tenure.epoch and known.is_done(record.key_hash, record.offset)
        assert not told or record.offset in history.dropped, (
            f"I5: {record} is repeated by {mine.shell.title}, though the log had it as done when "
            "its ranges were assigned"
        )
        self.repeats["after a crash or an eviction"] += 1

    def taken(self, shell: MemberShell, record: Record, now_ms: int) -> None:
        """A worker takes something new. While the circuit is open, that is the only probe."""
        if not shell.core.circuit.is_open:
            return
        self._world.happened("probe")
        hangs_ms = self._world.config.max_processing_ms
        opened_ms = shell.core.state.held_back_since_ms
        for other, since_ms in self._probes.get(shell, []):
            if since_ms < opened_ms:
                continue  # the probe that closed it the last time; a seek may bring it again
            is_over = other.offset not in other.tenure.pending or now_ms - since_ms >= hangs_ms
            assert is_over, f"circuit: {record} is begun in {shell.title} beside the probe {other}"
        let_go = shell.core.circuit._probe  # before a worker was free for it
        is_it = let_go is not None and let_go.record is record
        self._probes[shell] = [(record, let_go.since_ms if let_go and is_it else now_ms)]

    def _probe_failed(self, execution: Execution, record: Record) -> None:
        """A probe has failed, which is no attempt: its next one has the same number."""
        shell = execution.shell
        if any(record is probe for probe, _ in self._probes.get(shell, [])):
            self._probes[shell] = []
            if shell.core.circuit.is_open:
                self._tried[record.tenure, record.offset] = record.attempt

    def _check_probe(self, record: Record) -> None:
        before = self._tried.pop((record.tenure, record.offset), record.attempt)
        assert record.attempt <= before, (
            f"circuit: {record} was attempt {before}, and failed while the circuit was open"
        )

    def _check_attempt(self, mine: Execution, history: History, record: Record) -> None:
        """Failures are counted over orderly handovers, and what is parked waits for a decision."""
        self._check_parked(mine, record)
        last = history.failed.get(record.offset)
        if last is None:
            return
        if not (self._is_orderly or last.execution.tenure is mine.tenure):
            return  # what a member that is gone had counted may be in no record of the log
        if mine.tenure.sought is not None or mine.orphaned or record.offset in history.noted:
            return
        config = self._world.config
        if config.circuit_share:  # while it is open no attempt counts
            assert record.attempt in {last.attempt, last.attempt + 1}, f"attempts: {record}"
            return
        assert record.attempt == last.attempt + 1, (
            f"attempts: {record} starts in {mine.shell.title} as attempt {record.attempt}, and "
            f"attempt {last.attempt} failed in {last.execution.shell.title}"
        )
        is_over = last.attempt >= config.max_attempts
        assert not is_over or config.on_failure not in (OnFailure.PARK, OnFailure.SKIP), (
            f"attempts: {record} starts in {mine.shell.title}, though attempt {last.attempt} in "
            f"{last.execution.shell.title} was its last one; nobody has decided anything"
        )

    def _check_parked(self, mine: Execution, record: Record) -> None:
        """What the log had as parked when it was assigned waits for a decision, whoever crashed."""
        watched, parked = mine.watched, self._parked.get(mine.tenure, ())
        if record.offset not in parked or record.offset in watched.decided:
            return
        assert self._was_sought or mine.orphaned or watched.log.cuts, (
            f"attempts: {record} starts in {mine.shell.title}, though the log had it as parked "
            "when its ranges were assigned, and nobody has decided anything"
        )

    def decided(self, tp: TopicPartition, offset: int) -> None:
        """A person has decided about a parked record: its attempts are counted from 1."""
        self._watched[tp].decided.add(offset)
        for history in self._watched[tp].history.values():
            history.failed.pop(offset, None)

    def failed(self, execution: Execution, record: Record) -> None:
        """A handler has raised."""
        self._end(execution)
        self._probe_failed(execution, record)
        if execution.history is not None and self._is_there(execution.watched, record):
            failure = Failure(record.attempt, execution)
            execution.history.failed[record.offset] = failure
        if record.attempt >= self._world.config.max_attempts and self._world.skips:
            self._world.happened("skipped")
            if execution.history is not None:
                execution.history.undone.pop(record.offset, None)

    def finished(self, execution: Execution, record: Record) -> None:
        """A handler has ended well."""
        self._end(execution)
        history = execution.history
        if history is not None and self._is_there(execution.watched, record):
            message = history.undone.pop(record.offset, None)
            history.finished[record.offset] = execution
            if message is not None and self._world.buffered:
                history.buffered[record.offset] = Buffered(message)
            if record.offset in history.buffered:
                history.buffered[record.offset].shells.add(execution.shell)

    @staticmethod
    def _is_there(watched: Watched, record: Record) -> bool:
        """Whether the record was not cut off, and maybe another written in its place, since."""
        written = record.leader_epoch or 0
        return all(record.offset < cut for cut in watched.log.cuts[written:])

    def dead_lettered(self, record: Record, error: str) -> None:
        """A record counts as done without its handler."""
        self.given_up(record.tenure.tp, record.offset, error)
        self._world.happened("dead letter")
        history = self._history(record.tenure)
        if history is not None and self._is_there(self._watched[record.tenure.tp], record):
            last, attempts = history.failed.get(record.offset), self._world.config.max_attempts
            is_known = record.offset in history.noted
            assert is_known or last is None or last.attempt >= attempts, (
                f"attempts: {record} is sent to the dead-letter topic after {last.attempt} "
                f"failures of {attempts}"
            )
            history.settle(record.offset)

    def excuse_offset(self, tp: TopicPartition, offset: int) -> None:
        """A person decided to skip this record."""
        self._watched[tp].excuse([offset])

    @staticmethod
    def _end(execution: Execution) -> None:
        running = execution.watched.running.get(execution.lane, [])
        if execution in running:  # one of a bygone epoch never was
            running.remove(execution)


def _by_partition(claims: Iterable[Claim]) -> dict[TopicPartition, tuple[KeyRange, ...]]:
    found: dict[TopicPartition, list[KeyRange]] = {}
    for claim in claims:
        found.setdefault(claim.partition, []).extend(claim.ranges)
    return {tp: union(ranges) for tp, ranges in found.items()}


def _lost(member: Member, plan: Mapping[str, Mapping[TopicPartition, tuple[KeyRange, ...]]]) -> int:
    """How many hashes a plan takes from a member that holds them."""
    mine = plan.get(member.id, {})
    return sum(
        key_range.size
        for tp, owned in member.owned.items()
        for key_range in subtract(owned, mine.get(tp, ()))
    )


def _mark(shell: MemberShell) -> object:
    """Equal to another one of the same member only if it has done nothing in between.

    Whatever it wants has a number, and what executors do shows in the lanes.
    """
    state, lanes = shell.core.state, shell.core.state.lanes
    counters = state.counters
    return (
        state._tokens,
        state._tenures,
        state.generation,
        state.bytes_waiting,
        counters.fetched,
        counters.finished,
        counters.failures,
        len(lanes.finished),
        len(lanes.ended),
        len(lanes.ready),
        len(lanes.fresh),
    )


_NONE = frozenset[int]()


def _version(partition: Partition) -> object:
    """Equal to another one of the same partition only if nothing that is checked has changed."""
    return [
        (
            id(tenure),
            id(tenure.tracker),
            _seen(tenure.tracker),
            tenure.ranges,
            tenure.released,
            frozenset(tenure.blocked) if tenure.blocked else _NONE,
            frozenset(tenure.draining) if tenure.draining else _NONE,
            frozenset(tenure.lingering) if tenure.lingering else _NONE,
        )
        for tenure in partition.all_tenures()
    ]


def _seen(tracker: GapTracker) -> object:
    # An admitted record raises seen_to (with its batch) and a finished one lowers the number of
    # pending ones, or raises done_to; what is learned drops pending ones, or lies ahead.
    ahead = tuple(tracker._inherited.clip(WHOLE)) if tracker.ahead else ()
    return tracker.seen_to, tracker.done_to, len(tracker.pending), ahead


def _text(progress: PartitionProgress) -> str:
    return "; ".join(map(str, progress.clip(WHOLE)))
