"""What members and their leader tell each other in a rebalance: values and their wire format.

In: the values below, or bytes from another member. Out: bytes for the group protocol's user data,
or the values. Pure. Bytes from others are hostile input: what cannot be read raises `UserDataError`
with the reason, and never anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignors.key_range import KeyRange
from assignors.member import TopicPartition

WIRE_VERSION = 1
"""The version this module writes; it reads every version from 1 to this one."""


class UserDataError(ValueError):
    """User data that cannot be read; its sender counts as owning nothing."""


class UnknownVersionError(UserDataError):
    """User data of a version newer than this module knows."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A tenure in which the sender is active, or which it drains.

    Args:
        number: The tenure's number within its incarnation.
        partition: The partition it holds ranges of.
        ranges: The ranges it still holds: sorted, disjoint.
        draining: True once it has begun to release them all.
    """

    number: int
    partition: TopicPartition
    ranges: tuple[KeyRange, ...]
    draining: bool


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
        supported: The lowest and highest wire version it can read.
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
    refused: str = ""
    stop: str = ""
    assigned_at_ms: int = 0
