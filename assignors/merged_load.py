"""One load for each partition, of what its holders report: a liar among them moves little. Pure.

In: the roster, with the loads of claims. Out: for each partition that anybody has weighed, the load
of its parts, which cover it, and of its heavy hashes; in picoseconds of work a second. Three rules
bound what one report can do. The pace is the median of what the holders say. What a member says of
all its ranges counts near to its share by capacity: so far that no other member's due changes by
more than 10 %. A hash counts one worker at most, for it runs on one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from assignors.assignment import Roster
from assignors.claims import LINE, Piece, held_pieces
from assignors.counted import Counted, counted_as, near_to_their_shares
from assignors.load import BINS, RangesLoad, eighths
from assignors.member import TopicPartition

_KNOWN_MIN = 4  # a quarter of a partition has to be weighed
_UNKNOWN = -1  # the load of a part that nobody has weighed, until it gets the mean


LoadPart = tuple[int, int, int]
"""The part [begin, end) of a partition's line, and its load but for heavy hashes."""


class LineLoad(NamedTuple):
    """The load of one partition: parts that cover its line in order, and heavy hashes."""

    parts: list[LoadPart]
    heavy: dict[int, int]

    @property
    def total(self) -> int:
        """The load of all of it."""
        return sum(load for _, _, load in self.parts) + sum(self.heavy.values())


class MergedLoad(NamedTuple):
    """The load of all partitions.

    Attributes:
        lines: Of each partition that anybody has weighed.
        total: Of all partitions; one that nobody has weighed counts as much as the mean.
    """

    lines: dict[TopicPartition, LineLoad]
    total: int


_Weighed = tuple[TopicPartition, int, tuple[RangesLoad, ...]]


def merged_load(roster: Roster) -> MergedLoad | None:
    """The load of all partitions, or None if nobody has weighed any. O(n log n) in ranges."""
    lines = _merged(_weighed(roster), roster)
    return _bounded_by_workers(lines, roster) if lines else None


def load_of_each(roster: Roster) -> dict[TopicPartition, LineLoad]:
    """The load of each partition that anybody has weighed, for plans that divide it by itself.

    So what a member says of one partition is compared to what others say of that one alone.
    """
    lines: dict[TopicPartition, LineLoad] = {}
    for _, of_partition in groupby(_weighed(roster), key=itemgetter(0)):
        lines |= _merged(list(of_partition), roster)
    return lines


class _Said(NamedTuple):
    """What a member says of a partition: the load of parts, and of heavy hashes."""

    tp: TopicPartition
    holder: int
    parts: list[LoadPart]
    heavy: dict[int, int]


def _merged(weighed: list[_Weighed], roster: Roster) -> dict[TopicPartition, LineLoad]:
    """The load of partitions by all that is said of them, sorted; none if that is nothing."""
    capacities = [member.capacity for member in roster.members]
    paces = _paces(weighed)
    reports: list[_Said] = []
    for tp, of_partition in groupby(weighed, key=itemgetter(0)):
        told = list(of_partition)
        held = _held(told, tp, roster)
        for _, i, of_member in told:
            parts: list[LoadPart] = []
            heavy: dict[int, int] = {}
            for one in of_member:
                parts += _parts(one, paces[tp, i], heavy)
            if held is not None:
                parts, heavy = _held_by(i, held, parts, heavy)
            reports.append(_Said(tp, i, parts, heavy))
    counted = _all_counted(reports, capacities)
    if counted is None:
        return {}
    lines: dict[TopicPartition, LineLoad] = {}
    for tp, of_line in groupby(reports, key=itemgetter(0)):
        parts, heavy, capacity = [], {}, 0
        for report in of_line:
            capacity += capacities[report.holder]
            parts += _scaled(report, counted[report.holder], heavy)
        parts.sort()
        lines[tp] = LineLoad(_covering(parts, heavy, capacity), heavy)
    return lines


