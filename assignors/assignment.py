"""The question to an assignor, and its answer. Pure.

In: partition counts by topic, members, and who forbids sharing. Out: an `Assignment`. The module
holds the type, the port (`Assignor`), the checks and the order that all assignors begin with
(`Roster`), and the check of I1 for tests and the simulation (`check_cover`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Protocol

from assignors.key_range import WHOLE, KeyRange, union
from assignors.member import AssignmentError, Member, TopicPartition

Assignment = dict[str, dict[TopicPartition, tuple[KeyRange, ...]]]
"""For each member id, what it gets: for each partition a sorted, disjoint tuple of ranges.

Every member has an entry; who gets nothing has an empty one."""

ALL_TOPICS_SHARE: Mapping[str, bool] = MappingProxyType({})
"""No topic forbids sharing."""


class Assignor(Protocol):
    """Divides partitions among members. Its answer depends on its input alone, in any order."""

    @property
    def name(self) -> str:
        """The name by which members agree on an assignor in the group protocol."""

    def assign(
        self,
        *,
        partitions: Mapping[str, int],
        members: Iterable[Member],
        topic_allows_sharing: Mapping[str, bool] = ALL_TOPICS_SHARE,
        group_allows_sharing: bool = True,
    ) -> Assignment:
        """Give every partition of every subscribed topic to members, whole or in ranges (I1).

        Args:
            partitions: How many partitions each topic has. Topics not listed are nobody's.
            members: The group; ids must be unique.
            topic_allows_sharing: False for topics whose partitions stay whole; absent means True.
            group_allows_sharing: False: all partitions stay whole.

        Raises:
            AssignmentError: Two members with one id, or a negative partition count.
        """


@dataclass(frozen=True, slots=True)
class Roster:
    """The checked input of one assignment, in the order all plans are made in.

    Args:
        members: In the order of their ids.
        subscribers: For each topic that has partitions and is subscribed to, in the order of names,
            the indices of its members, ascending.
        counts: For each of these topics, its number of partitions.
        sharing: Those of these topics whose partitions may be split.
    """

    members: tuple[Member, ...]
    subscribers: Mapping[str, tuple[int, ...]]
    counts: Mapping[str, int]
    sharing: frozenset[str]

    @classmethod
    def of(
        cls,
        partitions: Mapping[str, int],
        members: Iterable[Member],
        topic_allows_sharing: Mapping[str, bool],
        group_allows_sharing: bool,
    ) -> Roster:
        """Check and order the arguments of `Assignor.assign`. Raises as told there."""
        ordered = sorted(members, key=lambda member: member.id)
        for one, next_one in pairwise(ordered):
            if one.id == next_one.id:
                raise AssignmentError(
                    f"two members have the id {one.id} (topics {', '.join(one.topics)} and "
                    f"{', '.join(next_one.topics)}): ids must be unique"
                )
        subscribed: dict[str, list[int]] = {}
        for i, member in enumerate(ordered):
            for topic in set(member.topics):
                subscribed.setdefault(topic, []).append(i)
        for topic, count in partitions.items():
            if count < 0:
                readers = ", ".join(ordered[i].id for i in subscribed.get(topic, ())) or "nobody"
                raise AssignmentError(
                    f"topic {topic} (subscribed by {readers}): "
                    f"a partition count of {count} is impossible"
                )
        topics = sorted(topic for topic in subscribed if partitions.get(topic, 0) > 0)
        return cls(
            members=tuple(ordered),
            subscribers={topic: tuple(subscribed[topic]) for topic in topics},
            counts={topic: partitions[topic] for topic in topics},
            sharing=frozenset(
                topic
                for topic in topics
                if group_allows_sharing and topic_allows_sharing.get(topic, True)
            ),
        )

    def islands(self) -> list[Roster]:
        """The same in parts that have neither a member nor a topic in common. O(subscriptions)."""
        towards = list(range(len(self.members)))  # each member's way to one of its island

        def one_of(i: int) -> int:
            while towards[i] != i:
                towards[i] = i = towards[towards[i]]
            return i

        for readers in self.subscribers.values():
            for i in readers:
                towards[one_of(i)] = one_of(readers[0])
        members: dict[int, list[int]] = {}
        for i in range(len(self.members)):
            members.setdefault(one_of(i), []).append(i)
        topics: dict[int, list[str]] = {at: [] for at in members}
        for topic, readers in self.subscribers.items():
            topics[one_of(readers[0])].append(topic)
        return [self._part(members[at], topics[at]) for at in members]

    def _part(self, members: list[int], topics: list[str]) -> Roster:
        """Some members, and topics that are all theirs."""
        if len(members) == len(self.members):
            return self
        number = {i: n for n, i in enumerate(members)}
        return Roster(
            members=tuple(self.members[i] for i in members),
            subscribers={it: tuple(number[i] for i in self.subscribers[it]) for it in topics},
            counts={topic: self.counts[topic] for topic in topics},
            sharing=self.sharing.intersection(topics),
        )

    def is_split(self, topic: str) -> bool:
        """Whether more members want the topic than it has partitions, and it may be shared."""
        readers = self.subscribers[topic]
        return (
            topic in self.sharing
            and len(readers) > self.counts[topic]
            and any(self.members[i].allow_sharing for i in readers)
        )

    def sharers(self, topic: str) -> list[int]:
        """The indices of the topic's members that take ranges."""
        return [i for i in self.subscribers[topic] if self.members[i].allow_sharing]

    def keepers_by_capacity(self, topic: str) -> list[int]:
        """The indices of the topic's members that only take whole partitions, largest first."""
        keepers = [i for i in self.subscribers[topic] if not self.members[i].allow_sharing]
        return sorted(keepers, key=lambda i: (-self.members[i].capacity, i))


def check_cover(
    assignment: Assignment, partitions: Mapping[str, int], members: Iterable[Member]
) -> None:
    """Check I1: the ranges of each subscribed partition are disjoint and cover the hash space.

    O(n log n) in the number of ranges.

    Raises:
        AssertionError: With "I1: …" and the partition: an overlap, a hole, ranges of a partition
            that does not exist, or ranges for a member that did not subscribe to the topic.
    """
    topics = {member.id: set(member.topics) for member in members}
    subscribed = set().union(*topics.values())
    given: dict[TopicPartition, list[tuple[KeyRange, str]]] = {
        TopicPartition(topic, number): []
        for topic in subscribed
        for number in range(partitions.get(topic, 0))
    }
    for member_id, by_partition in assignment.items():
        for tp, ranges in by_partition.items():
            assert tp in given, f"I1: {tp} given to {member_id} does not exist"
            assert tp.topic in topics.get(member_id, ()), (
                f"I1: {tp} given to {member_id}, which did not subscribe to it"
            )
            given[tp].extend((key_range, member_id) for key_range in ranges)
    for tp, pieces in sorted(given.items()):
        pieces.sort()
        for (one, one_id), (other, other_id) in pairwise(pieces):
            assert not one.overlaps(other), (
                f"I1: {tp}: {one} of {one_id} overlaps {other} of {other_id}"
            )
        covered = union(key_range for key_range, _ in pieces)
        assert covered == (WHOLE,), f"I1: {tp}: holes around {', '.join(map(str, covered))}"
