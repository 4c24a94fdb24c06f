"""How the records of one forgotten group are cleared from one progress topic. Pure; one thread.

In: all records of the group there, each partition in order, and again what comes later. Out: the
offsets to commit first, and then the tombstones, or that the group has woken up. The steps:

    LOOKING -retire-> RETIRED -clear-> CLEARED
                         `-a record of the group comes-> WOKEN

A *retirement* (`offsets.history`) is committed while the group has no members; else the coordinator
refuses it, and nothing has happened. Whoever joins behind it begins a new epoch, so tombstones
reach nothing that anybody builds on, however late they come. After the commit the log is read once
more. If a member came and went between the first reading and the commit, the log has more of the
group. Then nothing is cleared, and the retirement is void. Upholds I2, I3. See decision 067.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from assignors import TopicPartition
from coop_consumer.admin.remains import owner_of
from coop_consumer.core.placement import log_partition_of
from offsets import (
    BaseKey,
    Committed,
    Key,
    LogRecord,
    PartitionStore,
    ProgressStore,
    Tag,
    TenureKey,
    TopicStartKey,
    decode_key,
)


class SweepState(Enum):
    """How far a sweep is."""

    LOOKING = auto()
    """Records are read; nothing has been sent."""
    RETIRED = auto()
    """The retirements were sent: a record of the group from here on is a sign of life."""
    WOKEN = auto()
    """The group has written since the look: nothing is cleared."""
    CLEARED = auto()
    """The tombstones were handed out."""


@dataclass(slots=True, eq=False)
class Sweep:
    """The sweep of one group in one progress topic.

    Args:
        group: The group.
        tag: Of the guarantee whose log this is.
        log_partitions: How many partitions the topic has.

    Attributes:
        state: How far it is.
        last_ms: When the group wrote last, Unix time; 0: it never did.
    """

    group: str
    tag: Tag
    log_partitions: int
    state: SweepState = SweepState.LOOKING
    last_ms: int = 0
    _stores: dict[int, ProgressStore] = field(default_factory=dict)
    _live: dict[int, set[bytes]] = field(default_factory=dict)

    def take(self, number: int, record: LogRecord) -> None:
        """Take the next record of partition `number`; those of others pass unnoticed."""
        owner = owner_of(record.key)
        if owner.group != self.group or owner.is_policy:
            return
        if self.state is SweepState.RETIRED:
            self.state = SweepState.WOKEN
        live = self._live.setdefault(number, set())
        if record.value is None:
            live.discard(record.key)
        else:
            live.add(record.key)
            self.last_ms = max(self.last_ms, record.timestamp_ms)
        store = self._stores.get(number)
        if store is None:
            store = self._stores[number] = ProgressStore(self.group, self.tag)
        store.apply(record)

    @property
    def keys(self) -> int:
        """How many keys get a tombstone."""
        return sum(map(len, self._live.values()))

    @property
    def log_numbers(self) -> frozenset[int]:
        """The log partitions that have records of the group."""
        return frozenset(self._stores)

    @property
    def topic_ids(self) -> frozenset[bytes]:
        """The ids of the topics of which the group has a history here."""
        return frozenset(
            topic_id
            for store in self._stores.values()
            for topic_id, number in store.partitions()
            if store.partition(topic_id, number).epoch is not None
        )

    def retire(
        self, log_ends: Mapping[int, int], names: Mapping[bytes, str]
    ) -> dict[TopicPartition, Committed]:
        """What to commit, for each partition that a member may continue.

        Args:
            log_ends: The ends up to which the records were taken, by log partition.
            names: The names of those of `topic_ids` that exist: nobody continues a deleted topic.
        """
        assert self.state is SweepState.LOOKING, f"I3: {self.group}: retired in {self.state.name}"
        self.state = SweepState.RETIRED
        return self._offsets(
            names,
            lambda store, epoch, number: Committed.retired(
                store.progress().stable, epoch, store.place[1], self.tag, log_ends[number]
            ),
        )

    def taken_back(self, names: Mapping[bytes, str]) -> dict[TopicPartition, Committed]:
        """What a lead of the group would have committed instead, by the log as it is now."""
        return self._offsets(
            names, lambda store, epoch, _: store.mirrored(store.progress().stable, epoch)
        )

    def _offsets(
        self, names: Mapping[bytes, str], offset_of: Callable[[PartitionStore, int, int], Committed]
    ) -> dict[TopicPartition, Committed]:
        found: dict[TopicPartition, Committed] = {}
        for number, log in sorted(self._stores.items()):
            for topic_id, partition in log.partitions():
                store, name = log.partition(topic_id, partition), names.get(topic_id)
                if name is None or store.epoch is None:
                    continue
                # After the topic got more partitions, members look elsewhere.
                if number == log_partition_of(self.group, name, partition, self.log_partitions):
                    place = TopicPartition(name, partition)
                    found[place] = offset_of(store, store.epoch, number)
        return found

    def clear(self) -> dict[int, list[bytes]]:
        """The keys that get tombstones, by log partition, in the order for appending them.

        After any of them the log tells less of what is done, never more: bases come behind tenures,
        and topic starts last.
        """
        assert self.state is SweepState.RETIRED, f"I3: {self.group}: cleared in {self.state.name}"
        self.state = SweepState.CLEARED
        return {
            number: sorted(live, key=_turn) for number, live in sorted(self._live.items()) if live
        }


def _turn(data: bytes) -> tuple[int, int, bytes]:
    """When a key gets its tombstone; part 0 of a tenure's record vouches for the others."""
    key: Key = decode_key(data)
    match key:
        case TenureKey():
            return 0, -key.part, data
        case BaseKey():
            return 1, 0, data
        case TopicStartKey():
            return 2, 0, data
        case _:
            return 0, 0, data
