"""The lead: whoever keeps a partition's log and Kafka's committed offset in step. Pure.

In: complete reads of the progress log, the group's committed offsets. Out: base records, tagged
commits (the mirror that lag tools see). A committed offset without our tag was set by
someone else (a plain group before us, a reset tool) and starts the next epoch. Nobody starts before
tag and log agree. The owner of a whole partition leads it; split partitions are led by the one
member that the assignment names. Upholds I2, I3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import TopicPartition
from coop_consumer.core.actions import (
    CommitOffsets,
    FetchCommitted,
    Level,
    ResolveOffset,
)
from coop_consumer.core.clearing import Clearing
from coop_consumer.core.topic_starts import TopicStarts
from coop_consumer.errors import RetriableError
from offsets import (
    BaseKey,
    BaseRecord,
    Committed,
    Meaning,
    encode_key,
    encode_value,
    newest_epoch,
    of_topic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coop_consumer.core.handover import Handover
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.errors import CoopConsumerError

_ASK_AGAIN_MS = 100
_ANSWER_MS = 30_000
_PROMPT_MS = 200
"""On average no more often: under few records a partition is caught up after each of them."""
_IDLE_PROMPT_MS = 50
"""But so soon after the mirror before, if the member is idle: a backlog is at its end."""


class Lead:
    """Brings tag and log together, mirrors stable offsets, has the log cleared.

    Attributes:
        refused: Partitions whose last mirror commit no other try would bring home: their topic is
            deleted, or we lack the right.
        taken: How many mirror commits Kafka has taken.
    """

    def __init__(self, state: MemberState, outbox: Outbox, handover: Handover) -> None:
        self._state = state
        self._outbox = outbox
        self._handover = handover
        self._resolving: dict[TopicPartition, bytes] = {}  # of which topic id
        self._basing: dict[int, Partition] = {}
        self._committing: dict[int, Mapping[TopicPartition, Committed]] = {}
        self.refused: set[TopicPartition] = set()
        self.taken = 0
        self._mirrored_ms = 0
        self._prompt_ms = 0  # the next mirror of what is caught up then keeps the average
        self._news = False
        self._unmirrored = False
        self._clearing = Clearing(state, outbox, handover)
        self._starts = TopicStarts(state, outbox, handover)

    # ---- tag and log agree ---------------------------------------------------------------------

    def agree(self, partition: Partition) -> None:
        """Do the next step towards an epoch that tag and log agree on, if one is needed."""
        newest = partition.store.epoch or 0
        if 0 < partition.epoch < newest or any(t.epoch < newest for t in partition.tenures):
            # An owner that noticed a cut-off has begun the next one. It lacks its tag, and what we
            # hold, or would begin, belongs to the one before.
            self._handover.begin_again(partition)
            partition.epoch, partition.committed_known = 0, False
        if partition.idle or not partition.view.current or self._is_basing(partition):
            return
        if self._begins_behind_cut(partition) or (partition.epoch and not partition.is_lost):
            return
        if not partition.committed_known:
            self.ask(partition)
            return
        if self._adopt(partition):
            return
        state, tp = self._state, partition.tp
        meaning, epoch, base = newest_epoch(partition.store, partition.committed, partition.epoch)
        if self._busy(partition) or not (partition.leading or meaning is Meaning.LOST):
            self.ask(partition)
        elif meaning is Meaning.UNTAGGED:
            self._mirror_all({tp: self._mirror_of(partition, epoch)})
        elif base is None:
            if policy := self._starts.policy(partition):
                self._resolving[tp] = partition.topic_id
                state.actions.append(ResolveOffset(tp, policy))
        elif self._is_certain(partition):
            if meaning is Meaning.LOST:
                # Whoever led may have read it before, and still know it: so anybody may say so.
                partition.loss_epoch = epoch
            self._tell_epoch(partition, epoch, base, is_lost=meaning is Meaning.LOST)
            self.start_epoch(partition, epoch, base)

    def _tell_epoch(self, partition: Partition, epoch: int, base: int, *, is_lost: bool) -> None:
        committed = partition.committed
        assert committed is not None, f"I2: epoch {epoch} of {partition.tp} begins by no offset"
        if is_lost:
            self._state.report(
                Level.WARNING,
                f"{partition.tp}: the progress log has lost epoch {committed.epoch} (its records "
                f"were deleted, or a broker lost them). Epoch {epoch} begins at the committed "
                f"offset {base}: what was finished above is repeated, nothing is lost",
            )
        else:
            self._state.report(
                Level.INFO,
                f"{partition.tp}: takes over the committed offset {base} "
                f"(metadata {committed.metadata!r}) as epoch {epoch}",
            )

    @staticmethod
    def _adopt(partition: Partition) -> bool:
        """Take the epoch that tag and log agree on for the partition's, if they do."""
        meaning, epoch, _ = newest_epoch(partition.store, partition.committed)
        if meaning is Meaning.AGREED:
            partition.epoch = epoch
        return meaning is Meaning.AGREED

    def _begins_behind_cut(self, partition: Partition) -> bool:
        """Begin the epoch after a cut-off, if nobody has, and the log still knows the one before.

        At the stable offset of the log as it is now: the others' progress that we saw last may be
        hours old, and all above would be repeated. What lies beyond the cut is dropped; whoever
        shares the partition is to follow.
        """
        if partition.cut is None:
            return False
        (epoch, offset), partition.cut = partition.cut, None
        if partition.store.epoch != epoch:
            return False
        progress = partition.store.progress()
        for tenure in partition.all_tenures():
            for fact in tenure.facts() if tenure.epoch == epoch else ():
                progress.merge(fact)
        following = partition.store.next_epoch(partition.epoch)
        self.start_epoch(partition, following, min(progress.stable, offset))
        return True

    def _is_certain(self, partition: Partition) -> bool:
        """Whether committed offset and log epoch were so at one moment; if not, look again.

        They are read one after the other, and a zombie may have slept in between: an old offset
        beside a new log, or a new tag beside an old log, looks like a foreign decision. So the log
        is read once more, and then the offset: if neither has changed, both were so in between.
        """
        seen = partition.committed, partition.store.epoch or 0
        if partition.doubted is None or partition.doubted[:2] != seen:
            partition.doubted = (*seen, False)
            self._handover.read(partition.view)
        elif partition.asked_committed:
            return False  # the answer under way may be older than the log that was read
        elif not partition.doubted[2]:
            partition.doubted = (*seen, True)
            partition.committed_known = False
            partition.ask_again_ms = 0
            self.ask(partition)
        else:
            partition.doubted = None
            return True
        return False

    def _busy(self, partition: Partition) -> bool:
        return (
            partition.tp in self._resolving
            or self._is_basing(partition)
            or any(partition.tp in offsets for offsets in self._committing.values())
        )

    def _is_basing(self, partition: Partition) -> bool:
        """Whether an epoch of ours is on its way to the log: nothing may begin in the old one."""
        return any(p is partition for p in self._basing.values())

    def ask(self, partition: Partition) -> None:
        """Ask for the committed offset, at most every 100 ms, and again if nobody answers."""
        silent_ms = _ANSWER_MS if partition.asked_committed else 0
        if self._state.now_ms >= partition.ask_again_ms + silent_ms:
            partition.asked_committed = True
            partition.ask_again_ms = self._state.now_ms + _ASK_AGAIN_MS
            self._state.actions.append(FetchCommitted([partition.tp]))

    @staticmethod
    def _mirror_of(partition: Partition, epoch: int) -> Committed:
        """Of an epoch that the log tells of: a reset, or a lead that died before it tagged."""
        stable = partition.store.progress().stable
        return Committed.mirror(stable, epoch, partition.topic_id)

    def start_epoch(self, partition: Partition, epoch: int, offset: int) -> None:
        """Write the base record of an epoch; the first one of an epoch in the log counts."""
        state = self._state
        token = state.token()
        key = BaseKey(
            state.group,
            partition.topic_id,
            partition.tp.partition,
            epoch,
            f"{state.name}/{state.incarnation:x}/{token}",
        )
        entry = (encode_key(key), encode_value(BaseRecord(epoch, offset)))
        self._basing[token] = partition
        # Where the partition was cut off, the offset rests on what was finished here.
        rests_on_ours = any(partition.all_tenures())
        leave = self._outbox.commit if rests_on_ours else self._outbox.append
        leave(partition.view, [entry], self, token=token)

    def resolved(self, tp: TopicPartition, offset: int) -> None:
        """The end that we asked for is at `offset`: the partition's history begins there."""
        asked_of = self._resolving.pop(tp, None)
        partition = self._state.partitions.get(tp)
        if offset < 0 or partition is None or not partition.leading:
            return
        # A topic that was made again since has other ends, and begins by another rule.
        is_same = partition.topic_id == asked_of
        is_new = is_same and (partition.is_lost or partition.store.epoch is None)
        # Who slept since it asked may have heard since then what the group has committed.
        if is_new and partition.committed_known and partition.committed is None:
            self.start_epoch(partition, partition.store.next_epoch(partition.epoch), offset)
        else:  # it was begun meanwhile, by others or by a try of ours that seemed to have failed
            self.agree(partition)

    def committed(self, offsets: Mapping[TopicPartition, Committed | None]) -> None:
        """The group's committed offsets have come."""
        self._starts.committed(offsets)
        for tp, value in offsets.items():
            partition = self._state.partitions.get(tp)
            if partition is not None:
                partition.asked_committed = False
                partition.committed_known = True
                partition.committed = of_topic(value, partition.topic_id)
                self.agree(partition)

    def committed_unknown(self, partitions: Iterable[TopicPartition]) -> None:
        """They could not be read; `agree` asks again."""
        partitions = list(partitions)
        self._starts.committed_unknown(partitions)
        for tp in partitions:
            partition = self._state.partitions.get(tp)
            if partition is not None:
                partition.asked_committed = False

    # ---- answers -------------------------------------------------------------------------------

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """A base record is in the log; another one of its epoch may lie before it and count."""
        del offsets
        self._handover.read(self._basing.pop(token).view)

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """Forget the try; `agree` finds out what is in the log and goes on from there."""
        del error
        self._handover.read(self._basing.pop(token).view)

    def offsets_committed(self, token: int, error: CoopConsumerError | None) -> bool:
        """A mirror commit was answered; one that failed is tried again when the next is due."""
        offsets = self._committing.pop(token, None)
        if offsets is None:
            return False
        self.taken += error is None
        if error is None or isinstance(error, RetriableError):
            self.refused -= offsets.keys()
        else:
            self.refused |= offsets.keys()
        for tp, value in offsets.items():
            partition = self._state.partitions.get(tp)
            if partition is None:
                continue
            if error is None:
                partition.committed, partition.committed_known = value, True
            else:
                partition.committed_known = False
        if error is not None:  # in a rebalance that is what happens, and nothing depends on it
            level = Level.DEBUG if isinstance(error, RetriableError) else Level.WARNING
            self._state.report(level, f"stable offsets could not be mirrored: {error}")
        return True

    # ---- mirror -----------------------------------------------------------------------------

    def next_due_ms(self) -> int:
        """When there is something to look after."""
        due_ms = self._all_due_ms()
        return min(due_ms, self._prompt_due_ms()) if self._news else due_ms

    def _all_due_ms(self) -> int:
        # An idle member can be prompt: it costs little.
        idle = self._unmirrored and not self._state.pending()
        return self._mirrored_ms + (_PROMPT_MS if idle else self._state.config.mirror_interval_ms)

    def _prompt_due_ms(self) -> int:
        """From when on what is caught up is mirrored again; who was early once waits longer."""
        early_ms = 0 if self._state.pending() else _PROMPT_MS - _IDLE_PROMPT_MS
        return self._prompt_ms - early_ms

    def news(self) -> None:
        """Progress has come to the log: there may be something to mirror."""
        self._news = self._unmirrored = True

    def look_after(self) -> None:
        """Mirror stable offsets and clear the log, as far as it is time."""
        state = self._state
        if state.generation < 0:
            return
        everything = state.now_ms >= self._all_due_ms()
        if everything or (self._news and state.now_ms >= self._prompt_due_ms()):
            led = [p for p in state.partitions.values() if p.leading and p.epoch]
            if self.mirror([p for p in led if everything or self._caught_up(p)]):
                self._prompt_ms = max(self._prompt_ms, state.now_ms) + _PROMPT_MS
            self._news = False
        if everything:
            self._mirrored_ms, self._unmirrored = state.now_ms, False
            self._look_again(led)
            self._starts.note(led)
            self._clearing.clear_due(led)

    def _look_again(self, led: list[Partition]) -> None:
        """See what is committed now, for the next time: whoever closed may have lowered it."""
        asked = [p for p in led if not p.asked_committed and not self._busy(p)]
        for partition in asked:
            partition.asked_committed = True
        if asked:
            self._state.actions.append(FetchCommitted([p.tp for p in asked]))

    def _caught_up(self, partition: Partition) -> bool:
        return 0 <= partition.end_offset <= self.stable(partition)

    def stable(self, partition: Partition) -> int:
        """The partition's stable offset as far as the log is known to have it."""
        if partition.is_whole:
            return min(tenure.logged.stable for tenure in partition.tenures)
        return partition.store.progress().stable

    def mirror(self, partitions: list[Partition]) -> bool:
        """Commit stable offsets for everyone to see; never lower than what is committed of them.

        Returns:
            Whether there was anything to commit.
        """
        offsets = {}
        for partition in partitions:
            if self._busy(partition) or not partition.committed_known:
                continue
            if not (partition.epoch or (partition.view.current and self._adopt(partition))):
                continue  # an offset without an epoch would be taken for somebody's decision
            stable = self.stable(partition)
            if stable > self._mirrored(partition):
                offsets[partition.tp] = Committed.mirror(
                    stable, partition.epoch, partition.topic_id
                )
        if offsets:
            self._mirror_all(offsets)
        return bool(offsets)

    @staticmethod
    def _mirrored(partition: Partition) -> int:
        """How much of the present epoch is mirrored; -1: not even its tag, for which others wait.

        A commit of an older epoch, or of the topic before, may come so late that it takes the place
        of a newer one.
        """
        committed = partition.committed
        is_older = committed is not None and 0 < committed.epoch < partition.epoch
        return -1 if committed is None or is_older else committed.offset

    def _mirror_all(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        token = self._state.token()
        self._committing[token] = offsets
        self._state.actions.append(CommitOffsets(offsets, self._state.generation, token))

    @property
    def under_way(self) -> bool:
        """Whether a mirror commit is unanswered."""
        return bool(self._committing)
