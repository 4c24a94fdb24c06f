"""Who takes part in an assignment, and what there is to assign. Pure values.

In: what each member told of itself when it joined. Out: `Member` and `TopicPartition`, the nouns
all assignors work with. A `Member` that exists is valid: one that no assignment can be made for is
refused here, with an `AssignmentError` that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignors.key_range import KeyRange
from assignors.load import RangesLoad


class AssignmentError(ValueError):
    """Input from which no assignment can be made; its text names the member and the topic."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic; ordered by topic, then number.

    >>> str(TopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


RangesByPartition = Mapping[TopicPartition, tuple[KeyRange, ...]]
"""For each partition a range set: sorted, disjoint."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the group, as the assignor sees it.

    Args:
        id: The member's name, unique in the group; plans are made in the order of ids.
        topics: The topics it subscribes to; a topic without metadata is nobody's.
        capacity: Its weight, at least 1, usually its number of workers: shares are in proportion.
        host: Where it runs; ranges of one partition are gathered on few hosts. Empty: unknown.
        allow_sharing: False: it only ever gets whole partitions.
        owned: The ranges it works on and would like to keep.
        draining: The ranges it has begun to release; giving them back saves it nothing.
        loads: What the records of `owned` cost, claim by claim, as far as it has measured that.

    Raises:
        AssignmentError: If the capacity is below 1, or `topics` is one string.
    """

    id: str
    topics: tuple[str, ...] = ()
    capacity: int = 1
    host: str = ""
    allow_sharing: bool = True
    owned: RangesByPartition = field(default_factory=dict)
    draining: RangesByPartition = field(default_factory=dict)
    loads: Mapping[TopicPartition, tuple[RangesLoad, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.topics, str):
            raise AssignmentError(
                f"member {self.id}: topics is the string {self.topics!r}; give a tuple of names"
            )
        if self.capacity < 1:
            raise AssignmentError(
                f"member {self.id} (topics {', '.join(self.topics)}): "
                f"capacity {self.capacity} is below 1"
            )
