"""What an inspection saw of a group: the values from which its status is made. Pure.

In: the coordinator's list of members, committed offsets, ends, the folded progress log, records.
Members' user data are hostile input: a member whose data cannot be read owns nothing, and its note
says why. Out: frozen values; nothing is concluded here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assignors import (
    PARTITION_HASH,
    WHOLE,
    AssignmentData,
    KeyRange,
    Subscription,
    TopicPartition,
    UserDataError,
    Wait,
    block_hash,
    decode_assignment,
    decode_subscription,
    key_hash,
    null_key_hash,
)
from coop_consumer.config import Guarantee
from coop_consumer.core.policies import Policies
from coop_consumer.status.open_transaction import OpenTransaction
from offsets import Committed, LoadRecord, PartitionStore, TopicStartRecord


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """A member as the coordinator lists it.

    Attributes:
        name: Its name; of a plain member, the coordinator's id for it.
        host: Where it runs.
        capacity: Its weight; 0 for a plain member.
        ranges: What it was assigned: sorted ranges for each partition.
        waits: The tenures of others that it waits for.
        leads: Whether it leads the progress log.
        assigned_at_ms: When its assignment was planned, Unix time; 0 if that is not known.
        contract: What it must agree on with the others, as text.
        topics: What it subscribes to.
        patterns: Which of that by patterns.
        note: Why it owns nothing, or "".
        member_id: The coordinator's id for it; "" if that is not known.
        incarnation: Which run of its name it is; 0 for a plain member.
    """

    name: str
    host: str
    capacity: int = 0
    ranges: Mapping[TopicPartition, tuple[KeyRange, ...]] = field(default_factory=dict)
    waits: tuple[Wait, ...] = ()
    leads: bool = False
    assigned_at_ms: int = 0
    contract: str = ""
    topics: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    note: str = ""
    member_id: str = ""
    incarnation: int = 0

    @property
    def place(self) -> str:
        """Which member it is, and where, for messages."""
        return f"{self.name} on {self.host}"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator describes it.

    Attributes:
        state: The coordinator's word for its state, such as "Stable" or "Empty".
        protocol: The assignment protocol its members agreed on, or "".
        members: Its members.
    """

    state: str
    protocol: str
    members: tuple[MemberSeen, ...]

    @property
    def exists(self) -> bool:
        """Whether the coordinator knows the group."""
        return self.state != NO_GROUP.state


NO_GROUP = GroupDescription("Dead", "", ())
"""A coordinator's description of a group that it does not know."""


