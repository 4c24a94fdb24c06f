"""The mirror: stable offsets go to Kafka's committed offsets, where lag tools see them. Pure.

In: what the log is known to have, the ends of partitions, Kafka's answers. Out: `CommitOffsets`,
tagged with the epoch. Everything is mirrored at an interval. What is caught up, and what is idle,
is mirrored sooner. Never lower than what is committed, and never without an epoch: an offset
without a tag would be taken for somebody's decision. Upholds I2, I3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.actions import CommitOffsets, FetchCommitted, Level
from coop_consumer.errors import RetriableError, TopicMissingError, reason_of
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from offsets import Committed, of_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from assignors import TopicPartition
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.errors import CoopConsumerError

_PROMPT_MS = 200
"""On average no more often: under few records a partition is caught up after each of them."""
_IDLE_PROMPT_MS = 50
"""But so soon after the mirror before, if the member is idle: a backlog is at its end."""


class Mirror:
    """Commits stable offsets to Kafka.

    Attributes:
        under_way: Commits that are unanswered, by token.
        refused: Partitions whose last commit Kafka refused for good: their topic is deleted, or we
            lack the right.
        taken: How many commits Kafka has taken.
    """

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self.under_way: dict[int, Mapping[TopicPartition, Committed]] = {}
        self.refused: set[TopicPartition] = set()
        self.taken = 0
        self._mirrored_ms = 0
        self._prompt_ms = 0  # the next mirror of what is caught up then keeps the average
        self._has_news = False
        self._is_behind = False

    # ---- when ----------------------------------------------------------------------------------

    def next_due_ms(self) -> int:
        """When there is something to mirror."""
        due_ms = self._all_due_ms()
        return min(due_ms, self._prompt_due_ms()) if self._has_news else due_ms

    def _all_due_ms(self) -> int:
        # An idle member can be prompt: it costs little.
        idle = self._is_behind and not self._state.pending()
        return self._mirrored_ms + (_PROMPT_MS if idle else self._state.config.mirror_interval_ms)

    def _prompt_due_ms(self) -> int:
        """From when on what is caught up is mirrored again; after an early mirror it is later."""
        early_ms = 0 if self._state.pending() else _PROMPT_MS - _IDLE_PROMPT_MS
        return self._prompt_ms - early_ms

    def progressed(self) -> None:
        """The log has new progress: there may be something to mirror."""
        self._has_news = self._is_behind = True

    def mirror_due(self) -> list[Partition] | None:
        """Mirror as far as it is time; returns what we lead if everything was due, else None."""
        state = self._state
        everything = state.now_ms >= self._all_due_ms()
        if not (everything or (self._has_news and state.now_ms >= self._prompt_due_ms())):
            return None
        agreements = ((p, p.agreement) for p in state.partitions.values())
        led = [partition for partition, it in agreements if it.leads and it.epoch]
        if self.mirror(p for p in led if everything or self._is_caught_up(p)):
            self._prompt_ms = max(self._prompt_ms, state.now_ms) + _PROMPT_MS
        self._has_news = False
        if not everything:
            return None
        self._mirrored_ms, self._is_behind = state.now_ms, False
        self._look_again(led)
        return led

    def _look_again(self, led: Iterable[Partition]) -> None:
        """See what is committed now, for the next time: who closed may have lowered it."""
        agreements = [(p.tp, p.agreement) for p in led]
        free = [(tp, it) for tp, it in agreements if it.is_answered and not it.is_asked]
        for _, agreement in free:
            agreement.asked()
        if free:
            self._state.actions.append(FetchCommitted([tp for tp, _ in free]))

    # ---- what ----------------------------------------------------------------------------------

    def _is_caught_up(self, partition: Partition) -> bool:
        return 0 <= partition.end_offset <= self._stable(partition)

    @staticmethod
    def _stable(partition: Partition) -> int:
        """The partition's stable offset as far as the log is known to have it."""
        if not partition.is_whole:
            return partition.store.progress().stable
        tenures = partition.tenures
        has_told_all = not (partition.view.schedule.appending or any(it.dirty for it in tenures))
        if has_told_all and any(tenure.sought is not None for tenure in tenures):
            # What a seek has skipped is done if an earlier owner has told so since.
            return partition.progress_in(tenures[0].epoch).stable
        return min(tenure.logged.stable for tenure in tenures)

    def mirror(self, partitions: Iterable[Partition]) -> bool:
        """Commit stable offsets that are above what is committed; returns whether there were any.

        The stable offset of an epoch is above every offset of older ones.
        """
        offsets = {}
        for partition in partitions:
            agreement = partition.agreement
            if not (agreement.is_answered and agreement.is_known):
                continue
            if not (agreement.epoch or (partition.view.current and agreement.adopt())):
                continue
            stable = self._stable(partition)
            if stable > self._mirrored(partition):
                epoch = agreement.epoch
                offsets[partition.tp] = partition.store.mirrored(stable, epoch)
        if offsets:
            self._commit(offsets)
        return bool(offsets)

    @staticmethod
    def _mirrored(partition: Partition) -> int:
        """How much of the present epoch is mirrored; -1: not even its tag, for which others wait.

        A commit of an older epoch, or of the topic before, may come so late that it takes the place
        of a newer one.
        """
        agreement = partition.agreement
        committed = agreement.committed
        is_older = 0 < partition.store.tagged_epoch(committed) < agreement.epoch
        return -1 if committed is None or is_older else committed.offset

    def tag(self, partition: Partition, epoch: int) -> None:
        """Commit the tag of an epoch that the log has, with its stable offset.

        A reset has begun it, or a lead that died before it tagged.
        """
        stable = partition.store.progress().stable
        self._commit({partition.tp: partition.store.mirrored(stable, epoch)})

    def _commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        state, token = self._state, self._state.token()
        self.under_way[token] = offsets
        for tp in offsets:
            state.partitions[tp].agreement.committing()
        state.actions.append(CommitOffsets(offsets, state.membership.generation, token))

    def answered(self, token: int, error: CoopConsumerError | None) -> None:
        """Kafka has answered a commit; one that failed is tried again when the next is due."""
        offsets = self.under_way.pop(token)
        is_final = error is not None and not isinstance(error, RetriableError)
        self.taken += error is None
        if is_final:
            self.refused |= offsets.keys()
        else:
            self.refused -= offsets.keys()
        for tp, value in offsets.items():
            partition = self._state.partitions[tp]
            agreement = partition.agreement
            if error is None:  # the topic may have been made again since
                agreement.committed_as(of_topic(value, partition.topic_id))
            else:
                agreement.not_committed()
        if error is not None:
            # A rebalance refuses it, and nothing depends on it. Of a missing topic the watch tells.
            is_trouble = is_final and not isinstance(error, TopicMissingError)
            self._state.report(
                Level.WARNING if is_trouble else Level.DEBUG,
                LogEvent.OFFSETS_NOT_MIRRORED,
                f"Kafka does not take the committed offset of {_named(offsets)} "
                f"({reason_of(error)}). Other tools show an older lag there; the progress itself "
                "is in the progress topic, and nothing is lost. Most often the right "
                "Read on the group is missing: "
                f"`{self._state.config.command('doctor', '--group', self._state.group)}` tells",
                error=error,
            )


def _named(places: Collection[TopicPartition]) -> str:
    """The first of these partitions, and how many more there are."""
    more = len(places) - 1
    return f"{min(places)} and {counted(more, 'other partition')}" if more else str(min(places))
