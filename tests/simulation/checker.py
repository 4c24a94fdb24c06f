"""The checker: sees everything, and raises `AssertionError` with the invariant that is broken.

In: every record of the progress log as it is appended, every start and end of a handler, every
plan, every commit, and each member after each event. It folds the log at once and completely, so it
knows what the log truly says while members still read a prefix. What a handler finished counts for
the epoch of its tenure: a rewind begins anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import (
    WHOLE,
    KeyRange,
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from coop_consumer.core.record import Record
from coop_consumer.core.tag import epoch_of
from offsets import (
    BaseKey,
    DecisionKey,
    LogRecord,
    PartitionProgress,
    PartitionStore,
    ProgressStore,
    TenureId,
    TenureKey,
    decode_key,
)
from tests.simulation.data_log import SimMessage

if TYPE_CHECKING:
    from coop_consumer.core.leader import GroupMemberData
    from coop_consumer.core.tenure import Tenure
    from tests.simulation.coordinator import Seat
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

LaneKey = bytes | int
"""A key, or the offset of a record that has none and so no order to keep."""


@dataclass(slots=True, eq=False)
class Execution:
    """One run of a handler. `seat` is the member's at the start; None: it had none."""

    shell: MemberShell
    seat: Seat | None
    tenure: Tenure
    lane: LaneKey

    @property
    def orphaned(self) -> bool:
        """Whether the group had, or has since, given its ranges away without asking."""
        return self.seat is None or self.seat.lost or not self.shell.alive


@dataclass(slots=True)
class History:
    """What truly happened to a partition in one epoch.

    Attributes:
        undone: Offsets neither finished nor excused, with their messages.
        finished: Who finished an offset last.
    """

    base: int
    undone: dict[int, SimMessage]
    finished: dict[int, Execution] = field(default_factory=dict)


@dataclass(slots=True)
class Watched:
    """A partition as the checker sees it.

    Attributes:
        epochs: How many epochs there are reasons for.
        history: By epoch.
        merged: The progress that the log tells, and its epoch.
        by_lane: The offsets of each key, ascending.
        running: The handlers at work on each key.
        excused: Offsets that retention has removed or a person has decided to skip: a decision
            holds in later epochs, too.
    """

    epochs: int = 1
    history: dict[int, History] = field(default_factory=dict)
    merged: tuple[int, PartitionProgress] = (0, PartitionProgress())
    messages: list[SimMessage] = field(default_factory=list)
    by_lane: dict[LaneKey, list[int]] = field(default_factory=dict)
    running: dict[LaneKey, list[Execution]] = field(default_factory=dict)
    excused: set[int] = field(default_factory=set)

    def excuse(self, offsets: Iterable[int]) -> None:
        """Nobody has to process these offsets."""
        self.excused.update(offsets)
        for history in self.history.values():
            for offset in self.excused & history.undone.keys():
                del history.undone[offset]


