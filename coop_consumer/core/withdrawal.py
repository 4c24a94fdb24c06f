"""Withdrawal: a member releases what it holds, in order: drain, commit, mirror. Pure.

In: a member that ends, or one that joins a group in which a plain member may get what it had. Out:
the steps, each taken when the one before is done, and an `Answer` to the question. Upholds I2, I4:
after it no handler runs, all that was done is in the log, and the stable offset is Kafka's
committed offset.

Beside plain members of the cooperative protocol, whole partitions are kept through a join. The
group's leader hears of them, and gives them to nobody else before their owner has joined without
them. Eager plain members have nothing like that, and no plain member can be told of a part of a
partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import COOPERATIVE_STICKY, WHOLE, covers
from coop_consumer.core.actions import Answer, FetchCommitted

if TYPE_CHECKING:
    from collections.abc import Collection

    from assignors import TopicPartition
    from coop_consumer.core.commits import Commits
    from coop_consumer.core.ending import Endings
    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.mirror import Mirror
    from coop_consumer.core.state import MemberState, Partition

_ROUNDS = 2
"""How often who leaves mirrors a partition in which others are at work: once, and what that put
back."""


@dataclass(slots=True, eq=False)
class Withdrawal:
    """Releases what a member holds.

    Attributes:
        awaited: The token of the `Answer` that somebody waits for; 0: nobody does.
        by_plain: A plain member made the plan that holds now. Set by `assignments`.
    """

    state: MemberState
    reading: LogReading
    endings: Endings
    commits: Commits
    mirror: Mirror
    _reads: bool = False
    _asks: bool = False
    _touched: list[Partition] = field(default_factory=list)
    _former: list[Partition] = field(default_factory=list)
    awaited: int = 0
    by_plain: bool = False
    _taken_before: int | None = None

    def begin(self, keep: Collection[TopicPartition] = ()) -> None:
        """Stop admitting; what runs ends, what is queued is given up. `keep` stays as it is."""
        self._reads = self._asks = False
        self._taken_before = None
        self.mirror.refused.clear()
        # Mirror two kinds of partitions: assigned to us and never begun; released by us and not yet
        # begun by the next owner. The second kind not by a plan of plain members: the next owner
        # may be one of them, who may rewind, and writes nothing about it to the log.
        partitions = self.state.partitions.values()
        had = [it for it in partitions if it.idle and it.agreement.epoch]
        # A withdrawal may be under way: what that has touched is to be mirrored still.
        self._touched = [it for it in partitions if not it.idle or it in self._touched]
        self._former = [] if self.by_plain else had
        for partition in partitions:
            if partition.tp in keep:
                continue
            partition.unassign()
            self.endings.give_up_all(partition)

    def ask(self, token: int) -> None:
        """Begin before a join; the `Answer` with this token comes when it is over."""
        self.awaited = token
        self.begin(self.kept())

    def kept(self) -> tuple[TopicPartition, ...]:
        """What we keep in a join beside plain members until an assignment lacks it."""
        state = self.state
        if state.config.upgrade_from != COOPERATIVE_STICKY:
            return ()
        return tuple(sorted(tp for tp, partition in state.partitions.items() if partition.is_whole))

    def answer_due(self) -> None:
        """Answer if everything is done, and somebody waits for that."""
        if self.awaited and self.step():
            self.state.actions.append(Answer(self.awaited, None))
            self.awaited = 0

    def step(self) -> bool:
        """Do the next step, if what it waits for is done; returns whether all are."""
        if self.mirror.under_way or not self._has_released_all():
            return False
        if not self.state.membership.is_member:
            return True  # what we would mirror would be refused
        if not self._saw_log([*self._touched, *self._former]):
            return False
        # Do not wait for a mirror that is refused for good: what is done is in the log.
        refused = self.mirror.refused
        ours = [it for it in self._touched if it.tp not in refused]
        left = [it for it in self._former if it.tp not in refused and not self._is_anothers(it)]
        if not self._saw_offsets([*ours, *left]):
            return False
        wanted = [*ours, *filter(self._is_mirrored, left)]
        if self._taken_before is None:
            self._taken_before = self.mirror.taken
        # A commit that a rebalance refuses is no round: the others may be gone.
        if self.mirror.taken >= self._taken_before + _ROUNDS:
            wanted = [it for it in wanted if not it.store.held_by_others(self.state.name)]
        if self.mirror.mirror(wanted):
            # Another member that withdraws may have committed more since we looked, and our commit
            # has put that back. So both look once more, until one has nothing to add. If others
            # are at work, there is always more, and they mirror it.
            self._reads = self._asks = False
            return False
        self._touched = []
        return True

    def _has_released_all(self) -> bool:
        partitions = self.state.partitions.values()
        if self.state.config.exactly_once and not self.state.membership.is_member:
            # Nothing of it can be committed, or counts: wait for handlers that still run, only.
            return not any(it.draining for p in partitions for it in p.draining)
        return not self.commits.under_way and not any(
            tenure.draining or tenure.dirty or not tenure.begun
            for partition in partitions
            for tenure in partition.draining
        )

    def _is_anothers(self, partition: Partition) -> bool:
        """Whether others have begun wherever we ended: they mirror what they do."""
        return covers(partition.store.held_by_others(self.state.name), (WHOLE,))

    @staticmethod
    def _is_mirrored(partition: Partition) -> bool:
        """Whether what is committed is of our epoch, and not somebody's decision since."""
        epoch = partition.store.tagged_epoch(partition.agreement.committed)
        return 0 < epoch == partition.agreement.epoch

    def _saw_log(self, touched: list[Partition]) -> bool:
        if not self._reads:
            self._reads = True
            for partition in touched:
                self.reading.read(partition.view)
        return all(p.view.current for p in touched)

    def _saw_offsets(self, touched: list[Partition]) -> bool:
        """Look last: what is seen is mirrored at once, before the next owners commit more."""
        if not self._asks:
            if any(p.agreement.is_asked for p in touched):
                return False  # that answer may be old
            self._asks = True
            for partition in touched:
                partition.agreement.ask_afresh()
        state = self.state
        unknown = [p for p in touched if not p.agreement.is_known]
        state.actions += [FetchCommitted([p.tp]) for p in unknown if p.agreement.ask(state.now_ms)]
        return not unknown