@dataclass(frozen=True, slots=True)
class RecordSeen:
    """A record of a data partition, as far as status shows it.

    Attributes:
        offset: Its offset.
        key: Its key, or None.
        key_hash: Where it lies in the hash space.
        timestamp_ms: When it was produced (or appended), Unix time; -1 if it does not say.
    """

    offset: int
    key: bytes | None
    key_hash: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """A data partition of the group.

    Attributes:
        tp: Which one.
        topic_id: The id of its topic, 16 bytes.
        begin: The offset of its first record, or where that would be.
        end: The offset its next record will get.
        committed: The offset in Kafka's own store, and its metadata; None without one.
        store: Its records in the progress log, folded.
        records: Records by offset: the failed ones, and the one that holds the stable offset.
        hidden: How many offsets below `end` members cannot read yet: they read committed records,
            and these lie above the last stable offset.
    """

    tp: TopicPartition
    topic_id: bytes
    begin: int
    end: int
    committed: Committed | None
    store: PartitionStore
    records: Mapping[int, RecordSeen] = field(default_factory=dict)
    hidden: int = 0

    @property
    def readable(self) -> int:
        """Where the records end that members can read."""
        return self.end - self.hidden


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group, at a moment.

    Attributes:
        group: The group id.
        state: The coordinator's word for its state, such as "Stable" or "Empty".
        protocol: The assignment protocol its members agreed on, or "".
        members: Its members.
        partitions: The data partitions it has to do with.
        unreadable: How many records of the progress log could not be read, by reason.
        at_ms: When it was seen, Unix time.
        policies: What operators forbid it.
        topics_committed: The names of topics of which it has committed anything, deleted topics
            included.
        topic_starts: How it began with topics, from the log.
        guarantee: By which it works: the value of `processing.guarantee`.
        open_transactions: What holds up readers of committed records: of its log, if a look was not
            complete because of it; of its data partitions; and with exactly once of what it writes.
        loads: The last report of each member that has one in the log, by its name.
    """

    group: str
    state: str
    protocol: str
    members: tuple[MemberSeen, ...]
    partitions: tuple[PartitionSeen, ...]
    unreadable: Mapping[str, int]
    at_ms: int
    policies: Policies = field(default_factory=Policies)
    topics_committed: frozenset[str] = frozenset()
    topic_starts: Mapping[str, TopicStartRecord] = field(default_factory=dict)
    guarantee: str = Guarantee.AT_LEAST_ONCE
    open_transactions: tuple[OpenTransaction, ...] = ()
    loads: Mapping[str, LoadRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hashing:
    """How the group's members place a record in the hash space.

    Attributes:
        ordering: "key", "partition" or "none".
        block_size: Neighbouring offsets with one hash, if the ordering is "none".
    """

    ordering: str
    block_size: int

    def agreed_by(self, members: Iterable[MemberSeen]) -> Hashing:
        """The members' common hashing, from their contract; this one without readable members.

        >>> Hashing("key", 1000).agreed_by([MemberSeen("m", "h", contract="ordering=none,block=7")])
        Hashing(ordering='none', block_size=7)
        """
        for member in members:
            if found := re.search(r"ordering=(\w+)(?:,block=(\d+))?", member.contract):
                return Hashing(found[1], int(found[2] or self.block_size))
        return self

    def place(self, partition: int, offset: int, key: bytes | None) -> int:
        """The key hash of a record."""
        if self.ordering == "none":
            return block_hash(partition, offset, self.block_size)
        if self.ordering == "partition":
            return PARTITION_HASH
        return null_key_hash(partition, offset) if key is None else key_hash(key)


def member_seen(
    member_id: str,
    host: str,
    *,
    topics: Iterable[str],
    subscription: bytes,
    assignment: bytes,
    partitions: Iterable[TopicPartition],
) -> MemberSeen:
    """A member from the coordinator's data.

    Args:
        member_id: The coordinator's id for it.
        host: The address it connects from, shown for a plain member.
        topics: What it subscribes to.
        subscription: The user data of its subscription; empty: a plain member.
        assignment: The user data of its assignment; empty while the group rebalances.
        partitions: Its assignment as standard tools show it.
    """
    if not subscription:
        whole = dict.fromkeys(partitions, (WHOLE,))
        return MemberSeen(member_id, host, ranges=whole, topics=tuple(topics), member_id=member_id)
    try:
        told = decode_subscription(subscription)
        data = decode_assignment(assignment) if assignment else AssignmentData()
    except UserDataError as error:
        note = f"cannot be read: {error}"
        return MemberSeen(member_id, host, topics=tuple(topics), note=note, member_id=member_id)
    return _readable(member_id, told, data, tuple(topics))


def _readable(
    member_id: str, told: Subscription, data: AssignmentData, topics: tuple[str, ...]
) -> MemberSeen:
    return MemberSeen(
        name=told.name,
        host=told.host,
        capacity=told.capacity,
        ranges=data.ranges,
        waits=data.waits,
        leads=data.lead == told.name,
        assigned_at_ms=data.assigned_at_ms,
        contract=told.contract,
        topics=topics,
        patterns=told.patterns,
        note=f"gets nothing: {data.refused}" if data.refused else "",
        member_id=member_id,
        incarnation=told.incarnation,
    )