class Checker:
    """Checks I1 to I5, I8 and I10."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stores = [ProgressStore(world.group) for _ in range(world.scenario.log_partitions)]
        self._watched: dict[TopicPartition, Watched] = {tp: Watched() for tp in world.data}
        # By the tenure itself: it may be renamed, which is no new beginning.
        self._known: dict[Tenure, tuple[int, tuple[int, PartitionProgress]]] = {}
        self._evicted = set[TenureId]()
        self.repeats = Counter[str]()

    # ---- the data topic ------------------------------------------------------------------------

    def produced(self, tp: TopicPartition, message: SimMessage) -> None:
        """A message was appended."""
        watched, offset = self._watched[tp], message.offset()
        watched.messages.append(message)
        watched.by_lane.setdefault(_lane(message.key(), offset), []).append(offset)
        for history in watched.history.values():
            if offset >= history.base:
                history.undone[offset] = message

    def retained_from(self, tp: TopicPartition, low: int) -> None:
        """Retention removed what lies below: nobody can process it, so it counts as lost."""
        watched = self._watched[tp]
        watched.excuse(m.offset() for m in watched.messages if m.offset() < low)

    def foreign(self, tp: TopicPartition) -> None:
        """Somebody else decided about the committed offset: one more epoch may begin."""
        self._watched[tp].epochs += 1

    def evicted(self, tenures: Iterable[TenureId]) -> None:
        """Their member was put out of the group: facts of theirs that come late may be dropped."""
        self._evicted.update(tenures)

    # ---- the progress log ----------------------------------------------------------------------

    def appended(self, partition: int, record: LogRecord) -> None:
        """A record is in the log."""
        store = self._stores[partition]
        store.apply(record)
        key = decode_key(record.key)
        if not isinstance(key, TenureKey | BaseKey | DecisionKey):
            return
        tp = self._world.partition_of(key.topic_id, key.partition)
        evicted = (
            isinstance(key, TenureKey)
            and record.value is None
            and (
                key.tenure in self._evicted
                or not self._world.is_member(key.tenure.member, key.tenure.incarnation)
            )
        )
        self._merge(tp, store.partition(key.topic_id, key.partition), may_shrink=evicted)

    def compacted(self, partition: int) -> None:
        """The log was compacted: a reader from its beginning must find the same progress (I3)."""
        fresh = self._stores[partition] = ProgressStore(self._world.group)
        for record in self._world.log.records(partition):
            fresh.apply(record)
        for topic_id, number in fresh.partitions():
            tp = self._world.partition_of(topic_id, number)
            self._merge(tp, fresh.partition(topic_id, number), may_shrink=False)

    def _merge(self, tp: TopicPartition, store: PartitionStore, *, may_shrink: bool) -> None:
        watched, epoch = self._watched[tp], store.epoch or 0
        old_epoch, old = watched.merged
        progress = store.progress()
        assert epoch >= old_epoch, f"I3: {tp} went back from epoch {old_epoch} to {epoch}"
        assert epoch <= watched.epochs, f"I3: {tp} began epoch {epoch} without anybody's decision"
        if epoch == old_epoch and not may_shrink:
            # (Facts of an evicted owner that come after its successor's start may be dropped.)
            for fact in old.clip(WHOLE):
                assert progress.contains(fact), f"I3: {tp} lost {fact}, has {_text(progress)}"
        watched.merged = epoch, progress
        if epoch and epoch not in watched.history:
            base = store.base_offset
            undone = {m.offset(): m for m in watched.messages if m.offset() >= base}
            watched.history[epoch] = History(base, undone)
            watched.excuse(())
        if epoch:
            for offset, message in watched.history[epoch].undone.items():
                assert not progress.is_done(message.key_hash, offset), (
                    f"I2: {tp}@{offset} (key {message.key()!r}) counts as done in epoch {epoch} "
                    f"but was never processed: {_text(progress)}"
                )

    def committed(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """A member's commit of offsets is stored."""
        for tp, (offset, metadata) in offsets.items():
            epoch, end = epoch_of(metadata), self._world.data[tp].end
            assert epoch in self._watched[tp].history, f"I2: {tp} committed {metadata!r}, no epoch"
            undone = [o for o in self._watched[tp].history[epoch].undone if o < offset]
            assert not undone, f"I2: {tp} committed {offset} ({metadata}), {undone} is unprocessed"
            assert offset <= end, f"I10: {tp} committed {offset} beyond its end {end}"

    def progress_now(self) -> dict[TopicPartition, tuple[int, PartitionProgress]]:
        """What the log tells now, by partition."""
        return {tp: watched.merged for tp, watched in self._watched.items()}

    def epoch(self, tp: TopicPartition) -> int:
        """The epoch that the log tells; 0: none."""
        return self._watched[tp].merged[0]

    def undone(self, tp: TopicPartition) -> list[int]:
        """Offsets that nobody has processed in the present epoch."""
        history = self._watched[tp].history.get(self.epoch(tp))
        return (
            sorted(history.undone) if history else [m.offset() for m in self._watched[tp].messages]
        )

    def store(self, partition: int) -> ProgressStore:
        """The whole of one log partition, folded."""
        return self._stores[partition]

    # ---- the group -----------------------------------------------------------------------------

    def planned(self, members: Sequence[GroupMemberData], assignments: Iterable[bytes]) -> None:
        """I1: the ranges of every partition are disjoint and cover the hash space.

        Unless everybody is about to leave: then there is nobody to give them to.
        """
        ranges: dict[TopicPartition, list[KeyRange]] = {tp: [] for tp in self._watched}
        for data in assignments:
            for tp, own in decode_assignment(data).ranges.items():
                ranges[tp] += own
        if all(decode_subscription(member.user_data).leaving for member in members):
            assert not any(ranges.values()), f"I1: who leaves is assigned {ranges}"
            return
        for tp, of_partition in ranges.items():
            at = WHOLE.lo
            for key_range in sorted(of_partition):
                assert key_range.lo == at, f"I1: {tp} is assigned as {sorted(of_partition)}"
                at = key_range.hi + 1
            assert at == WHOLE.hi + 1, f"I1: {tp} is assigned as {sorted(of_partition)}"

    def looked_at(self, shell: MemberShell) -> None:
        """A member has taken in an event."""
        state = shell.core.state
        for tp, partition in state.partitions.items():
            for tenure in partition.all_tenures():
                if tenure not in self._known:
                    known = shell.known.get(tp, (0, PartitionProgress()))
                    self._known[tenure] = state.generation, known

    def check(self, shell: MemberShell) -> None:
        """What must hold inside a member between two events (I1, I2, I4, I8, I10)."""
        core, config = shell.core, shell.core.state.config
        core.check()
        bound = config.max_records_in_lanes + FETCHED_MAX
        assert core.state.pending() <= bound, f"I8: {core.state.pending()} records are held"
        for tp, partition in core.state.partitions.items():
            for tenure in partition.all_tenures():
                seen_to, end = tenure.tracker.seen_to, self._world.data[tp].end
                own = tenure.tracker.stable
                assert own <= seen_to, f"I10: {tenure}: stable {own} is above seen_to {seen_to}"
                assert seen_to <= max(end, *self._bases(tp)), (
                    f"I10: {tenure} saw {seen_to} of {end}"
                )

    def _bases(self, tp: TopicPartition) -> list[int]:
        return [history.base for history in self._watched[tp].history.values()] or [0]

    def crashed(self, shell: MemberShell) -> None:
        """Its handlers are no more."""
        for watched in self._watched.values():
            for lane, executions in watched.running.items():
                watched.running[lane] = [e for e in executions if e.shell is not shell]

    # ---- handlers ------------------------------------------------------------------------------

    def started(self, shell: MemberShell, record: Record) -> Execution:
        """A handler starts."""
        tp, epoch = record.tenure.tp, record.tenure.epoch
        watched, lane = self._watched[tp], _lane(record.key, record.offset)
        mine = Execution(shell, shell.seat, record.tenure, lane)
        for other in watched.running.setdefault(lane, []):
            self._check_alone(mine, other, record)
        history = watched.history[epoch]
        offsets = watched.by_lane[lane]
        earlier = offsets[: bisect_left(offsets, record.offset)]
        skipped = [offset for offset in earlier if offset in history.undone]
        assert not skipped, f"I4: {record} starts in {shell.title} before {skipped} of its key"
        self._check_repeat(mine, history, record)
        watched.running[lane].append(mine)
        return mine

    def _check_alone(self, mine: Execution, other: Execution, record: Record) -> None:
        assert mine.shell is not other.shell, f"I4: {record} runs twice in {mine.shell.title}"
        if mine.orphaned:
            return  # a zombie that does not know it yet
        if other.orphaned:
            seat = other.shell.seat
            came_back = seat is not None and not seat.gone and seat.first_generation
            if not came_back or self._known[mine.tenure][0] < came_back:
                return
        raise AssertionError(
            f"I4: {record} starts in {mine.shell.title} while {other.shell.title} is at its key"
        )

    def _check_repeat(self, mine: Execution, history: History, record: Record) -> None:
        before = history.finished.get(record.offset)
        if before is None or mine.orphaned:
            return
        assert before.orphaned, (
            f"I5: {record} is repeated by {mine.shell.title}; {before.shell.title} had finished it "
            "and handed over in good order"
        )
        epoch, known = self._known[mine.tenure][1]
        told = epoch == record.tenure.epoch and known.is_done(record.key_hash, record.offset)
        assert not told, (
            f"I5: {record} is repeated by {mine.shell.title}, though the log had it as done when "
            "its ranges were assigned"
        )
        self.repeats["after a crash or an eviction"] += 1

    def failed(self, execution: Execution, record: Record) -> None:
        """A handler has raised."""
        self._end(execution, record)
        if record.attempt >= self._world.config.max_attempts and self._world.skips:
            self.excuse(record, "skipped")

    def finished(self, execution: Execution, record: Record) -> None:
        """A handler has ended well."""
        self._end(execution, record)
        history = self._watched[record.tenure.tp].history[record.tenure.epoch]
        history.undone.pop(record.offset, None)
        history.finished[record.offset] = execution

    def excuse(self, record: Record, why: str) -> None:
        """By policy or decision a record counts as done without its handler."""
        self._world.happened(why)
        history = self._watched[record.tenure.tp].history[record.tenure.epoch]
        history.undone.pop(record.offset, None)

    def excuse_offset(self, tp: TopicPartition, offset: int) -> None:
        """A person decided to skip this record."""
        self._watched[tp].excuse([offset])

    def _end(self, execution: Execution, record: Record) -> None:
        self._watched[record.tenure.tp].running[execution.lane].remove(execution)


FETCHED_MAX = 3 * 64
"""Records that a hold of the fetch may still find under way: a batch for each partition."""


def _lane(key: bytes | None, offset: int) -> LaneKey:
    return offset if key is None else key


def _text(progress: PartitionProgress) -> str:
    return "; ".join(map(str, progress.clip(WHOLE)))
