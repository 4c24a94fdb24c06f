"""I2, I3, I10: the log and the committed offsets are true, and stay so.

In: every record as it is appended, every compaction and loss of the log, every commit. Out: the
merged progress of each partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from assignors import WHOLE, TopicPartition, intersect
from coop_consumer.config import OnFailure
from coop_consumer.core.hashes import singles
from offsets import (
    BaseKey,
    Committed,
    DecisionKey,
    LogRecord,
    PartitionProgress,
    PartitionStore,
    ProgressStore,
    TenureId,
    TenureKey,
    TopicStartKey,
)
from tests.simulation.checker.history import History, Known, Parked, Watched
from tests.simulation.data_log import SimMessage
from tests.simulation.decoded import decode_key, decode_value

if TYPE_CHECKING:
    from tests.simulation.checker.attempts import AttemptCheck
    from tests.simulation.checker.truth import Truth
    from tests.simulation.world import World


class ProgressCheck:
    """Follows the log and the committed offsets."""

    def __init__(self, world: World, truth: Truth, attempts: AttemptCheck) -> None:
        self._world, self._truth, self._attempts = world, truth, attempts
        self._not_agreed: set[tuple[TopicPartition, int]] = set()
        self._is_late = False  # the last record is a base of one that was gone, or evicted

    def appended(self, partition: int, record: LogRecord) -> None:
        """Check a record that is appended to the log."""
        store = self._truth.stores[partition]
        store.apply(record)
        key = decode_key(record.key)
        self._is_late = isinstance(key, BaseKey) and not self._lives(key.writer)
        is_told = isinstance(key, BaseKey) and not self._truth.was_read
        self._truth.reads_topic |= is_told or isinstance(key, TopicStartKey)
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
                key.tenure in self._truth.evicted
                or not self._world.is_member(key.tenure.member, key.tenure.incarnation)
            )
        )
        if tp is not None:
            told = store.partition(key.topic_id, key.partition)
            self._merge(tp, told, may_shrink=evicted)
            if isinstance(key, TenureKey) and record.value is not None:
                self._attempts.noted(tp, key.tenure, decode_value(key, record.value))

    def _check_nobody_waits(self, tp: TopicPartition, key: TenureKey) -> None:
        """I3: a tenure's release is not deleted while somebody waits for it.

        There are two exceptions. A run that came back to a static member's seat has the wait list
        of the run before, which may have read every release. A member that was evicted may be back
        and claim tenures that others took over and cleared. A member that waits for such a tenure
        asks for a new assignment after a while, which does not list it.
        """
        if key.tenure in self._truth.evicted:
            return
        for shell in self._world.shells:
            partition = shell.core.state.partitions.get(tp)
            if partition is None or partition.topic_id != key.topic_id:
                continue
            if not (shell.alive and shell.has_newest_assignment) or shell.inherits:
                continue
            waits = [(item.waits, item.ranges) for item in partition.waiting]
            waits += [
                (blocked.waits, singles(blocked.hashes))
                for blocked in (tenure.blocked for tenure in partition.tenures)
            ]
            for others, ranges in waits:
                for wait in others:
                    is_it = TenureId(wait.member, wait.incarnation, wait.number) == key.tenure
                    assert not (is_it and intersect(wait.ranges, ranges)), (
                        f"I3: {key.tenure} is deleted while {shell.title} waits for it in {tp}"
                    )

    def compacted(self, partition: int) -> None:
        """Check that a reader of the compacted log finds the same progress (I3)."""
        self._read_again(partition)
        for tp, store in self._partitions_of(partition):
            self._merge(tp, store, may_shrink=False)

    def damaged(self, partition: int) -> None:
        """Note that the log lost acknowledged records: records may repeat, none may be lost."""
        self._read_again(partition)
        self._truth.reads_topic = False
        self._truth.disturb()
        self._truth.know_less()
        for tp, watched in self._truth.watched.items():
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
        fresh = self._truth.stores[partition] = ProgressStore(
            self._world.group, self._world.config.tag
        )
        for record in self._world.log.records(partition):
            fresh.apply(record)

    def _partitions_of(self, partition: int) -> Iterator[tuple[TopicPartition, PartitionStore]]:
        store = self._truth.stores[partition]
        for topic_id, number in store.partitions():
            tp = self._world.partition_of(topic_id, number)
            if tp is not None:
                yield tp, store.partition(topic_id, number)

    def _merge(self, tp: TopicPartition, store: PartitionStore, *, may_shrink: bool) -> None:
        watched, epoch = self._truth.watched[tp], store.epoch or 0
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
        """Check where a partition begins about which nobody has decided."""
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

    def _check_nothing_is_passed_over(self, watched: Watched, base: int) -> None:
        """I2: everything below an epoch's beginning was processed, or a person decided so."""
        if not (watched.history or watched.by_plain or watched.decided_to >= 0):
            return  # the first one, of a group that begins by its own policy
        if self._world.scenario.offset_reset == "latest" and not self._is_committed(watched):
            return  # nobody knows any more that there was another one
        first = min((history.base for history in watched.history.values()), default=0)
        passed = [
            offset
            for offset in map(SimMessage.offset, watched.log.messages)
            if max(first, watched.decided_to) <= offset < base
            and offset not in watched.excused
            and offset not in watched.by_plain
            and not any(
                offset >= history.base and offset not in history.open()
                for history in watched.history.values()
            )
        ]
        assert not passed, f"I2: {watched.log.tp} begins at {base}, {passed} are passed over"

    def _begin_history(self, watched: Watched, epoch: int, base: int) -> None:
        """Begin the history of an epoch; after a damage to the log the epoch may be an old one.

        Records below its first beginning were done before. They need not be done again, even if
        the only base record left is of a member that came too late.
        """
        old = watched.history.get(epoch)
        if old is not None and old.base == base:
            return
        is_as_it_was = watched.epochs == 1 and not watched.log.cuts
        if is_as_it_was and not (watched.history or watched.is_decided):
            self._check_beginning(watched, base)
        if self._is_void(watched, epoch, base):
            self._not_agreed.add((watched.log.tp, epoch))
        else:
            self._check_nothing_is_passed_over(watched, base)
        undone = {m.offset(): m for m in watched.log.messages if m.offset() >= base}
        if old is not None:
            undone = {o: m for o, m in undone.items() if o in old.undone}
        new = watched.history[epoch] = History(base, old.rewritten_to if old else 0, undone)
        if old is not None:
            new.buffered, new.durable = old.buffered, old.durable
        watched.excuse(())

    def _lives(self, writer: str) -> bool:
        return any(
            shell.alive
            and not shell.is_evicted
            and writer.startswith(f"{shell.name}/{shell.incarnation:x}/")
            for shell in self._world.shells
        )

    def _is_void(self, watched: Watched, epoch: int, base: int) -> bool:
        """Whether nobody begins by this base, which came too late.

        Either its writer is gone, and somebody has committed another offset since. Or the log has
        lost the first base of the epoch, by which an offset was committed.
        """
        committed = self._world.coordinator.offsets.get(watched.log.tp)
        if committed is None:
            return False
        if committed.tagged[1] == epoch:
            return committed.offset < base
        return self._is_late and not committed.tagged[1]

    def _is_committed(self, watched: Watched) -> bool:
        committed = self._world.coordinator.offsets.get(watched.log.tp)
        return committed is not None and committed.is_of(watched.topic_id)

    def committed(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Check a member's commit of offsets that is stored."""
        for tp, committed in offsets.items():
            watched, epoch, (offset, metadata) = (
                self._truth.watched[tp],
                committed.tagged[1],
                committed,
            )
            if not committed.is_of(watched.topic_id):
                continue  # of a topic that was so called: it means nothing for this one
            assert epoch in watched.history, f"I2: {tp} committed {metadata!r}, no epoch"
            if (tp, epoch) in self._not_agreed:  # it counts after all
                self._not_agreed.remove((tp, epoch))
                self._check_nothing_is_passed_over(watched, watched.history[epoch].base)
            undone = [o for o in watched.history[epoch].open() if o < offset]
            assert not undone, f"I2: {tp} committed {offset} ({metadata}), {undone} is unprocessed"
            assert offset <= watched.limit, (
                f"I10: {tp} committed {offset} beyond its end {watched.limit}"
            )

    def progress_now(self) -> Known:
        """The log's progress now."""
        return {(w.topic_id, tp.partition): w.merged for tp, w in self._truth.watched.items()}

    def parked_now(self) -> Parked:
        """The records that are parked in the log now."""
        if self._world.config.on_failure is not OnFailure.PARK:
            return {}
        return {
            (watched.topic_id, tp.partition, watched.merged[0]): frozenset(
                self._truth.parked_in(tp)
            )
            for tp, watched in self._truth.watched.items()
        }

    def epoch(self, tp: TopicPartition) -> int:
        """The log's epoch; 0: none."""
        return self._truth.watched[tp].merged[0]


def _text(progress: PartitionProgress) -> str:
    return "; ".join(map(str, progress.clip(WHOLE)))