def _all_counted(reports: Iterable[_Said], capacities: Sequence[int]) -> dict[int, Counted] | None:
    """How what each member says counts; None: all of it is nothing."""
    said: dict[int, int] = {}
    sizes: dict[int, int] = {}
    heavy_of: dict[int, list[int]] = {}
    for _, i, parts, heavy in reports:
        said[i] = said.get(i, 0) + sum(load for _, _, load in parts) + sum(heavy.values())
        sizes[i] = sizes.get(i, 0) + sum(after - begin for begin, after, _ in parts)
        heavy_of.setdefault(i, []).extend(heavy.values())
    if not any(said.values()):
        return None
    near = near_to_their_shares(said, capacities)
    return {i: counted_as(said[i], near[i], heavy_of[i], sizes[i]) for i in said}


def _held(reports: list[_Weighed], tp: TopicPartition, roster: Roster) -> list[Piece] | None:
    """Who holds what of a partition, if several say that of one hash; None: nobody does."""
    ranges = sorted(r for _, _, of_member in reports for one in of_member for r in one.ranges)
    if all(one.hi < other.lo for one, other in pairwise(ranges)):
        return None
    return held_pieces(roster).get(tp, [])


def _held_by(
    i: int, held: list[Piece], parts: list[LoadPart], named: dict[int, int]
) -> tuple[list[LoadPart], dict[int, int]]:
    """What a member says of the hashes that are its own: of others' it says nothing."""
    own = [piece for piece in held if piece.holder == i]
    cut = [
        (first, end, load * (end - first) // (after - begin))
        for begin, after, load in parts
        for piece in own
        for first, end in ((max(begin, piece.begin), min(after, piece.end)),)
        if first < end
    ]
    mine = {h: load for h, load in named.items() if any(it.begin <= h < it.end for it in own)}
    return cut, mine


def _weighed(roster: Roster) -> list[_Weighed]:
    """By partition and member what counts: as with ranges, what is subscribed and exists.

    Of a partition of which little is weighed nobody knows the rest.
    """
    found: list[_Weighed] = []
    sizes: dict[TopicPartition, int] = {}
    for i, member in enumerate(roster.members):
        for tp, of_member in member.loads.items():
            in_use = tp.topic in member.topics and tp.topic in roster.counts
            if in_use and 0 <= tp.partition < roster.counts[tp.topic]:
                size = sum(r.size for one in of_member for r in one.ranges)
                if size:
                    sizes[tp] = sizes.get(tp, 0) + size
                    found.append((tp, i, tuple(one for one in of_member if one.ranges)))
    return sorted(
        (one for one in found if sizes[one[0]] * _KNOWN_MIN >= LINE), key=lambda one: one[:2]
    )


def _paces(weighed: Iterable[_Weighed]) -> dict[tuple[TopicPartition, int], int]:
    """For each partition and holder the pace that counts: the median, if three or more say one.

    Of two nobody knows which is wrong, so each is believed what it says of its own ranges.
    """
    said: dict[TopicPartition, dict[int, int]] = {}
    for tp, i, of_member in weighed:
        said.setdefault(tp, {})[i] = max(one.load.pace for one in of_member)
    paces: dict[tuple[TopicPartition, int], int] = {}
    for tp, by_holder in said.items():
        median = sorted(by_holder.values())[(len(by_holder) - 1) // 2]
        for i, own in by_holder.items():
            paces[tp, i] = median if len(by_holder) > 2 else own
    return paces


def _parts(one: RangesLoad, pace: int, heavy: dict[int, int]) -> list[LoadPart]:
    """The parts of a claim with their loads; what it names goes into `heavy`, load by hash.

    So does what it says of one hash alone: nobody can cut that, whether it has a name or not.
    """
    ranges, load = one
    for key_hash, weight in load.heavy:
        heavy[min(key_hash, LINE - 1)] = weight * pace
    size = sum(r.size for r in ranges)
    lengths = [size * (i + 1) // BINS - size * i // BINS for i in range(BINS)]
    loads = [weight * pace for weight in load.bins]
    parts: list[LoadPart] = []
    for lo, after, bin_ in eighths(ranges):
        of_part = loads[bin_] * (after - lo) // lengths[bin_]
        if after - lo == 1 and of_part:
            at = min(lo, LINE - 1)
            heavy[at] = heavy.get(at, 0) + of_part
            of_part = 0
        parts.append((lo, after, of_part))
    return parts


def _scaled(report: _Said, counted: Counted, heavy: dict[int, int]) -> list[LoadPart]:
    """The parts as they count; heavy hashes go into `heavy`, unless they are there."""
    top, bottom, heavy_max, size = counted
    if not bottom:
        return [
            (begin, after, top * (after - begin) // max(1, size))
            for begin, after, _ in report.parts
        ]
    for key_hash, load in report.heavy.items():
        heavy.setdefault(key_hash, min(load, heavy_max) * top // bottom)
    if top == bottom:
        return report.parts
    return [(begin, after, load * top // bottom) for begin, after, load in report.parts]


def _covering(parts: Iterable[LoadPart], heavy: Mapping[int, int], capacity: int) -> list[LoadPart]:
    """Parts in order, made to cover the line: of an overlap the first counts, of a hole the mean.

    Args:
        parts: Ascending. (The last hash belongs to its neighbour, see `claims`.)
        heavy: Load by hash: of the mean too, but none counts more than one worker.
        capacity: Of those that have weighed the parts.
    """
    covering: list[LoadPart] = []
    at = known = size = 0
    for begin, after, load in parts:
        first, end = max(begin, at), min(after, LINE)
        if first >= end:
            continue
        if at < first:
            covering.append((at, first, _UNKNOWN))
        counted = load if first == begin else load * (end - first) // (after - begin)
        covering.append((first, end, counted))
        known, size, at = known + counted, size + end - first, end
    if at < LINE:
        covering.append((at, LINE, _UNKNOWN))
    if size == LINE:
        return covering
    most = (known + sum(heavy.values())) // capacity
    known += sum(min(load, most) for load in heavy.values())
    return [
        (begin, end, known * (end - begin) // max(1, size) if load == _UNKNOWN else load)
        for begin, end, load in covering
    ]


def bounded(line: LineLoad, workers: int) -> LineLoad:
    """A partition with no hash that counts more than one of so many workers."""
    rest = sum(load for _, _, load in line.parts)
    most = _most_of_one(rest, line.heavy.values(), workers, 1)
    return LineLoad(
        line.parts, {key_hash: min(load, most) for key_hash, load in line.heavy.items()}
    )


def _bounded_by_workers(
    lines: Mapping[TopicPartition, LineLoad], roster: Roster
) -> MergedLoad | None:
    """No hash counts more than one worker is due: it runs on one, and takes no more."""
    rest = sum(load for line in lines.values() for _, _, load in line.parts)
    heavy = [load for line in lines.values() for load in line.heavy.values()]
    partitions = sum(roster.counts.values())
    workers = sum(member.capacity for member in roster.members)
    most = _most_of_one(rest, heavy, workers * len(lines), partitions)
    for line in lines.values():
        for key_hash, load in line.heavy.items():
            line.heavy[key_hash] = min(load, most)
    total = sum(line.total for line in lines.values())
    return MergedLoad(dict(lines), total * partitions // len(lines)) if total else None


def _most_of_one(rest: int, heavy: Iterable[int], workers: int, each: int) -> int:
    """The load of a worker where all have the same, but for those that one hash fills.

    Args:
        rest: What can be divided.
        heavy: What cannot, by hash.
        workers: How many there are.
        each: How many of them a hash fills, and how often all of the load counts. (Partitions that
            nobody has weighed count as the mean of those that are: so all weighs more.)
    """
    largest_first = sorted(heavy, reverse=True)
    divided = rest + sum(largest_first)
    most = divided * each // workers
    for load in largest_first:
        if load <= most or workers <= each:
            break
        divided, workers = divided - load, workers - each
        most = divided * each // workers
    # If there is nothing but few hashes, each is as good as another.
    return most or min((load for load in largest_first if load), default=0)
