"""Load: what the records of a tenure cost, by hash. Pure; one thread.

In: now and then a slice of the tenure's stream: how many offsets it covers, and the hashes of the
records that the tenure took in of it. Out: a `ClaimLoad` for the group's leader, and the heaviest
hashes. Load is counted in records for each offset of the partition, never for each second. So a
member that is saturated, or whose fetch is held, does not look light. What was seen counts half
after a minute; a time without samples changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat

from assignors import WHOLE, ClaimLoad, HeavyHash, KeyRange, intersect
from assignors.load import BINS, HEAVY_MAX, eighths

HALF_LIFE_MS = 60_000

_SLICES = 16
"""One slice in so many is looked at, on average."""
_SAMPLE_MS = 1_000
"""A slice that comes so long after the last sample is looked at, too: few records come then."""

_REST_MAX = 10.0
"""A rest of more half-lives counts as so many: else nothing would be left of what was before."""
_AGE_MAX = 40.0
"""After so many half-lives the weights are written anew, as they would outgrow a float."""

_STEPS = 4
"""Weights grow in steps of so many a half-life, so that a batch of samples has one weight."""
_BATCH = 256
"""So many sampled hashes are counted at once, or fewer of one weight."""
_KEPT, _ROOM = 64, 256
_HEAVY_SHARE, _HEAVY_RECORDS = 1 / 64, 8.0
"""A hash is heavy if it has this share of the tenure's records, and as many were sampled of it."""
_OFFSETS_MIN = 64
"""From so many sampled offsets on the load is known."""


