"""How much is each member's due: a division of pools that is fair by capacity. Pure arithmetic.

In: pools (amounts, each with the members that may take from it), capacities, and the loads members
carry already. Out: how much each member takes from each pool. Fair means: nobody could have more
load per unit of capacity without taking it from someone who has no more than that. Integers all
through, so the amounts add up exactly and the answer is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

_SWEEPS_MAX = 200
_CLOSE_ENOUGH = 2_000  # a sweep that moves less than 1/2000 of the mean share settles nothing more


@dataclass(frozen=True, slots=True)
class Pool:
    """Something to divide.

    Args:
        amount: How much of it there is.
        takers: Who may take from it: member indices, ascending, not empty.
    """

    amount: int
    takers: tuple[int, ...]


def water_fill(amount: int, loads: Sequence[int], capacities: Sequence[int]) -> list[int]:
    """Pour an amount onto loads so that load per capacity rises evenly from the lowest.

    The parts add up to the amount exactly. Without loads the i-th part ends at
    `amount * (sum of the capacities up to i) // (sum of all)`. O(n log n).

    >>> water_fill(10, loads=[0, 0, 7], capacities=[1, 1, 1])
    [5, 5, 0]
    >>> water_fill(10, loads=[0, 0, 4], capacities=[1, 2, 1])
    [3, 7, 0]
    """
    wet = _below_level(amount, loads, capacities)
    capacity = sum(capacities[i] for i in wet)
    volume = amount + sum(loads[i] for i in wet)
    ends = [volume * upto // capacity for upto in accumulate(capacities[i] for i in wet)]
    parts = [0] * len(loads)
    for i, begin, end in zip(wet, [0, *ends], ends, strict=False):
        parts[i] = end - begin - loads[i]
    # A load within one unit of the level may come out at -1: the fullest part makes up for it.
    short = sum(part for part in parts if part < 0)
    if short:
        parts = [max(part, 0) for part in parts]
        parts[parts.index(max(parts))] += short
    return parts


def _below_level(amount: int, loads: Sequence[int], capacities: Sequence[int]) -> list[int]:
    """The indices of those that end below the water level, ascending."""
    volume, capacity = amount, 0
    wet: list[int] = []
    for i in sorted(range(len(loads)), key=lambda i: (loads[i] // capacities[i], i)):
        if capacity and volume * capacities[i] <= loads[i] * capacity:
            break
        wet.append(i)
        volume += loads[i]
        capacity += capacities[i]
    return sorted(wet)


def fair_shares(
    pools: Sequence[Pool],
    capacities: Sequence[int],
    loads: Sequence[int],
    held: Sequence[Mapping[int, int]] = (),
) -> list[dict[int, int]]:
    """Divide all pools fairly; the answer has, for each pool, each taker's part.

    Divide one pool after the other, on top of each member's parts of the other pools, until nothing
    moves any more: one sweep for one pool, a few sweeps if pools share members. The total of each
    member is unique. Its parts of the pools are not; they stay near to what is held.

    Args:
        pools: What to divide.
        capacities: Each member's weight, at least 1.
        loads: What each member carries besides.
        held: For each pool what members have of it now.
    """
    parts = [dict(of_pool) for of_pool in held] or [{} for _ in pools]
    sums = totals(parts, loads)
    for _ in range(_SWEEPS_MAX):
        moved = [
            _divide_again(pool, of_pool, capacities, sums)
            for pool, of_pool in zip(pools, parts, strict=True)
        ]
        if len(pools) <= 1 or not any(moved):
            break
    return parts


def totals(parts: Iterable[Mapping[int, int]], loads: Sequence[int]) -> list[int]:
    """What each member has in all: its load, and its parts of the pools."""
    sums = list(loads)
    for of_pool in parts:
        for i, part in of_pool.items():
            sums[i] += part
    return sums


def _divide_again(
    pool: Pool, parts: dict[int, int], capacities: Sequence[int], sums: list[int]
) -> bool:
    """Divide one pool, updating its parts and the sums; whether anything worth it moved."""
    before = [parts.get(i, 0) for i in pool.takers]
    others = [sums[i] - part for i, part in zip(pool.takers, before, strict=True)]
    after = water_fill(pool.amount, others, [capacities[i] for i in pool.takers])
    for i, other, part in zip(pool.takers, others, after, strict=True):
        parts[i] = part
        sums[i] = other + part
    most = max(abs(a - b) for a, b in zip(after, before, strict=True))
    return most * len(pool.takers) * _CLOSE_ENOUGH > pool.amount
