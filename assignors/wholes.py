"""Sticky assignment of whole partitions, balanced by capacity. Pure.

In: partitions, their subscribers, and how much each member holds of each partition now. Out: for
each partition its new owner. The result is balanced: if any partition moved, directly or by a chain
of moves, the taker would have at least as much load per unit of capacity as the giver had before.
Partitions move only to reach this balance, so nearly as few as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple

from assignors.member import TopicPartition

Holdings = Mapping[TopicPartition, Mapping[int, int]]
"""For each partition, how much of it members hold now."""


class _Move(NamedTuple):
    giver: int
    topic: str
    taker: int


class Wholes:
    """Whole partitions in the hands of members, while they are dealt and levelled.

    Args:
        capacities: Each member's weight.
        subscribers: For each topic its members, ascending.
        holdings: What members hold now.
    """

    def __init__(
        self,
        capacities: Sequence[int],
        subscribers: Mapping[str, Sequence[int]],
        holdings: Holdings,
    ) -> None:
        self._capacities = capacities
        self._subscribers = subscribers
        self._holdings = holdings
        self._loads = [0] * len(capacities)
        # Of each topic, a member's partitions; those it held most of before come first, so that
        # the last one is the cheapest to move.
        self._hands: list[dict[str, list[TopicPartition]]] = [{} for _ in capacities]

    def loads(self) -> list[int]:
        """How many partitions each member has."""
        return list(self._loads)

    def hand(self, i: int) -> list[TopicPartition]:
        """The partitions of a member."""
        return [tp for of_topic in self._hands[i].values() for tp in of_topic]

    def give(self, i: int, tp: TopicPartition) -> None:
        """Give a partition to a member."""
        self._hands[i].setdefault(tp.topic, []).append(tp)
        self._loads[i] += 1

    def deal(self, partitions: Iterable[TopicPartition]) -> None:
        """Give each partition to who holds most of it now, then level.

        O(P log M) from fresh or in balance; each partition that must move costs O(M log M).
        """
        kept: list[tuple[int, int, TopicPartition, int]] = []
        unheld: list[TopicPartition] = []
        for tp in partitions:
            now = self._holdings.get(tp)
            if now:
                amount, i = max((amount, -i) for i, amount in now.items())
                kept.append((-amount, tp.partition, tp, -i))
            else:
                unheld.append(tp)
        for _, _, tp, i in sorted(kept):
            self.give(i, tp)
        self._deal_to_the_least_loaded(unheld)
        while path := self._way_to_level():
            for move in path:
                self._give(move)

    def _weight_with_one_more(self, i: int) -> tuple[float, int]:
        return (self._loads[i] + 1) / self._capacities[i], i

    def _deal_to_the_least_loaded(self, unheld: list[TopicPartition]) -> None:
        # Topics with few subscribers have less choice, so they come first.
        heaps: dict[str, list[tuple[float, int]]] = {}
        for tp in sorted(
            unheld, key=lambda tp: (len(self._subscribers[tp.topic]), tp.topic, tp.partition)
        ):
            if tp.topic not in heaps:
                heaps[tp.topic] = [
                    self._weight_with_one_more(i) for i in self._subscribers[tp.topic]
                ]
                heapify(heaps[tp.topic])
            heap = heaps[tp.topic]
            # Loads only grow here, so an outdated entry is too low: correct it, look again.
            while heap[0] != (current := self._weight_with_one_more(heap[0][1])):
                heapreplace(heap, current)
            self.give(heap[0][1], tp)

    def _way_to_level(self) -> list[_Move]:
        """The shortest chain of moves away from the most loaded member that can be relieved."""
        everyone = range(len(self._loads))
        lowest = min((self._weight_with_one_more(i)[0] for i in everyone), default=0.0)
        by_weight = sorted(
            (-load / capacity, i)
            for i, (load, capacity) in enumerate(zip(self._loads, self._capacities, strict=True))
        )
        # A topic that was no way down for a heavier member is none for a lighter one.
        dead_ends: set[str] = set()
        for minus_weight, i in by_weight:
            if -minus_weight <= lowest:
                break
            if path := self._chain(i, -minus_weight, dead_ends):
                return path
        return []

    def _chain(self, heavy: int, weight: float, seen_topics: set[str]) -> list[_Move]:
        reached_by: dict[int, _Move | None] = {heavy: None}
        queue = [heavy]
        for giver in queue:
            for topic, hand in sorted(self._hands[giver].items()):
                if not hand or topic in seen_topics:
                    continue
                seen_topics.add(topic)
                takers = [i for i in self._subscribers[topic] if i not in reached_by]
                for taker in takers:
                    reached_by[taker] = _Move(giver, topic, taker)
                best, light = min(map(self._weight_with_one_more, takers), default=(weight, -1))
                if best < weight:
                    return _backwards(reached_by, light)
                queue.extend(takers)
        return []

    def _give(self, move: _Move) -> None:
        tp = self._hands[move.giver][move.topic].pop()
        self._loads[move.giver] -= 1
        self.give(move.taker, tp)


def _backwards(reached_by: Mapping[int, _Move | None], last: int) -> list[_Move]:
    """The moves that lead to a member, the last one first: it frees no hand that is empty."""
    path: list[_Move] = []
    move = reached_by[last]
    while move is not None:
        path.append(move)
        move = reached_by[move.giver]
    return path
