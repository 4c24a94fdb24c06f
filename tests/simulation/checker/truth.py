"""What truly happened, which nobody inside the simulated group can see.

In: every message of the data topic, every decision of people, every disturbance. Out: the history
of each partition, by epoch. All checks share it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from assignors import TopicPartition
from coop_consumer.config import OnDataLoss
from offsets import Attempt, Committed, PartitionProgress, PartitionStore, ProgressStore, TenureId
from tests.simulation.checker.history import History, LaneKey, Watched
from tests.simulation.data_log import SimMessage

if TYPE_CHECKING:
    from coop_consumer.core.tenure import Tenure
    from tests.simulation.data_log import DataLog
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class Truth:
    """The partitions, the whole log, and how far members can know it.

    Attributes:
        watched: The data partitions.
        stores: The progress log, folded at once and completely; by log partition.
        known: The generation in which a tenure began, and the log's progress then. By the tenure
            itself: a new number of a tenure is no new beginning.
        parked: The records that were parked in the log when a tenure began.
        evicted: Tenures whose member was evicted.
        went_back: Tenures that went back to what is committed, as a topic refused an output.
        disturbances: How often something happened after which attempts may be counted anew.
        is_orderly: Nothing of that kind has happened yet.
        was_sought: A user has had records handed out again.
        reads_topic: The log says that the group reads the topic.
        was_read: Members may find a topic that the group reads, and no word of it in the log.
        accepts_loss: Data that is lost is excused.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.watched: dict[TopicPartition, Watched] = {}
        self.stores = [
            ProgressStore(world.group, world.config.tag)
            for _ in range(world.scenario.log_partitions)
        ]
        self.known: dict[Tenure, tuple[int, tuple[int, PartitionProgress]]] = {}
        self.parked: dict[Tenure, frozenset[int]] = {}
        self.evicted = set[TenureId]()
        self.went_back: set[Tenure] = set()
        self.disturbances = 0
        self.is_orderly, self.was_sought = True, False
        self.reads_topic, self.was_read = False, False
        self._attempts: dict[TopicPartition, tuple[object, Mapping[int, Attempt]]] = {}
        self.accepts_loss = world.config.on_data_loss is OnDataLoss.WARN

    # ---- the data topic ------------------------------------------------------------------------

    def made(self, log: DataLog, topic_id: bytes) -> None:
        """Begin to watch a new partition: facts about an earlier one of its name count no more."""
        self.watched[log.tp] = Watched(log, topic_id, born_under=self.reads_topic)

    def about_to_begin(self, committed: Mapping[TopicPartition, Committed]) -> None:
        """Note what a plain group has committed before any member starts."""
        for tp, watched in self.watched.items():
            if committed:
                watched.is_decided, watched.born_under = tp in committed, True
                watched.decided_to = committed[tp].offset if tp in committed else -1
            else:
                watched.original_end = watched.log.end
        self.was_read = bool(committed)

    def know_less(self) -> None:
        """Note that members may find a topic that the group reads without a record of it."""
        self.was_read = True
        for watched in self.watched.values():
            watched.original_end = -1

    def produced(self, tp: TopicPartition, message: SimMessage) -> None:
        """Note an appended message."""
        watched, offset = self.watched[tp], message.offset()
        watched.by_lane.setdefault(self.lane(message.key(), offset), []).append(offset)
        for history in watched.history.values():
            if offset >= max(history.base, history.rewritten_to):
                history.undone[offset] = message

    def retained_from(self, tp: TopicPartition, low: int) -> None:
        """Note that retention removes everything below: what nobody has processed is lost."""
        watched = self.watched[tp]
        lost = {o for o in map(SimMessage.offset, watched.log.messages) if o < low}
        if self.accepts_loss:
            watched.excuse(lost)
        else:
            watched.lost |= lost

    def cut(self, tp: TopicPartition, end: int) -> None:
        """Note that an unclean election removes everything at `end` or above: it is lost.

        The next leader's messages at these offsets look like the removed ones until the cut is
        noticed. A member that saw the removed ones need not process them in the same epoch.
        """
        watched = self.watched[tp]
        watched.epochs += self.accepts_loss
        watched.cuts += not self.accepts_loss
        watched.lost -= {offset for offset in watched.lost if offset >= end}
        for offsets in watched.by_lane.values():
            del offsets[bisect_left(offsets, end) :]
        for history in watched.history.values():
            history.rewritten_to = watched.log.highest_end
            history.cut(end)

    def accept_loss(self) -> None:
        """Excuse lost records: a person has heard of the loss, and lets the group go on."""
        self.accepts_loss = True
        for watched in self.watched.values():
            watched.excuse(watched.lost)
            watched.epochs += watched.cuts
            watched.lost, watched.cuts = set(), 0

    def foreign(self, tp: TopicPartition, offset: int) -> None:
        """Note a decision from outside about the committed offset: one more epoch may begin."""
        watched = self.watched[tp]
        watched.decided_to = max(watched.decided_to, offset)
        self._decided(watched)

    def _decided(self, watched: Watched) -> None:
        watched.epochs += 1
        watched.is_decided = True
        self.know_less()

    def plain_processed(self, tp: TopicPartition, offset: int) -> None:
        """Note a record that a plain member has processed."""
        self.watched[tp].by_plain.add(offset)

    def plain_committed(self, tp: TopicPartition) -> None:
        """Note an offset that a plain member has committed: one more epoch may begin."""
        self._decided(self.watched[tp])

    def reset(self, tp: TopicPartition, epoch: int, offset: int) -> None:
        """Note an operator's new epoch: progress of an earlier one of its number counts no more.

        The log may have lost that earlier epoch before.
        """
        watched = self.watched[tp]
        watched.epochs = max(watched.epochs + 1, epoch)
        watched.history.pop(epoch, None)
        watched.is_decided = True
        watched.decided_to = max(watched.decided_to, offset)
        self.know_less()

    def excuse_offset(self, tp: TopicPartition, offset: int) -> None:
        """Note a person's decision to skip this record."""
        self.watched[tp].excuse([offset])

    def sought(self) -> None:
        """Note a user's seek back: the attempts of some records count anew."""
        self.was_sought = True
        self.disturb()

    def evict(self, tenures: Iterable[TenureId]) -> None:
        """Note that the member of these tenures was evicted: their late facts may be dropped."""
        self.evicted.update(tenures)
        self.disturb()

    def disturb(self) -> None:
        """Note that a member may lose attempts that it has counted and not yet appended."""
        self.is_orderly = False
        self.disturbances += 1

    # ---- what holds now ------------------------------------------------------------------------

    def lane(self, key: bytes | None, offset: int) -> LaneKey:
        """The lane of a record: records of one lane must be processed in their order."""
        match self._world.scenario.ordering:
            case "partition":
                return None
            case "none":
                return offset
            case _:
                return offset if key is None else key

    def history(self, tenure: Tenure) -> History | None:
        """The history for which a tenure works; None: its topic no longer exists."""
        watched = self.watched[tenure.tp]
        if tenure.key.topic_id != watched.topic_id:
            return None
        return watched.history[tenure.epoch]

    def is_superseded(self, shell: MemberShell, tp: TopicPartition) -> bool:
        """Whether a later run of the member's name has announced itself, which ends its tenures."""
        found = self.stores[self._world.log_partition(tp)].announced(shell.name)
        return found is not None and found.incarnation > shell.incarnation

    def undone(self, tp: TopicPartition, epoch: int) -> list[int]:
        """Offsets that nobody has processed in an epoch."""
        watched = self.watched[tp]
        history = watched.history.get(epoch)
        if history is None:
            return sorted(map(SimMessage.offset, watched.log.messages))
        # With exactly once a record is processed when its output is visible.
        return sorted(history.open() if self._world.exactly_once else history.undone)

    def was_refused(self, tp: TopicPartition, offset: int) -> bool:
        """Whether a topic has refused what this record leaves behind."""
        return any(offset in it.refused for it in self.watched[tp].history.values())

    def attempts_in(self, tp: TopicPartition) -> Mapping[int, Attempt]:
        """The failed, unfinished records of a partition, as the whole log tells of them."""
        log = self.stores[self._world.log_partition(tp)]
        mark = log, log.next_offset, self._world.topics[tp.topic][0]
        known = self._attempts.get(tp)
        if known is None or known[0] != mark:  # asked far more often than the log grows
            known = self._attempts[tp] = mark, self.store(tp).attempts()
        return known[1]

    def parked_in(self, tp: TopicPartition) -> list[int]:
        """Those of them that are parked."""
        return [offset for offset, attempt in self.attempts_in(tp).items() if attempt.parked]

    def store(self, tp: TopicPartition) -> PartitionStore:
        """The whole log's fold of a partition."""
        topic_id, _ = self._world.topics[tp.topic]
        return self.stores[self._world.log_partition(tp)].partition(topic_id, tp.partition)
