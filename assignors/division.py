"""Split partitions divided among those that share them: by load where that is known. Pure.

In: the roster, who holds what, the partitions that are split, and what members have besides. Out:
for each partition its pieces, which cover it (I1). `shares` computes each member's due, `scale`
turns hashes into load, `atoms` deals heavy hashes, `lines` divides the rest. Without loads all of
that is counted in hashes. A plan by load that evens out nothing is not made: what members hold
stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from assignors.assignment import Roster
from assignors.atoms import Atom, deal, holder_of, with_owners, without_owners
from assignors.claims import LINE, Piece
from assignors.gathering import gathered, is_scattered
from assignors.lines import Claimant, divide, is_near
from assignors.member import TopicPartition
from assignors.merged_load import LineLoad, MergedLoad, merged_load
from assignors.scale import NOT_WEIGHED, Scale, in_units, scale_of
from assignors.shares import Pool, fair_shares, totals

_ATOM_PERCENT = 20  # of the least due: what is heavier is dealt by itself
_OFF_PERCENT = 2  # of the least due: a border that is off by more cuts a hash
_DIVIDED_MAX = 1_000  # members, over all rounds: no plan takes longer than one of so many
_MEASURED_SLACK = 3  # loads are measured, so a member may be off its due by so much more
_WORTH_PER_MILLE = 50  # of the mean: a plan that evens out less is not made

_Partitions = list[TopicPartition]
_Pieces = Mapping[TopicPartition, list[Piece]]
_Place = tuple[TopicPartition, int]  # of a hash


class Division:
    """Divides split partitions.

    Args:
        roster: The group.
        pieces: Who holds what now.
        partitions: What to divide.
        wholes: For each member the whole partitions that it gets besides.
        by_load: False: all hashes count the same.
    """

    def __init__(
        self,
        roster: Roster,
        pieces: _Pieces,
        partitions: _Partitions,
        wholes: Sequence[Sequence[TopicPartition]],
        *,
        by_load: bool,
    ) -> None:
        self._roster = roster
        self._capacities = [member.capacity for member in roster.members]
        self._pools: dict[tuple[int, ...], _Partitions] = {}  # with the same sharers
        for tp in partitions:
            self._pools.setdefault(tuple(roster.sharers(tp.topic)), []).append(tp)
        self._takers = sorted({i for sharers in self._pools for i in sharers})
        self._held: dict[TopicPartition, list[Piece]] = {}
        for takers, in_pool in self._pools.items():
            sharers = set(takers)
            for tp in in_pool:
                self._held[tp] = [it for it in pieces.get(tp, ()) if it.holder in sharers]
        merged = merged_load(roster) if by_load and partitions else None
        self._is_weighed = merged is not None
        self._lines = _lines(merged, roster) if merged else {}
        self._carried = [sum(map(self._length, of_member)) for of_member in wholes]
        self._dues = self._due_totals() if merged else []

    def pieces(self) -> _Pieces:
        """For each partition its pieces, ascending, without a hole."""
        if not self._is_weighed:
            return self._divided(self._held, dict.fromkeys(self._held, LINE), self._carried)
        scales = {
            tp: scale_of(self._lines[tp]) if tp in self._lines else NOT_WEIGHED for tp in self._held
        }
        made = self._made_by_load(scales)
        return self._held if self._is_as_good(scales, made) else made

    def _length(self, tp: TopicPartition) -> int:
        if not self._is_weighed:
            return LINE
        line = self._lines.get(tp)
        return NOT_WEIGHED.length if line is None else line.total

    def _due_totals(self) -> list[int]:
        """How much load each member is due in all."""
        pools = [
            Pool(sum(map(self._length, in_pool)), takers) for takers, in_pool in self._pools.items()
        ]
        return totals(fair_shares(pools, self._capacities, self._carried), self._carried)

    # ---- heavy hashes --------------------------------------------------------------------------

    def _dealt(self, cut: Collection[_Place]) -> dict[TopicPartition, dict[int, int]]:
        """The owners of hashes that are too heavy to lie where a cut may fall, or would be cut."""
        atoms: list[Atom] = []
        for takers, in_pool in self._pools.items():
            least = min(self._dues[i] for i in takers) * _ATOM_PERCENT
            for tp in in_pool:
                heavy = self._lines[tp].heavy if tp in self._lines else {}
                atoms += (
                    Atom(load, tp, key_hash, holder_of(self._held[tp], key_hash), takers)
                    for key_hash, load in heavy.items()
                    if load * 100 > least or (tp, key_hash) in cut
                )
        return deal(atoms, self._dues, self._carried)

    def _cut(self, rulers: Mapping[TopicPartition, Scale], divided: _Pieces) -> Iterator[_Place]:
        """Hashes in which a border lies, and far from both sides."""
        for takers, in_pool in self._pools.items():
            least = min(self._dues[i] for i in takers) * _OFF_PERCENT
            for tp in in_pool:
                heavy = self._lines[tp].heavy if tp in self._lines else {}
                if not heavy:
                    continue
                for piece in divided[tp]:
                    at = rulers[tp].hash_at(piece.end)
                    off = piece.end - rulers[tp].load_below(at)
                    key_hash = at if off > 0 else at - 1
                    if abs(off) * 100 > least and key_hash in heavy:
                        yield tp, key_hash

    # ---- the rest ------------------------------------------------------------------------------

    def _made_by_load(self, scales: Mapping[TopicPartition, Scale]) -> _Pieces:
        """All but heavy hashes divided, and those put back in; again if some would be cut.

        Of all rounds the most even plan counts: what the last one cuts nobody looks at.
        """
        plans: list[_Pieces] = []
        cut: set[_Place] = set()
        rounds = max(1, _DIVIDED_MAX // len(self._takers))
        while True:
            owners = self._dealt(cut)
            rulers = {
                tp: scale_of(self._lines[tp], owners[tp]) if tp in owners else scales[tp]
                for tp in self._held
            }
            lines: dict[TopicPartition, list[Piece]] = {}
            for in_pool in self._pools.values():
                held = [
                    rulers[tp].to_load(without_owners(self._held[tp], owners.get(tp, {})))
                    for tp in in_pool
                ]
                lines.update(zip(in_pool, gathered(held), strict=True))
            carried = list(self._carried)
            for tp, of_partition in owners.items():
                for key_hash, i in of_partition.items():
                    carried[i] += self._lines[tp].heavy[key_hash]
            divided = self._divided(lines, {tp: it.length for tp, it in rulers.items()}, carried)
            plans.append(
                {
                    tp: with_owners(rulers[tp].to_hashes(pieces), owners.get(tp, {}))
                    for tp, pieces in divided.items()
                }
            )
            known, rounds = len(cut), rounds - 1
            if rounds:
                cut.update(self._cut(rulers, divided))
            if len(cut) == known:
                break
        if len(plans) == 1:
            return plans[0]
        return min(plans, key=lambda plan: self._most(scales, plan))

    def _divided(
        self, held: _Pieces, lengths: Mapping[TopicPartition, int], carried: Sequence[int]
    ) -> dict[TopicPartition, list[Piece]]:
        """Divide lines of these lengths among members that carry so much besides."""
        lines = [[held[tp] for tp in in_pool] for in_pool in self._pools.values()]
        sizes = [[lengths[tp] for tp in in_pool] for in_pool in self._pools.values()]
        claimants = self._claimants(lines, sizes, carried)
        divided: dict[TopicPartition, list[Piece]] = {}
        for in_pool, line, of_pool, size in zip(
            self._pools.values(), lines, claimants, sizes, strict=True
        ):
            divided.update(zip(in_pool, divide(line, of_pool, size), strict=True))
        return divided

    def _claimants(
        self,
        lines: Sequence[list[list[Piece]]],
        sizes: Sequence[list[int]],
        carried: Sequence[int],
    ) -> list[dict[int, Claimant]]:
        """For each pool, what each of its sharers is due."""
        pools = [Pool(sum(long), takers) for takers, long in zip(self._pools, sizes, strict=True)]
        held = [_amounts(chain.from_iterable(of_pool)) for of_pool in lines]
        parts = fair_shares(pools, self._capacities, carried, held)
        fair = totals(parts, carried)
        now = totals(held, carried)
        if len(pools) > 1 and all(
            sum(of_pool.values()) == pool.amount
            and all(is_near(now[i], fair[i]) for i in pool.takers)
            for pool, of_pool in zip(pools, held, strict=True)
        ):
            # Totals could be made of other parts, but these are as good, and cost no move.
            parts = held
        pools_of = Counter(i for pool in pools for i in pool.takers)
        slack = _MEASURED_SLACK if self._is_weighed else 1
        return [
            {
                i: Claimant(
                    of_pool.get(i, 0),
                    fair[i] * slack // pools_of[i],
                    self._roster.members[i].host,
                )
                for i in pool.takers
            }
            for pool, of_pool in zip(pools, parts, strict=True)
        ]

    # ---- is it worth it? -----------------------------------------------------------------------

    def _is_as_good(self, scales: Mapping[TopicPartition, Scale], made: _Pieces) -> bool:
        """Whether all is held, and about as even as the plan would make it.

        Pool by pool: one of many even members, or of much load, would hide what is wrong in others.
        """
        for of_line in self._held.values():
            if sum(piece.end - piece.begin for piece in of_line) < LINE:
                return False
        now, then = self._loads(scales, self._held), self._loads(scales, made)
        for takers, in_pool in self._pools.items():
            held, planned = ([it[tp] for tp in in_pool] for it in (self._held, made))
            if is_scattered(held) and _count(planned) < _count(held):
                return False
            before, after = (_extremes(loads, self._capacities, takers) for loads in (now, then))
            worth = after.mean * _WORTH_PER_MILLE // 1000
            if after.most + worth <= before.most or after.least >= before.least + worth:
                return False
        return True

    def _most(self, scales: Mapping[TopicPartition, Scale], pieces: _Pieces) -> int:
        """What the busiest member of any pool would carry, per mille of its pool's mean."""
        loads = self._loads(scales, pieces)
        each = (_extremes(loads, self._capacities, takers) for takers in self._pools)
        return max(it.most * 1000 // max(1, it.mean) for it in each)

    def _loads(self, scales: Mapping[TopicPartition, Scale], pieces: _Pieces) -> list[int]:
        """What each member would carry."""
        loads = list(self._carried)
        for tp, scale in scales.items():
            for begin, end, i in scale.to_load(pieces[tp]):
                loads[i] += end - begin
        return loads


class _Extremes(NamedTuple):
    """The load of a unit of capacity: of the member that has most, of that with least, the mean."""

    most: int
    least: int
    mean: int


def _extremes(loads: Sequence[int], capacities: Sequence[int], takers: Sequence[int]) -> _Extremes:
    each = [loads[i] // capacities[i] for i in takers]
    mean = sum(loads[i] for i in takers) // sum(capacities[i] for i in takers)
    return _Extremes(max(each), min(each), mean)


def _lines(merged: MergedLoad, roster: Roster) -> dict[TopicPartition, LineLoad]:
    """The loads in units."""
    mean = merged.total, sum(roster.counts.values())
    return {tp: in_units(line, mean) for tp, line in merged.lines.items()}


def _count(lines: Iterable[Sequence[Piece]]) -> int:
    return sum(map(len, lines))


def _amounts(pieces: Iterable[Piece]) -> dict[int, int]:
    """How much each holder has of the pieces."""
    amounts: dict[int, int] = {}
    for begin, end, holder in pieces:
        amounts[holder] = amounts.get(holder, 0) + end - begin
    return amounts
