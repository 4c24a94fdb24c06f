"""Members that weigh what they hold: keys with their loads, claims as those would report them.

In: what keys cost, by partition and hash; a plan. Out: what each member carries, and the members
with the loads of their claims, which have gone over the wire. `Known` is the other way round: the
load as a plan knows it, of what members report.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate

from assignors import Assignment, KeyRange, Member, TopicPartition, intersect
from assignors.assignment import Roster
from assignors.claims import LINE
from assignors.load import (
    BINS,
    HEAVY_MAX,
    ClaimLoad,
    HeavyHash,
    RangesLoad,
    decode_load,
    eighths,
    encode_load,
)
from assignors.merged_load import merged_load
from assignors.scale import NOT_WEIGHED, in_units, scale_of

Keys = Mapping[TopicPartition, Mapping[int, int]]
"""For each partition what each hash costs: picoseconds of work a second."""

_PACE = 1_000


class Loads(ABC):
    """What hashes cost, and so what a plan gives to whom.

    Attributes:
        total: Of all hashes.
    """

    total: int

    @abstractmethod
    def load_of(self, tp: TopicPartition, lo: int, after: int) -> int:
        """What the hashes from `lo` to below `after` cost."""

    def carried(self, plan: Assignment) -> dict[str, int]:
        """What each member carries."""
        return {
            name: sum(
                self.load_of(tp, r.lo, r.hi + 1) for tp, ranges in own.items() for r in ranges
            )
            for name, own in plan.items()
        }

    def moved(self, before: Assignment, after: Assignment) -> int:
        """The load of what has another owner, or had none."""
        return self.total - sum(
            self.load_of(tp, r.lo, r.hi + 1)
            for name, own in after.items()
            for tp, ranges in own.items()
            for r in intersect(ranges, before.get(name, {}).get(tp, ()))
        )


class Known(Loads):
    """The load as a plan knows it: of what members report of their ranges, and of nothing else.

    Args:
        partitions: How many each topic has.
        members: All of them; somebody has to report something.
    """

    def __init__(self, partitions: Mapping[str, int], members: Iterable[Member]) -> None:
        roster = Roster.of(partitions, members, {}, True)
        merged = merged_load(roster)
        assert merged is not None, "nobody reports anything"
        mean = merged.total, sum(partitions.values())
        lines = {tp: in_units(line, mean) for tp, line in merged.lines.items()}
        self._scales = {
            tp: scale_of(lines[tp]) if tp in lines else NOT_WEIGHED
            for topic, count in partitions.items()
            for tp in (TopicPartition(topic, number) for number in range(count))
        }
        self.total = sum(scale.length for scale in self._scales.values())
        self.heavy = {
            (tp, key_hash): load
            for tp, line in lines.items()
            for key_hash, load in line.heavy.items()
        }
        """What no plan can cut, by place."""

    def load_of(self, tp: TopicPartition, lo: int, after: int) -> int:
        """What the hashes from `lo` to below `after` count."""
        scale = self._scales[tp]
        return scale.load_below(min(after, LINE)) - scale.load_below(lo)


class Weighing(Loads):
    """Keys and what they cost.

    Args:
        keys: All of them.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = {tp: sorted(of_line.items()) for tp, of_line in keys.items()}
        self._hashes = {tp: [h for h, _ in of_line] for tp, of_line in self._keys.items()}
        self._sums = {
            tp: [*accumulate((load for _, load in of_line), initial=0)]
            for tp, of_line in self._keys.items()
        }
        self.total = sum(sums[-1] for sums in self._sums.values())
        self.heaviest = max((load for it in self._keys.values() for _, load in it), default=0)

    def loads(self) -> list[int]:
        """What each key costs."""
        return [load for of_line in self._keys.values() for _, load in of_line]

    def places(self) -> list[tuple[TopicPartition, int]]:
        """Where each key lies."""
        return [(tp, key_hash) for tp, hashes in self._hashes.items() for key_hash in hashes]

    def load_of(self, tp: TopicPartition, lo: int, after: int) -> int:
        """What the hashes from `lo` to below `after` cost."""
        hashes, sums = self._hashes[tp], self._sums[tp]
        return sums[bisect_left(hashes, after)] - sums[bisect_left(hashes, lo)]

    def beside(self, tp: TopicPartition, place: int) -> int:
        """The load of the heavier one of the keys on both sides of a border."""
        at = bisect_left(self._hashes[tp], place)
        return max((load for _, load in self._keys[tp][max(0, at - 1) : at + 1]), default=0)

    def claim(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> RangesLoad:
        """What a holder of these ranges reports, as others read it."""
        hashes, keys = self._hashes[tp], self._keys[tp]
        inside = [
            pair
            for r in ranges
            for pair in keys[bisect_left(hashes, r.lo) : bisect_right(hashes, r.hi)]
        ]
        heavy = sorted(inside, key=lambda pair: (-pair[1], pair[0]))[:HEAVY_MAX]
        named = {key_hash for key_hash, _ in heavy}
        bins = [0] * BINS
        for lo, after, bin_ in eighths(ranges):
            bins[bin_] += self.load_of(tp, lo, after) - sum(
                load for key_hash, load in heavy if lo <= key_hash < after
            )
        assert len(named) == len(heavy)
        load = ClaimLoad(
            tuple(it // _PACE for it in bins),
            tuple(HeavyHash(key_hash, it // _PACE) for key_hash, it in heavy),
            _PACE,
        )
        read = decode_load(encode_load(load), ranges)
        assert read is not None
        return RangesLoad(ranges, read)

    def owning(self, members: Iterable[Member], plan: Assignment) -> list[Member]:
        """The members as they join next: with what they hold, and what that costs."""
        found = []
        for member in members:
            own = plan.get(member.id, {})
            loads = {tp: (self.claim(tp, ranges),) for tp, ranges in own.items()}
            found.append(replace(member, owned=own, loads=loads))
        return found
