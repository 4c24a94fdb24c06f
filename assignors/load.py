"""What the records of a claim cost, as the claim's holder has measured it. Pure values.

In: what members measure. Out: loads that go along with claims, and by which a plan cuts ranges.
Weights are picoseconds of handler time for each offset of the partition, so a member that is
saturated, or whose fetch is held, does not look light. A weight times the pace is the work of a
second.
"""

from __future__ import annotations

from typing import NamedTuple


class HeavyHash(NamedTuple):
    """One hash that takes much.

    Attributes:
        key_hash: The key's hash, 0 to `KEY_HASH_MAX`.
        weight: Picoseconds of handler time for each offset of the partition.
    """

    key_hash: int
    weight: int


class ClaimLoad(NamedTuple):
    """What a claim's records cost, measured by its holder.

    Attributes:
        bins: 8 integers: the weight of the claim's i-th eighth. The claim's ranges, laid end to
            end, are cut into 8 equal parts. Heavy hashes are not in the bins.
        heavy: At most 4, the heaviest first, inside the claim's ranges.
        pace: How many offsets a second the partition has to do: its arrivals a second, and what is
            left / 60 s. All holders of a partition measure it alike, as of the whole partition.
    """

    bins: tuple[int, ...]
    heavy: tuple[HeavyHash, ...]
    pace: int
