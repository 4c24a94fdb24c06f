"""A model of a group whose keys drift: what it measures, and when it asks for a new plan.

In: a seed, and how often hot keys swap. Out: for each second how uneven the work is, and when the
load asked for a plan. Measuring, reports, the lead's decision and the assignor are the real ones;
only records, members and time are made up. Members follow a plan at once.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from assignors import (
    Assignment,
    KeyRange,
    KeyRangeStickyAssignor,
    Member,
    TopicPartition,
    intersect,
    subtract,
)
from assignors.load import RangesLoad, decode_load, encode_load
from coop_consumer.core.load import TenureLoad
from coop_consumer.core.load_watch import reports_of
from coop_consumer.core.loads import LOOK_MS, REPORT_MS
from coop_consumer.core.rebalancing import Rebalancing
from offsets import HeavyKey, LoadRecord, PartitionLoad

MEMBERS, PARTITIONS, KEYS = 12, 3, 2_000
SKEW = 0.8
OFFERED = 0.8
"""Of what all workers can do."""
COST_PS = 5 * 10**9
_SLICE = 64
"""So many records of each partition are sampled a second, as of a stream that is no quicker."""
_HOT = 10
_RECORDS_A_SECOND = OFFERED * MEMBERS * 10**12 / COST_PS
_TOPIC_ID = bytes(16)


@dataclass
class _Line:
    """One partition: its keys by hash, each with its share of all records."""

    hashes: list[int] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    offset: int = 0
    _sums: list[float] = field(default_factory=list)

    def weigh(self) -> None:
        """The shares have changed."""
        self._sums = [*accumulate(self.shares, initial=0.0)]

    @property
    def pace(self) -> int:
        """Records a second."""
        return round(self._sums[-1] * _RECORDS_A_SECOND)

    def share_of(self, ranges: tuple[KeyRange, ...]) -> float:
        sums, hashes = self._sums, self.hashes
        return sum(
            sums[bisect_left(hashes, r.hi + 1)] - sums[bisect_left(hashes, r.lo)] for r in ranges
        )

    def slice(self, rng: random.Random) -> list[int]:
        return rng.choices(self.hashes, cum_weights=self._sums[1:], k=_SLICE)


@dataclass
class DriftModel:
    """A group of members with one worker each.

    Attributes:
        seed: Of the keys and their drift.
        swap_s: A hot key swaps with another key as often as this; 0: never.
        uneven: For each second what the busiest member has to do, over the mean.
        asked_s: When the load asked for a plan.
    """

    seed: int
    swap_s: int = 0
    uneven: list[float] = field(default_factory=list)
    asked_s: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._lines = {TopicPartition("t", number): _Line() for number in range(PARTITIONS)}
        places = [
            (self._rng.choice(sorted(self._lines)), self._rng.randrange(2**63)) for _ in range(KEYS)
        ]
        total = sum(rank**-SKEW for rank in range(1, KEYS + 1))
        self._share_of = {place: rank**-SKEW / total for rank, place in enumerate(places, start=1)}
        self._ranked = places
        self._spread()
        self._members = [Member(f"M{number:02}", ("t",)) for number in range(MEMBERS)]
        self._assignor = KeyRangeStickyAssignor()
        self._tenures: dict[tuple[str, TopicPartition], list[TenureLoad]] = {}
        self._rebalancing = Rebalancing()
        self._reports: dict[str, LoadRecord] = {}
        self._take(self._plan(self._members), 0)

    def run(self, seconds: int) -> DriftModel:
        """Let so much time pass."""
        for now_s in range(1, seconds + 1):
            now_ms = now_s * 1_000
            if self.swap_s and now_s % self.swap_s == 0:
                self._swap()
            self._sample(now_ms)
            if now_ms % LOOK_MS == 0:
                for tenure in self._all_tenures():
                    tenure.look()
            if now_ms % REPORT_MS == 0:
                self._reports = {it.id: self._report(it.id, now_ms) for it in self._members}
            due = self._rebalancing.is_due(now_ms)
            if due and self._rebalancing.why(reports_of(self._reports), now_ms):
                self.asked_s.append(now_s)
                self._take(self._plan(map(self._joining, self._members)), now_ms)
            self.uneven.append(max(self._loads.values()) * MEMBERS)
        return self

    # -- keys

    def _spread(self) -> None:
        for tp, line in self._lines.items():
            own = sorted((it, share) for (at, it), share in self._share_of.items() if at == tp)
            line.hashes, line.shares = [it for it, _ in own], [share for _, share in own]
            line.weigh()

    def _swap(self) -> None:
        """One of the hottest keys cools down, and another one is as hot from now on."""
        ranked, shares = self._ranked, self._share_of
        hot, cold = self._rng.randrange(_HOT), self._rng.randrange(_HOT, KEYS)
        one, other = ranked[hot], ranked[cold]
        shares[one], shares[other] = shares[other], shares[one]
        ranked[hot], ranked[cold] = other, one
        self._spread()
        self._weigh()

    # -- what members measure, and say

    def _all_tenures(self) -> Iterator[TenureLoad]:
        for tenures in self._tenures.values():
            yield from tenures

    def _sample(self, now_ms: int) -> None:
        for tp, line in self._lines.items():
            hashes, first = sorted(line.slice(self._rng)), line.offset
            line.offset += _SLICE
            for (_, at), tenures in self._tenures.items():
                for tenure in tenures if at == tp else ():
                    taken = [
                        it
                        for r in tenure.ranges
                        for it in hashes[bisect_left(hashes, r.lo) : bisect_right(hashes, r.hi)]
                    ]
                    tenure.sample(tenure.ranges, first, first + _SLICE, taken, now_ms)

    def _report(self, name: str, now_ms: int) -> LoadRecord:
        parts, heavy = [], []
        for tp, line in sorted(self._lines.items()):
            tenures = [it for it in self._tenures.get((name, tp), ()) if it.is_known]
            rate = sum(it.rate for it in tenures)
            parts.append(PartitionLoad(_TOPIC_ID, tp.partition, round(rate * COST_PS), line.pace))
            heavy += [
                HeavyKey(_TOPIC_ID, tp.partition, it, round(1_000 * share / rate), None)
                for tenure in tenures
                for it, share in tenure.heavy
            ]
        busy = min(1_000, round(1_000 * self._loads[name] * MEMBERS * OFFERED))
        heavy.sort(key=lambda it: -it.share)
        return LoadRecord(0, now_ms, 1, busy, COST_PS // 10**6, 0, tuple(parts), tuple(heavy[:4]))

    def _joining(self, member: Member) -> Member:
        """As it joins: with what it holds, and what that costs, as it goes over the wire."""
        owned, loads = {}, {}
        for tp, line in self._lines.items():
            tenures = self._tenures.get((member.id, tp), ())
            owned[tp] = tuple(sorted(r for it in tenures for r in it.ranges))
            said = []
            for it in tenures:
                told = it.told(it.ranges, COST_PS, line.pace)
                read = None if told is None else decode_load(encode_load(told), it.ranges)
                if read is not None:
                    said.append(RangesLoad(it.ranges, read))
            loads[tp] = tuple(said)
        return Member(member.id, member.topics, owned=owned, loads=loads)

    # -- plans

    def _plan(self, members: Iterable[Member]) -> Assignment:
        return self._assignor.assign(partitions={"t": PARTITIONS}, members=list(members))

    def _take(self, plan: Assignment, now_ms: int) -> None:
        """Ranges that stay keep what was measured of them; those that come begin anew."""
        kept: dict[tuple[str, TopicPartition], list[TenureLoad]] = {}
        for name, own in plan.items():
            for tp, ranges in own.items():
                tenures, new = [], tuple(ranges)
                for tenure in self._tenures.get((name, tp), ()):
                    both = tuple(intersect(tenure.ranges, ranges))
                    if both:
                        tenure.fit(both)
                        tenures.append(tenure)
                        new = tuple(subtract(new, both))
                if new:
                    tenures.append(TenureLoad())
                    tenures[-1].fit(new)
                kept[name, tp] = tenures
        self._tenures, self._held = kept, plan
        self._rebalancing.assigned(now_ms)
        self._weigh()

    def _weigh(self) -> None:
        self._loads = {
            name: sum(self._lines[tp].share_of(tuple(ranges)) for tp, ranges in own.items())
            for name, own in self._held.items()
        }
