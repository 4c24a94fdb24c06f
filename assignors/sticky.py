"""Assignment that moves little: the default assignor.

In and out: see `assignors.assignment`. Members keep their ranges if the goals allow it. The goals,
in this order: cover (I1), balance by capacity, least moved, and a partition's ranges on few hosts.
Three pure neighbours do the work: `shares` computes each member's due, `wholes` deals partitions
that stay whole, `lines` divides those that are split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, NamedTuple

from assignors.assignment import ALL_TOPICS_SHARE, Assignment, Roster
from assignors.claims import LINE, Piece, held_pieces, key_ranges
from assignors.key_range import WHOLE
from assignors.lines import Claimant, divide, is_near
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

    >>> members = [Member("M1", topics=("orders",)), Member("M2", topics=("orders",), capacity=3)]
    >>> plan = KeyRangeStickyAssignor().assign(partitions={"orders": 1}, members=members)
    >>> for id_ in plan:
    ...     for tp, ranges in plan[id_].items():
    ...         print(id_, tp, *ranges)
    M1 orders-0 [0, 2305843009213693950]
    M2 orders-0 [2305843009213693951, 9223372036854775807]
    """

    name = "key-range-sticky"

    def __init__(self, split: SplitMode = "auto") -> None:
        if split not in ("auto", "always"):
            raise ValueError(f"split={split!r} is not known: 'auto' or 'always'")
        self.split = split

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
        return _StickyPlan(roster, self._split_topics(roster)).made()

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
    def __init__(self, roster: Roster, split_topics: list[str]) -> None:
        self._roster = roster
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
        plan: Assignment = {
            member.id: dict.fromkeys(self._wholes.hand(i), (WHOLE,))
            for i, member in enumerate(members)
        }
        for tp, pieces in self._divided(to_divide):
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

    def _divided(
        self, partitions: list[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, list[Piece]]]:
        """Divide partitions among those that share; pools are partitions with the same sharers."""
        by_sharers: dict[tuple[int, ...], list[TopicPartition]] = {}
        for tp in partitions:
            by_sharers.setdefault(tuple(self._roster.sharers(tp.topic)), []).append(tp)
        lines_of = {
            sharers: [self._pieces_of(tp, set(sharers)) for tp in in_pool]
            for sharers, in_pool in by_sharers.items()
        }
        claimants = self._claimants(lines_of)
        for (sharers, in_pool), of_pool in zip(by_sharers.items(), claimants, strict=True):
            yield from zip(in_pool, divide(lines_of[sharers], of_pool), strict=True)

    def _pieces_of(self, tp: TopicPartition, sharers: set[int]) -> list[Piece]:
        return [piece for piece in self._pieces.get(tp, []) if piece.holder in sharers]

    def _claimants(
        self, lines_of: Mapping[tuple[int, ...], list[list[Piece]]]
    ) -> list[dict[int, Claimant]]:
        """For each pool, what each of its sharers is due."""
        pools = [Pool(len(lines) * LINE, sharers) for sharers, lines in lines_of.items()]
        held = [_amounts(chain.from_iterable(lines)) for lines in lines_of.values()]
        loads = [load * LINE for load in self._wholes.loads()]
        parts = fair_shares(pools, self._capacities, loads, held)
        fair = totals(parts, loads)
        now = totals(held, loads)
        if len(pools) > 1 and all(
            sum(of_pool.values()) == pool.amount
            and all(is_near(now[i], fair[i]) for i in pool.takers)
            for pool, of_pool in zip(pools, held, strict=True)
        ):
            # Totals could be made of other parts, but these are as good, and cost no move.
            parts = held
        pools_of = Counter(i for pool in pools for i in pool.takers)
        return [
            {
                i: Claimant(of_pool.get(i, 0), fair[i] // pools_of[i], self._roster.members[i].host)
                for i in pool.takers
            }
            for pool, of_pool in zip(pools, parts, strict=True)
        ]


def _amounts(pieces: Iterable[Piece]) -> dict[int, int]:
    """How much each holder has of the pieces."""
    amounts: dict[int, int] = {}
    for begin, end, holder in pieces:
        amounts[holder] = amounts.get(holder, 0) + end - begin
    return amounts