@dataclass(slots=True)
class Sampler:
    """Says which slices of a stream are looked at: one in 16 on average, one a second at least."""

    _left: int = 0
    _number: int = 1
    _due_ms: int = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether the slice that comes now is looked at."""
        if self._left and now_ms < self._due_ms:
            self._left -= 1
            return False
        # The distances differ without a pattern, because keys may come in turn.
        self._number = self._number * 1_103_515_245 + 12_345 & 0x7FFF_FFFF
        self._left = (self._number >> 16) % (2 * _SLICES - 1)
        self._due_ms = now_ms + _SAMPLE_MS
        return True


class HeaviestHashes:
    """A space-saving sketch in batches: which hashes weigh most of all that was added.

    A batch is counted at once. A hash that comes once in it, and is not kept, is dropped. So no
    hash weighs less than is noted. A heavy one lacks little: what came of it before it came twice
    in a batch. Some 5 ns a record of the stream, and some kilobytes.
    """

    __slots__ = ("_batch", "_batch_weight", "_weights")

    def __init__(self) -> None:
        self._weights: dict[int, float] = {}
        self._batch: list[int] = []
        self._batch_weight = 1.0

    def add(self, hashes: Sequence[int], weight: float) -> None:
        """Add hashes of this weight each."""
        if weight != self._batch_weight:
            self._count_batch()
            self._batch_weight = weight
        self._batch += hashes
        if len(self._batch) >= _BATCH:
            self._count_batch()

    def _count_batch(self) -> None:
        weights, weight = self._weights, self._batch_weight
        for key_hash, times in Counter(self._batch).items():
            if times > 1 or key_hash in weights:
                weights[key_hash] = weights.get(key_hash, 0.0) + times * weight
        self._batch.clear()
        if len(weights) > _ROOM:
            least = sorted(weights.values())[-_KEPT - 1]
            self._weights = {it: known for it, known in weights.items() if known > least}

    def scale(self, factor: float) -> None:
        """Multiply all weights."""
        self._batch_weight *= factor
        self._weights = {it: weight * factor for it, weight in self._weights.items()}

    def clip(self, ranges: tuple[KeyRange, ...]) -> None:
        """Forget hashes outside of these ranges."""
        self._batch[:] = [it for it in self._batch if any(it in r for r in ranges)]
        self._weights = {
            it: weight for it, weight in self._weights.items() if any(it in r for r in ranges)
        }

    def at_least(self, least: float = 0.0) -> list[tuple[int, float]]:
        """The hashes that surely weigh so much, each with what it surely weighs; heaviest first."""
        found = dict(self._weights)
        for key_hash, times in Counter(self._batch).items():
            found[key_hash] = found.get(key_hash, 0.0) + times * self._batch_weight
        heavy = [(it, weight) for it, weight in found.items() if weight >= least]
        return sorted(heavy, key=lambda one: (-one[1], one[0]))


def _parts(ranges: tuple[KeyRange, ...]) -> list[tuple[KeyRange, ...]]:
    """The ranges of each eighth; of fewer than 8 hashes some are empty, and never the last one."""
    parts: list[list[KeyRange]] = [[] for _ in range(BINS)]
    for lo, after, bin_ in eighths(ranges):
        parts[bin_].append(KeyRange(lo, after - 1))
    return list(map(tuple, parts))


def cuts_of(ranges: tuple[KeyRange, ...]) -> list[int]:
    """The hashes at which the 2nd to 8th eighth begin: an empty one where the next one does.

    >>> cuts_of((KeyRange(0, 7), KeyRange(100, 107)))
    [2, 4, 6, 100, 102, 104, 106]
    """
    cuts: list[int] = []
    for part in reversed(_parts(ranges)[1:]):
        cuts.append(part[0].lo if part else cuts[-1])
    return cuts[::-1]


def _size(ranges: tuple[KeyRange, ...]) -> int:
    return sum(r.size for r in ranges)


@dataclass(slots=True, eq=False)
class TenureLoad:
    """How the records of one tenure are spread over its hashes.

    Attributes:
        ranges: What the tenure held at the last sample.
        heavy: Its heavy hashes as of the last `look`, the heaviest first, each with its records for
            an offset.
        keys: The keys of those, as far as they are known.
        busy_until_ms: Those that keep one worker busy all the time: up to when that is known.
        last: The slice that was sampled last: its first offset, its end, and the tenure's records.
    """

    ranges: tuple[KeyRange, ...] = (WHOLE,)
    heavy: tuple[tuple[int, float], ...] = ()
    keys: dict[int, bytes | None] = field(default_factory=dict)
    busy_until_ms: dict[int, int] = field(default_factory=dict)
    last: tuple[int, int, int] = (0, 0, 0)
    _offsets: float = 0.0
    _records: float = 0.0
    _bins: list[float] = field(default_factory=lambda: [0.0] * BINS)
    _cuts: list[int] = field(default_factory=lambda: cuts_of((WHOLE,)))
    _sketch: HeaviestHashes = field(default_factory=HeaviestHashes)
    _age: float = 0.0
    _at_ms: int = -1
    _seen: int = 0  # sampled offsets, none of them forgotten
    _looked: int = 0  # how many they were at the last look

    def sample(
        self, ranges: tuple[KeyRange, ...], first: int, end: int, hashes: Sequence[int], now_ms: int
    ) -> None:
        """Count a slice of the stream. O(records of it).

        Args:
            ranges: What the tenure holds.
            first: The first offset that it had not seen before.
            end: The offset behind the slice.
            hashes: Of the records in between that the tenure took in, to be run.
            now_ms: The time.
        """
        self.fit(ranges)
        weight = self._weight(now_ms)
        self.last = first, end, len(hashes)
        self._seen += end - first
        self._offsets += (end - first) * weight
        self._records += len(hashes) * weight
        bins = self._bins
        for number, count in Counter(map(bisect_right, repeat(self._cuts), hashes)).items():
            bins[number] += count * weight
        self._sketch.add(hashes, weight)

    def _weight(self, now_ms: int) -> float:
        """What a record counts now. What is older counts less, as this grows."""
        if self._at_ms >= 0:
            self._age += min(max(now_ms - self._at_ms, 0) / HALF_LIFE_MS, _REST_MAX)
        self._at_ms = now_ms
        if self._age > _AGE_MAX:
            factor, self._age = 1 / self._one, 0.0
            self._offsets *= factor
            self._records *= factor
            self._bins = [it * factor for it in self._bins]
            self._sketch.scale(factor)
        return self._one

    @property
    def _one(self) -> float:
        return float(2 ** (int(self._age * _STEPS) / _STEPS))

    def fit(self, ranges: tuple[KeyRange, ...]) -> None:
        """The tenure holds this now: of what it gave up since nothing is known any more."""
        if ranges == self.ranges or not ranges:
            return
        for key_hash, records in self._sketch.at_least():
            self._bins[bisect_right(self._cuts, key_hash)] -= records
        self._sketch.clip(ranges)
        cuts = cuts_of(ranges)
        before, after = _parts(self.ranges), _parts(ranges)
        bins = [
            sum(
                max(0.0, records) * _size(intersect(old, new)) / _size(old)
                for old, records in zip(before, self._bins, strict=True)
                if old
            )
            for new in after
        ]
        self.ranges, self._cuts, self._bins = ranges, cuts, bins
        self.last = 0, 0, 0  # what that says is of the ranges before
        for key_hash, records in self._sketch.at_least():
            bins[bisect_right(cuts, key_hash)] += records
        self._records = sum(bins)
        self._looked = -1
        self.look()

    # ---- what is told --------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether enough was sampled."""
        return self._seen >= _OFFSETS_MIN

    @property
    def rate(self) -> float:
        """Records for each offset of the partition, at most 1."""
        return self._records / self._offsets if self._offsets else 0.0

    def look(self) -> None:
        """Note anew which hashes are heavy. O(hashes kept), if anything was sampled since."""
        if self._looked == self._seen:
            return
        self._looked = self._seen
        least = max(self._records * _HEAVY_SHARE, _HEAVY_RECORDS * self._one)
        found = self._sketch.at_least(least)[:HEAVY_MAX] if self.is_known else []
        self.heavy = tuple((it, records / self._offsets) for it, records in found)
        self.keys = {it: self.keys[it] for it, _ in found if it in self.keys}
        self.busy_until_ms = {
            it: self.busy_until_ms[it] for it, _ in found if it in self.busy_until_ms
        }

    def nameless(self) -> set[int]:
        """Heavy hashes whose keys are not known."""
        return {it for it, _ in self.heavy if it not in self.keys}

    def told(self, ranges: tuple[KeyRange, ...], cost_ps: int, pace: int) -> ClaimLoad | None:
        """What a claim says of it; None: not known.

        Args:
            ranges: What the tenure holds now.
            cost_ps: What the handler of a record takes on average; 0: not known.
            pace: Of the partition, see `ClaimLoad`.
        """
        if not (self.is_known and cost_ps and ranges):
            return None
        self.fit(ranges)
        self.look()
        each = cost_ps / self._offsets
        bins = list(self._bins)
        heavy = []
        for key_hash, rate in self.heavy:
            bins[bisect_right(self._cuts, key_hash)] -= rate * self._offsets
            heavy.append(HeavyHash(key_hash, round(rate * cost_ps)))
        told = tuple(max(0, round(it * each)) for it in bins)
        heavy.sort(key=lambda it: (-it.weight, it.key_hash))
        return ClaimLoad(told, tuple(heavy), pace)

    def check(self) -> None:
        """Assert that no record is counted twice, nor more records than offsets."""
        counted, slack = sum(self._bins), 1e-6 * max(self._offsets, 1.0)
        assert abs(counted - self._records) <= slack, f"load: {counted} of {self._records} records"
        assert self._records <= self._offsets + slack, (
            f"load: {self._records} records at {self._offsets} offsets"
        )
        first, end, count = self.last
        assert count <= end - first, f"load: {count} records in offsets {first} to {end}"
