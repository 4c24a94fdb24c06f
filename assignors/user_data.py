"""What members and their leader tell each other in a rebalance: values and their wire format.

In: the values below, or bytes from another member. Out: bytes for the group protocol's user data,
or the values. Pure. Bytes from others are hostile input: what cannot be read raises `UserDataError`
with the reason, and never anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assignors.key_range import KeyRange
from assignors.load import ClaimLoad, decode_load, encode_load
from assignors.member import TopicPartition
from assignors.wire import WIRE_VERSION, Reader, UnknownVersionError, UserDataError, Writer

__all__ = [
    "WIRE_VERSION",
    "AssignmentData",
    "Claim",
    "Subscription",
    "UnknownVersionError",
    "UserDataError",
    "Wait",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]

_SUBSCRIPTION = 0x53  # "S": the first byte of each message tells its kind
_ASSIGNMENT = 0x41  # "A"
_PARTITION_MAX = 2**31 - 1  # Kafka's partition numbers are signed 32-bit integers


@dataclass(frozen=True, slots=True)
class Claim:
    """A tenure in which the sender is active, or which it drains.

    Args:
        number: The tenure's number within its incarnation.
        partition: The partition it holds ranges of.
        ranges: The ranges it still holds: sorted, disjoint.
        draining: True once it has begun to release them all.
        epoch: The partition's epoch in which it began.
        load: What its records cost; None: not known, so they count as even.
    """

    number: int
    partition: TopicPartition
    ranges: tuple[KeyRange, ...]
    draining: bool
    epoch: int = 0
    load: ClaimLoad | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member tells of itself in JoinGroup.

    Args:
        name: Its name, unique in the group; a static member keeps it over incarnations.
        incarnation: Which run of that name this is: 64 bits, unsigned.
        host: Where it runs.
        capacity: Its weight, at least 1.
        allow_sharing: False: it only takes whole partitions.
        contract: What all members must agree on; members with another one get nothing.
        nonce: Tells two subscriptions of one incarnation apart.
        stop: Why the group should stop, or "" if it should not.
        claims: The tenures it is active in or drains, never what it only waits for.
        supported: The oldest and newest wire version it speaks; it is written in the oldest.
        leaving: It waits for its last handlers only, and gets nothing any more.
        patterns: By which it subscribes, besides names; for display only.
        loads_unreadable: Of how many claims it said a load that could not be read. Not written.
    """

    name: str
    incarnation: int
    host: str
    capacity: int
    allow_sharing: bool
    contract: str
    nonce: int
    stop: str = ""
    claims: tuple[Claim, ...] = ()
    supported: tuple[int, int] = (1, WIRE_VERSION)
    leaving: bool = False
    patterns: tuple[str, ...] = ()
    loads_unreadable: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """One entry of a wait list: another member's tenure, and what it still claims of mine.

    Args:
        member: The name of the member that holds the tenure.
        incarnation: Which run of that member.
        number: The tenure's number within that incarnation.
        partition: The partition.
        ranges: The part of the assigned ranges that the tenure claims: sorted, disjoint.
    """

    member: str
    incarnation: int
    number: int
    partition: TopicPartition
    ranges: tuple[KeyRange, ...]


