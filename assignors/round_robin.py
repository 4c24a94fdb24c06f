"""Assignment by dealing: partitions to members, or members to partitions where they outnumber them.

The KIP's first assignor. In and out as told in `assignors.assignment`; keeps no memory, so members
may lose all they held when one joins. Capacities only order the members that refuse to share.
Where loads are known, parts are equal by load. Upholds I1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle

from assignors.assignment import ALL_TOPICS_SHARE, Assignment, Roster
from assignors.cuts import Cuts
from assignors.key_range import WHOLE
from assignors.member import Member, TopicPartition


class KeyRangeRoundRobinAssignor:
    """Deals out partitions in turn; of a topic with fewer partitions than members, ranges.

    If there are at most as many members as partitions, or sharing is forbidden, partitions go whole
    to one member after the other, on through all topics. Otherwise members that refuse to share get
    one whole partition each, largest capacity first. The other members are dealt onto the other
    partitions, and each of these is cut into equal parts. O(partitions + members) for members that
    subscribe to the same topics.

    Args:
        by_load: Equal means by the loads that members have measured, if there are any; False: by
            the number of hashes.

    >>> members = [Member(id_, topics=("orders",)) for id_ in ("M1", "M2")]
    >>> plan = KeyRangeRoundRobinAssignor().assign(partitions={"orders": 1}, members=members)
    >>> for id_ in plan:
    ...     for tp, ranges in plan[id_].items():
    ...         print(id_, tp, *ranges)
    M1 orders-0 [0, 4611686018427387902]
    M2 orders-0 [4611686018427387903, 9223372036854775807]
    """

    name = "key-range-round-robin"

    def __init__(self, *, by_load: bool = True) -> None:
        self.by_load = by_load

    def assign(
        self,
        *,
        partitions: Mapping[str, int],
        members: Iterable[Member],
        topic_allows_sharing: Mapping[str, bool] = ALL_TOPICS_SHARE,
        group_allows_sharing: bool = True,
    ) -> Assignment:
        """Deal out the partitions; arguments and errors as told in `Assignor.assign`."""
        roster = Roster.of(partitions, members, topic_allows_sharing, group_allows_sharing)
        plan: Assignment = {member.id: {} for member in roster.members}
        cuts = Cuts(roster if self.by_load else None)
        turns = cycle(range(len(roster.members)))
        for topic, readers in roster.subscribers.items():
            if roster.is_split(topic):
                self._deal_ranges(plan, roster, topic, cuts)
                continue
            subscribed = set(readers)
            for number in range(roster.counts[topic]):
                i = next(turn for turn in turns if turn in subscribed)
                plan[roster.members[i].id][TopicPartition(topic, number)] = (WHOLE,)
        return plan

    @staticmethod
    def _deal_ranges(plan: Assignment, roster: Roster, topic: str, cuts: Cuts) -> None:
        ids = [member.id for member in roster.members]
        keepers = roster.keepers_by_capacity(topic)[: roster.counts[topic]]
        for number, i in enumerate(keepers):
            plan[ids[i]][TopicPartition(topic, number)] = (WHOLE,)
        sharers = roster.sharers(topic)
        rest = range(len(keepers), roster.counts[topic])
        for start, number in enumerate(rest):
            on_this_one = sharers[start :: len(rest)]
            tp = TopicPartition(topic, number)
            for i, part in zip(on_this_one, cuts.parts(tp, len(on_this_one)), strict=True):
                plan[ids[i]][tp] = (part,)
