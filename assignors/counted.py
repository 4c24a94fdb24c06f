"""How much of what a member says of its load counts: near to its share. Pure; integers.

In: what each member says, in all. Out: how to make it count so much that no other member's due
changes by more than 10 %, if it lies. Nobody can check what a member says; but a plan gives each
one load by its capacity, so that is about what it should find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Counted(NamedTuple):
    """How what a member says counts.

    Attributes:
        top: What it says is multiplied by this,
        bottom: and divided by this; 0: it says nothing, and `top` is spread over its ranges.
        heavy_max: So much of a heavy hash counts at most, before that.
        size: How many hashes its ranges have.
    """

    top: int
    bottom: int
    heavy_max: int
    size: int


def near_to_their_shares(said: Mapping[int, int], capacities: Sequence[int]) -> dict[int, int]:
    """How much of what each member says counts.

    A plan gives each member load by its capacity, so this is what it should find. It may be off by
    an eleventh of what the others are due: a due that rests on 1/11 more or less of the others'
    load is 10 % off.
    """
    if len(said) < 2:
        return dict(said)
    all_of_it = sum(capacities[i] for i in said)
    unit = 11 * all_of_it
    bounds = {
        i: (max(0, 12 * capacities[i] - all_of_it), 10 * capacities[i] + all_of_it) for i in said
    }
    # If most say that they have nothing, no sum but 0 is within: then it is of what is said.
    total = _total_within(said, bounds, unit) or sum(said.values())
    return {
        i: min(max(load, total * bounds[i][0] // unit), total * bounds[i][1] // unit)
        for i, load in said.items()
    }


def _total_within(said: Mapping[int, int], bounds: Mapping[int, tuple[int, int]], unit: int) -> int:
    """The sum of what counts, if each load counts within its bounds of that very sum.

    Rounds that cut to the sum of the round before take the longer, the larger a lie is. So it is
    solved: below some sum a load counts its upper bound, then what it is, then its lower bound.
    Between two such sums the equation is linear. O(n log n).

    Args:
        said: The loads.
        bounds: For each of them the least and the most that it counts, in parts of the sum.
        unit: So many parts are the sum.
    """
    parts = believed = 0  # those that count a bound; the sum of those that count what they are
    steps: list[tuple[int, int, int]] = []  # from which sum on so much is added to both
    for i, load in said.items():
        least, most = bounds[i]
        parts += most if load else least
        if load:
            steps.append((load * unit // most, -most, load))
            if least:
                steps.append((load * unit // least, least, -load))
    steps.sort()
    for at, more_parts, more_load in steps:
        if parts < unit and believed * unit <= at * (unit - parts):
            break
        parts += more_parts
        believed += more_load
    return believed * unit // (unit - parts) if parts < unit else 0


def counted_as(said: int, counts: int, heavy: list[int], size: int) -> Counted:
    """How to make what a member says count so much.

    If it is to count less, that is taken from its heaviest hashes first: a hash runs on one worker,
    so what it has above that may be much, and is nothing that others could do.
    """
    if not said:
        return Counted(counts, 0, 0, size)
    if counts == said:
        return Counted(1, 1, said, size)
    if counts > said:
        return Counted(counts, said, said, size)
    ascending, heavy_max = sorted(heavy), 0
    left = sum(ascending) - (said - counts)  # of the heavy ones
    if left <= 0:
        return Counted(counts, max(1, said - sum(ascending)), 0, size)
    for i, load in enumerate(ascending):
        heavy_max = left // (len(ascending) - i)
        if load > heavy_max:
            break
        left -= load
    return Counted(1, 1, heavy_max, size)