@dataclass(frozen=True, slots=True)
class AssignmentData:
    """What the leader tells one member.

    Args:
        ranges: What the member gets: for each partition a sorted, disjoint tuple of ranges.
        waits: Who still claims parts of it.
        lead: The name of the member that leads the progress log.
        members: How many members the group has.
        live: The names of all members; filled only for the lead.
        split: The partitions that are split; filled only for the lead.
        planned: How many partitions of each topic the plan knows; filled only for the lead.
        epochs: For partitions in which members are in different epochs, the newest one.
        refused: Why the member got nothing, or "".
        stop: Why the group stops, or "".
        assigned_at_ms: When the plan was made, Unix time; for display only.
    """

    ranges: Mapping[TopicPartition, tuple[KeyRange, ...]] = field(default_factory=dict)
    waits: tuple[Wait, ...] = ()
    lead: str = ""
    members: int = 0
    live: tuple[str, ...] = ()
    split: tuple[TopicPartition, ...] = ()
    planned: Mapping[str, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    refused: str = ""
    stop: str = ""
    assigned_at_ms: int = 0


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes for JoinGroup: about 24 a range at most, 7 for a whole partition; 46 for a load.

    Raises:
        ValueError: If a number is not unsigned 64-bit, ranges are not sorted and disjoint, or a
            load has not 8 bins.
    """
    writer = Writer()
    writer.uint(subscription.supported[0])
    writer.uint(subscription.supported[1])
    writer.text(subscription.name)
    writer.id64(subscription.incarnation)
    writer.text(subscription.host)
    writer.uint(subscription.capacity)
    writer.flag(subscription.allow_sharing)
    writer.text(subscription.contract)
    writer.uint(subscription.nonce)
    writer.text(subscription.stop)
    writer.flag(subscription.leaving)
    topics = _write_topics(writer, (claim.partition for claim in subscription.claims))
    writer.uint(len(subscription.claims))
    for claim in subscription.claims:
        writer.uint(claim.number)
        writer.flag(claim.draining)
        writer.uint(claim.epoch)
        _write_partition(writer, topics, claim.partition)
        writer.ranges(claim.ranges)
    loads = [claim.load for claim in subscription.claims]
    if any(loads) or subscription.patterns:
        writer.uint(len(loads))
        for load in loads:
            writer.data(encode_load(load) if load else b"")
    if subscription.patterns:  # whoever adds a field behind has to write this one in any case
        _write_texts(writer, subscription.patterns)
    return writer.message(_SUBSCRIPTION, subscription.supported[0])


def decode_subscription(data: bytes) -> Subscription:
    """What a member told of itself.

    Raises:
        UnknownVersionError: The bytes are of a newer version.
        UserDataError: They cannot be read; the text tells where and why.
    """
    reader = Reader(data, _SUBSCRIPTION, "subscription")
    supported = reader.uint(), reader.uint()
    if not 1 <= supported[0] <= supported[1]:
        raise reader.error(f"versions {supported[0]} to {supported[1]} are none")
    name, incarnation, host = reader.text(), reader.id64(), reader.text()
    capacity = reader.uint()
    if capacity < 1:
        raise reader.error(f"member {name}: capacity {capacity} is below 1")
    allow_sharing, contract, nonce = reader.flag(), reader.text(), reader.uint()
    stop, leaving = reader.text(), reader.flag()
    topics = _read_texts(reader)
    told: list[tuple[int, TopicPartition, tuple[KeyRange, ...], bool, int]] = []
    for _ in range(reader.count()):
        number, draining, epoch = reader.uint(), reader.flag(), reader.uint()
        tp = _read_partition(reader, topics)
        told.append((number, tp, reader.ranges(), draining, epoch))
    loads, loads_unreadable = _read_loads(reader, [ranges for _, _, ranges, _, _ in told])
    claims = [Claim(*one, load) for one, load in zip(told, loads, strict=True)]
    patterns = () if loads_unreadable else _read_patterns(reader)
    return Subscription(
        name=name,
        incarnation=incarnation,
        host=host,
        capacity=capacity,
        allow_sharing=allow_sharing,
        contract=contract,
        nonce=nonce,
        stop=stop,
        claims=tuple(claims),
        supported=supported,
        leaving=leaving,
        patterns=patterns,
        loads_unreadable=loads_unreadable,
    )


def _read_patterns(reader: Reader) -> tuple[str, ...]:
    """By which patterns a member subscribes. Nothing depends on it: what cannot be read is none."""
    try:
        return () if reader.is_over() else tuple(_read_texts(reader))
    except UserDataError:
        return ()


def _read_loads(
    reader: Reader, claimed: Sequence[tuple[KeyRange, ...]]
) -> tuple[list[ClaimLoad | None], int]:
    """What claims of these ranges cost, and of how many it cannot be read.

    Claims hold without it: what cannot be read is None, like what is not said.
    """
    loads: list[ClaimLoad | None] = []
    if reader.is_over():
        return [None] * len(claimed), 0
    unreadable = 0
    try:
        for ranges in claimed[: reader.count()]:
            data = reader.data()
            load = decode_load(data, ranges)
            unreadable += load is None and data != b""
            loads.append(load)
    except UserDataError:
        unreadable += len(claimed) - len(loads)
    return loads + [None] * (len(claimed) - len(loads)), unreadable


def encode_assignment(data: AssignmentData) -> bytes:
    """The bytes for SyncGroup: about 24 a range at most, 4 for a whole partition.

    Raises:
        ValueError: If a number is not unsigned 64-bit, or ranges are not sorted and disjoint.
    """
    writer = Writer()
    writer.text(data.lead)
    writer.uint(data.members)
    writer.text(data.refused)
    writer.text(data.stop)
    writer.uint(data.assigned_at_ms)
    waited_for = (wait.partition for wait in data.waits)
    topics = _write_topics(writer, [*data.ranges, *waited_for, *data.split, *data.epochs])
    writer.uint(len(data.ranges))
    for tp, ranges in data.ranges.items():
        _write_partition(writer, topics, tp)
        writer.ranges(ranges)
    holders = list(dict.fromkeys((wait.member, wait.incarnation) for wait in data.waits))
    writer.uint(len(holders))
    for member, incarnation in holders:
        writer.text(member)
        writer.id64(incarnation)
    position = {holder: i for i, holder in enumerate(holders)}
    writer.uint(len(data.waits))
    for wait in data.waits:
        writer.uint(position[wait.member, wait.incarnation])
        writer.uint(wait.number)
        _write_partition(writer, topics, wait.partition)
        writer.ranges(wait.ranges)
    _write_texts(writer, data.live)
    writer.uint(len(data.split))
    for tp in data.split:
        _write_partition(writer, topics, tp)
    writer.uint(len(data.planned))
    for topic, count in data.planned.items():
        writer.text(topic)
        writer.uint(count)
    writer.uint(len(data.epochs))
    for tp, epoch in data.epochs.items():
        _write_partition(writer, topics, tp)
        writer.uint(epoch)
    return writer.message(_ASSIGNMENT, WIRE_VERSION)


def decode_assignment(data: bytes) -> AssignmentData:
    """What the leader told this member.

    Raises:
        UnknownVersionError: The bytes are of a newer version.
        UserDataError: They cannot be read; the text tells where and why.
    """
    reader = Reader(data, _ASSIGNMENT, "assignment")
    lead, members = reader.text(), reader.uint()
    refused, stop, assigned_at_ms = reader.text(), reader.text(), reader.uint()
    topics = _read_texts(reader)
    ranges: dict[TopicPartition, tuple[KeyRange, ...]] = {}
    for _ in range(reader.count()):
        tp = _read_partition(reader, topics)
        if tp in ranges:
            raise reader.error(f"{tp} is assigned twice")
        ranges[tp] = reader.ranges()
    holders = [(reader.text(), reader.id64()) for _ in range(reader.count())]
    waits: list[Wait] = []
    for _ in range(reader.count()):
        (member, incarnation), number = reader.one_of(holders), reader.uint()
        tp = _read_partition(reader, topics)
        waits.append(Wait(member, incarnation, number, tp, reader.ranges()))
    live = tuple(_read_texts(reader))
    split = tuple(_read_partition(reader, topics) for _ in range(reader.count()))
    planned = {reader.text(): reader.uint() for _ in range(reader.count())}
    epochs = {_read_partition(reader, topics): reader.uint() for _ in range(reader.count())}
    return AssignmentData(
        ranges=ranges,
        waits=tuple(waits),
        lead=lead,
        members=members,
        live=live,
        split=split,
        planned=planned,
        epochs=epochs,
        refused=refused,
        stop=stop,
        assigned_at_ms=assigned_at_ms,
    )


def _write_topics(writer: Writer, partitions: Iterable[TopicPartition]) -> dict[str, int]:
    """Write a table of all topics; partitions then need only a topic's position in it."""
    topics = list(dict.fromkeys(tp.topic for tp in partitions))
    _write_texts(writer, topics)
    return {topic: i for i, topic in enumerate(topics)}


def _write_partition(writer: Writer, topics: Mapping[str, int], tp: TopicPartition) -> None:
    writer.uint(topics[tp.topic])
    writer.uint(tp.partition)


def _read_partition(reader: Reader, topics: Sequence[str]) -> TopicPartition:
    return TopicPartition(reader.one_of(topics), reader.uint(most=_PARTITION_MAX))


def _write_texts(writer: Writer, texts: Sequence[str]) -> None:
    writer.uint(len(texts))
    for text in texts:
        writer.text(text)


def _read_texts(reader: Reader) -> list[str]:
    return [reader.text() for _ in range(reader.count())]
