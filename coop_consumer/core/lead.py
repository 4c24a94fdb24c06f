"""The lead: brings a partition's log and Kafka's committed offset to one epoch. Pure.

In: complete reads of the progress log, the group's committed offsets. Out: what the partition's
`agreement` wants next: a look, a tag, the beginning of an epoch. A committed offset without our tag
was set by someone else (a plain group before us, a reset tool) and starts the next epoch. The owner
of a whole partition leads it. Split partitions are led by the member that the assignment names.
Upholds I2, I3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from assignors import TopicPartition
from coop_consumer.core.actions import FetchCommitted, Level, ResolveOffset
from coop_consumer.core.agreement import Next
from coop_consumer.errors import ProgressLogLostError
from coop_consumer.log_events import LogEvent
from offsets import BaseKey, BaseRecord, Meaning, encode_key, encode_value, of_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coop_consumer.core.closing import Closing
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.mirror import Mirror
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.topic_starts import TopicStarts
    from coop_consumer.errors import CoopConsumerError
    from offsets import Committed


@dataclass(slots=True, eq=False)
class Lead:
    """Does what agreements want next."""

    state: MemberState
    outbox: Outbox
    reading: LogReading
    handover: Handover
    mirror: Mirror
    starts: TopicStarts
    closing: Closing
    _resolving: dict[TopicPartition, bytes] = field(default_factory=dict)  # of which topic id
    _basing: dict[int, Partition] = field(default_factory=dict)

    def agree(self, partition: Partition) -> None:
        """Do the next step towards an epoch that tag and log agree on, if one is needed."""
        agreement, log_epoch = partition.agreement, partition.store.epoch or 0
        if agreement.is_behind or any(t.epoch < log_epoch for t in partition.tenures):
            # An owner that noticed a cut-off has begun the next epoch. It lacks its tag. What we
            # hold, or would begin, belongs to the epoch before.
            self.handover.begin_again(partition)
            agreement.reopen()
        if partition.idle or not partition.view.current:
            return
        cut_at = agreement.take_cut()
        if cut_at is not None:
            self._base_behind_cut(partition, cut_at)
        else:
            self._do(agreement.next_act(self.state.now_ms), partition)

    def _do(self, act: Next, partition: Partition) -> None:
        match act:
            case Next.NOTHING:
                pass
            case Next.ASK:
                self.state.actions.append(FetchCommitted([partition.tp]))
            case Next.READ:
                self.reading.read(partition.view)
            case Next.TAG:
                self.mirror.tag(partition, partition.agreement.newest().epoch)
            case Next.RESOLVE:
                if policy := self.starts.policy(partition):
                    partition.agreement.resolving()
                    self._resolving[partition.tp] = partition.topic_id
                    self.state.actions.append(ResolveOffset(partition.tp, policy))
            case Next.BASE:
                self._base_by_offset(partition)
            case _:
                assert_never(act)

    # ---- an epoch begins -----------------------------------------------------------------------

    def _base_by_offset(self, partition: Partition) -> None:
        """Begin the epoch that the committed offset asks for.

        Where the log has lost the epoch before, anybody may begin the next one: whoever led may
        have read it before, and still know it.
        """
        meaning, epoch, base = partition.agreement.newest()
        committed = partition.agreement.committed
        assert base is not None, f"I2: epoch {epoch} of {partition.tp} begins by no offset"
        assert committed is not None, f"I2: epoch {epoch} of {partition.tp} begins by no offset"
        is_lost = meaning is Meaning.LOST
        if is_lost and self.state.config.exactly_once:
            self._lose(partition.tp, committed)
            return
        if is_lost:
            self.state.report(
                Level.WARNING,
                LogEvent.PROGRESS_LOG_EPOCH_LOST,
                f"{partition.tp}: the progress log has lost epoch {committed.tagged[1]} (its "
                f"records were deleted, or a broker lost them). Epoch {epoch} begins at the "
                f"committed offset {base}: what was finished above is repeated, nothing is lost",
                tp=partition.tp,
                offset=base,
            )
        else:
            self.state.report(
                Level.INFO,
                LogEvent.OFFSETS_TAKEN_OVER,
                f"{partition.tp}: takes over the committed offset {base} "
                f"(metadata {committed.metadata!r}) as epoch {epoch}",
                tp=partition.tp,
                offset=base,
            )
        self._base(partition, epoch, base, is_lost=is_lost)

    def _lose(self, tp: TopicPartition, committed: Committed) -> None:
        """End: to go on at the committed offset would send outputs again that are visible."""
        _, epoch = committed.tagged
        problem = f"has lost epoch {epoch} of {tp}, which Kafka's committed offset names"
        self.closing.lose_log(ProgressLogLostError(self.state.config.progress_log, problem))

    def _base_behind_cut(self, partition: Partition, cut_at: int) -> None:
        """Begin the epoch after a cut-off, at the stable offset of the log as it is now.

        The others' progress that we saw last may be hours old, and all above would be repeated.
        What lies beyond the cut is dropped. Whoever shares the partition is to follow.
        """
        store = partition.store
        stable = partition.progress_in(store.epoch or 0).stable
        following = store.next_epoch(partition.agreement.epoch)
        self._base(partition, following, min(stable, cut_at))

    def _base(
        self, partition: Partition, epoch: int, offset: int, *, is_lost: bool = False
    ) -> None:
        """Append the base record of an epoch; the first one of an epoch in the log counts."""
        state = self.state
        token = state.token()
        key = BaseKey(
            state.group,
            partition.topic_id,
            partition.tp.partition,
            epoch,
            f"{state.name}/{state.incarnation:x}/{token}",
        )
        entry = (encode_key(key), encode_value(BaseRecord(epoch, offset)))
        partition.agreement.basing(epoch, is_lost=is_lost)
        self._basing[token] = partition
        # Where the partition was cut off, the offset rests on what was finished here.
        rests_on_ours = any(partition.all_tenures())
        leave = self.outbox.append_behind if rests_on_ours else self.outbox.append
        leave(partition.view, [entry], self, token=token)

    # ---- answers -------------------------------------------------------------------------------

    def resolved(self, tp: TopicPartition, offset: int) -> None:
        """The end that we asked for is at `offset`: the partition's history begins there.

        Args:
            tp: The partition.
            offset: Negative: it could not be asked; the next tick asks again.
        """
        partition = self.state.partitions[tp]
        agreement = partition.agreement
        # A topic that was made again since has other ends, and begins by another rule.
        is_same = partition.topic_id == self._resolving.pop(tp)
        is_first = agreement.resolved() and is_same
        if offset < 0:
            return
        if is_first:
            self._base(partition, partition.store.next_epoch(agreement.epoch), offset)
        else:
            self.agree(partition)

    def committed(self, offsets: Mapping[TopicPartition, Committed | None]) -> None:
        """The group's committed offsets have come."""
        self.starts.committed(offsets)
        for tp, value in offsets.items():
            partition = self.state.partitions.get(tp)
            if partition is not None:
                partition.agreement.committed_read(of_topic(value, partition.topic_id))
                self.agree(partition)

    def committed_unknown(self, partitions: Iterable[TopicPartition]) -> None:
        """They could not be read; `agree` asks again."""
        partitions = list(partitions)
        self.starts.committed_unknown(partitions)
        for tp in partitions:
            partition = self.state.partitions.get(tp)
            if partition is not None:
                partition.agreement.committed_unknown()

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """A base record is in the log; another one of its epoch may lie before it and count."""
        del offsets
        self._answered(token)

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """Forget the try; `agree` finds out what is in the log and goes on from there."""
        del error
        self._answered(token)

    def _answered(self, token: int) -> None:
        partition = self._basing.pop(token)
        partition.agreement.based()
        self.reading.read(partition.view)
