"""Assignment that moves little: the default assignor.

In and out: see `assignors.assignment`. Members keep their ranges if the goals allow it. The goals,
in this order: cover (I1), balance by capacity, least moved, and a partition's ranges on few hosts.
Two pure neighbours do the work: `wholes` deals partitions that stay whole, `division` divides those
that are split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from assignors.assignment import ALL_TOPICS_SHARE, Assignment, Roster
from assignors.claims import LINE, Piece, held_pieces, key_ranges
from assignors.division import Division
from assignors.key_range import WHOLE
from assignors.member import Member, TopicPartition
from assignors.shares import Pool, fair_shares, totals
from assignors.wholes import Wholes

SplitMode = Literal["auto", "always"]


class KeyRangeStickyAssignor:
    """Balances by capacity and lets members keep what they own.

    With `split="auto"`, partitions stay whole as long as there is one for each member that
    subscribes to them. If there are more members than partitions, members share them in key ranges,
    each member within 1 % of its due. Members that refuse to share get whole partitions first, at
    least one each while there are any, largest capacity first. O(n log n) in ranges, partitions and
    members, for members that subscribe to the same topics.

    Args:
        split: "always" divides evenly by key ranges even where whole partitions would do.
        by_load: Even means by the loads that members have measured, if there are any; False: by
            the number of hashes.

    >>> members = [Member("M1", topics=("orders",)), Member("M2", topics=("orders",), capacity=3)]
    >>> plan = KeyRangeStickyAssignor().assign(partitions={"orders": 1}, members=members)
    >>> for id_ in plan:
    ...     for tp, ranges in plan[id_].items():
    ...         print(id_, tp, *ranges)
    M1 orders-0 [0, 2305843009213693950]
    M2 orders-0 [2305843009213693951, 9223372036854775807]
    """

    name = "key-range-sticky"

    def __init__(self, split: SplitMode = "auto", *, by_load: bool = True) -> None:
        if split not in ("auto", "always"):
            raise ValueError(f"split={split!r} is not known: 'auto' or 'always'")
        self.split = split
        self.by_load = by_load

    def assign(
        self,
        *,
        partitions: Mapping[str, int],
        members: Iterable[Member],
        topic_allows_sharing: Mapping[str, bool] = ALL_TOPICS_SHARE,
        group_allows_sharing: bool = True,
    ) -> Assignment:
        """Balance and keep; arguments and errors as told in `Assignor.assign`."""
        roster = Roster.of(partitions, members, topic_allows_sharing, group_allows_sharing)
        plan: Assignment = {}
        # Each by itself: what members of other topics hold and report is nothing to compare with.
        for island in roster.islands():
            made = _StickyPlan(island, self._split_topics(island), by_load=self.by_load).made()
            plan.update(made)
        return plan

    def _split_topics(self, roster: Roster) -> list[str]:
        candidates = [topic for topic in roster.subscribers if topic in roster.sharing]
        candidates = [topic for topic in candidates if roster.sharers(topic)]
        if not candidates or self.split == "always":
            return candidates
        # As if all members were equal: who would get less than a whole partition?
        pools = [
            Pool(count * LINE, roster.subscribers[topic]) for topic, count in roster.counts.items()
        ]
        idle = [0] * len(roster.members)
        even = totals(fair_shares(pools, [1] * len(idle), idle), idle)
        nearly_whole = LINE * 999 // 1000  # shares over several topics are found by approximation
        return [
            topic
            for topic in candidates
            if min(even[i] for i in roster.subscribers[topic]) < nearly_whole
        ]


class _Held(NamedTuple):
    """How much is held of a partition: by each member, by those that refuse to share, in all."""

    tp: TopicPartition
    of_each: Mapping[int, int]
    of_keepers: int
    of_all: int


class _StickyPlan:
    def __init__(self, roster: Roster, split_topics: list[str], *, by_load: bool) -> None:
        self._roster = roster
        self._by_load = by_load
        self._split_topics = split_topics
        self._pieces = held_pieces(roster)
        self._capacities = [member.capacity for member in roster.members]
        self._wholes = Wholes(
            self._capacities,
            roster.subscribers,
            {tp: _amounts(pieces) for tp, pieces in self._pieces.items()},
        )

    def made(self) -> Assignment:
        whole_topics = [
            topic for topic in self._roster.subscribers if topic not in self._split_topics
        ]
        self._wholes.deal(self._partitions(whole_topics))
        to_divide = self._reserve_for_keepers(self._partitions(self._split_topics))
        members = self._roster.members
        wholes = [self._wholes.hand(i) for i in range(len(members))]
        plan: Assignment = {
            member.id: dict.fromkeys(own, (WHOLE,))
            for member, own in zip(members, wholes, strict=True)
        }
        division = Division(self._roster, self._pieces, to_divide, wholes, by_load=self._by_load)
        for tp, pieces in division.pieces().items():
            by_holder: dict[int, list[Piece]] = {}
            for piece in pieces:
                by_holder.setdefault(piece.holder, []).append(piece)
            for i, mine in by_holder.items():
                plan[members[i].id][tp] = key_ranges(mine)
        return plan

    def _partitions(self, topics: list[str]) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number)
            for topic in topics
            for number in range(self._roster.counts[topic])
        ]

    def _reserve_for_keepers(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Give whole partitions to those that refuse to share; what is left to divide."""
        keepers = sorted(
            {i for topic in self._split_topics for i in self._roster.keepers_by_capacity(topic)},
            key=lambda i: (-self._capacities[i], i),
        )
        if not keepers:
            return partitions
        taken: set[TopicPartition] = set()
        held = self._held(partitions, keepers)
        wishes = {i: self._by_suitability(i, held) for i in keepers}
        quotas = self._quotas(keepers)
        while quotas:
            for i in list(quotas):
                tp = next((wish for wish in wishes[i] if wish not in taken), None)
                if tp is not None:
                    taken.add(tp)
                    self._wholes.give(i, tp)
                quotas[i] -= 1
                if tp is None or quotas[i] <= 0:
                    del quotas[i]
        return [tp for tp in partitions if tp not in taken]

    def _quotas(self, keepers: list[int]) -> dict[int, int]:
        """How many more whole partitions each is to get: its due, rounded, and not nothing."""
        roster = self._roster
        pools = [
            Pool(count * LINE, roster.subscribers[topic]) for topic, count in roster.counts.items()
        ]
        idle = [0] * len(roster.members)
        dues = totals(fair_shares(pools, self._capacities, idle), idle)
        loads = self._wholes.loads()
        quotas = {i: max(1, (2 * dues[i] + LINE) // (2 * LINE)) - loads[i] for i in keepers}
        return {i: quota for i, quota in quotas.items() if quota > 0}

    def _held(self, partitions: list[TopicPartition], keepers: list[int]) -> list[_Held]:
        held = []
        for tp in partitions:
            of_each = _amounts(self._pieces.get(tp, []))
            of_keepers = sum(of_each.get(i, 0) for i in keepers) if of_each else 0
            held.append(_Held(tp, of_each, of_keepers, sum(of_each.values())))
        return held

    def _by_suitability(self, i: int, held: list[_Held]) -> Iterator[TopicPartition]:
        """What a member may take whole: its own first, then what costs others least."""
        topics = set(self._roster.members[i].topics)

        def cost(held: _Held) -> tuple[int, int, int]:
            mine = held.of_each.get(i, 0)
            return -mine, held.of_keepers - mine, held.of_all - mine

        wished = sorted((one for one in held if one.tp.topic in topics), key=cost)
        return (one.tp for one in wished)


def _amounts(pieces: Iterable[Piece]) -> dict[int, int]:
    """How much each holder has of the pieces."""
    amounts: dict[int, int] = {}
    for begin, end, holder in pieces:
        amounts[holder] = amounts.get(holder, 0) + end - begin
    return amounts
