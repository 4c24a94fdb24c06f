"""Assignment by neighbourhood: each topic's partitions, or members, in consecutive blocks.

The KIP's second assignor. In and out as told in `assignors.assignment`; keeps no memory, and starts
anew with each topic, so equally numbered partitions of equally sized topics meet in one member.
Capacities only order the members that refuse to share. Where loads are known, parts are equal by
load. Upholds I1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assignors.assignment import ALL_TOPICS_SHARE, Assignment, Roster
from assignors.cuts import Cuts
from assignors.key_range import WHOLE
from assignors.member import Member, TopicPartition


class KeyRangeRangeAssignor:
    """Gives each member a block of consecutive partitions; or each partition a block of members.

    If there are at most as many members as partitions, or sharing is forbidden, partitions stay
    whole, and the first members get one more each if the division leaves a rest. Otherwise members
    that refuse to share get one whole partition each, largest capacity first. Each of the other
    partitions is cut into equal parts for a block of the other members. O(partitions + members) a
    topic.

    Args:
        by_load: Equal means by the loads that members have measured, if there are any; False: by
            the number of hashes.

    >>> members = [Member(id_, topics=("orders",)) for id_ in ("M1", "M2", "M3")]
    >>> plan = KeyRangeRangeAssignor().assign(partitions={"orders": 2}, members=members)
    >>> for id_ in plan:
    ...     for tp, ranges in plan[id_].items():
    ...         print(id_, tp, *ranges)
    M1 orders-0 [0, 4611686018427387902]
    M2 orders-0 [4611686018427387903, 9223372036854775807]
    M3 orders-1 [0, 9223372036854775807]
    """

    name = "key-range-range"

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
        """Give out the blocks; arguments and errors as told in `Assignor.assign`."""
        roster = Roster.of(partitions, members, topic_allows_sharing, group_allows_sharing)
        plan: Assignment = {member.id: {} for member in roster.members}
        cuts = Cuts(roster if self.by_load else None)
        for topic, readers in roster.subscribers.items():
            numbers = list(range(roster.counts[topic]))
            if roster.is_split(topic):
                keepers = roster.keepers_by_capacity(topic)[: len(numbers)]
                _give_blocks(plan, roster, topic, numbers[: len(keepers)], keepers)
                _cut_for_blocks(plan, roster, topic, numbers[len(keepers) :], cuts)
            else:
                _give_blocks(plan, roster, topic, numbers, list(readers))
        return plan


def _give_blocks(
    plan: Assignment, roster: Roster, topic: str, numbers: list[int], takers: list[int]
) -> None:
    for i, block in zip(takers, _blocks(numbers, len(takers)), strict=True):
        for number in block:
            plan[roster.members[i].id][TopicPartition(topic, number)] = (WHOLE,)


def _cut_for_blocks(
    plan: Assignment, roster: Roster, topic: str, numbers: list[int], cuts: Cuts
) -> None:
    blocks = _blocks(roster.sharers(topic), len(numbers))
    for number, block in zip(numbers, blocks, strict=True):
        tp = TopicPartition(topic, number)
        for i, part in zip(block, cuts.parts(tp, len(block)), strict=True):
            plan[roster.members[i].id][tp] = (part,)


def _blocks(items: list[int], k: int) -> list[list[int]]:
    """Cut a list into `k` consecutive blocks; the first ones have one more if there is a rest."""
    size, rest = divmod(len(items), k) if k else (0, 0)
    firsts = [block * size + min(block, rest) for block in range(k + 1)]
    return [items[firsts[block] : firsts[block + 1]] for block in range(k)]
