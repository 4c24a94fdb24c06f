"""The wait lists of a new assignment: who must release ranges before who begins. Pure.

In: the assignment, and every member's claims as it reported them when it joined. Out: for each
member the claims of others over its new ranges. If a claim were left out, two members would handle
one key at a time. So a draining claim counts like an active one (I4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assignors.assignment import Assignment
from assignors.key_range import KeyRange, union
from assignors.member import TopicPartition
from assignors.user_data import Claim, Wait


class _Share(NamedTuple):
    """A range of one partition and the member it is assigned to."""

    lo: int
    hi: int
    member: str


def wait_lists(
    assignment: Assignment,
    claims: Mapping[str, Sequence[Claim]],
    incarnations: Mapping[str, int],
) -> dict[str, tuple[Wait, ...]]:
    """For each member: each other member's tenure that overlaps what it got, and where.

    O(n log n) in the ranges assigned and claimed, and in the overlaps found.

    Args:
        assignment: Who gets what: disjoint ranges (I1).
        claims: For each member name, the tenures it is active in or drains.
        incarnations: For each of these names, its incarnation.

    Returns:
        For each member of the assignment its waits, in the order of names and tenure numbers; empty
        where it waits for nobody.
    """
    shares = _by_partition(assignment)
    waits: dict[str, list[Wait]] = {member: [] for member in assignment}
    for name in sorted(claims):
        for claim in sorted(claims[name], key=lambda claim: (claim.number, claim.partition)):
            overlaps = _overlaps(claim, shares.get(claim.partition, []))
            for member, ranges in overlaps.items():
                if member != name:
                    waits[member].append(
                        Wait(name, incarnations[name], claim.number, claim.partition, ranges)
                    )
    return {member: tuple(of_member) for member, of_member in waits.items()}


def _by_partition(assignment: Assignment) -> dict[TopicPartition, list[_Share]]:
    shares: dict[TopicPartition, list[_Share]] = {}
    for member, by_partition in assignment.items():
        for tp, ranges in by_partition.items():
            shares.setdefault(tp, []).extend(_Share(r.lo, r.hi, member) for r in ranges)
    for of_partition in shares.values():
        of_partition.sort()
    return shares


def _overlaps(claim: Claim, shares: list[_Share]) -> dict[str, tuple[KeyRange, ...]]:
    """What of a claim is assigned to whom; shares are disjoint and ascend."""
    found: dict[str, list[KeyRange]] = {}
    for claimed in claim.ranges:
        at = bisect_left(shares, claimed.lo, key=lambda share: share.hi)
        while at < len(shares) and shares[at].lo <= claimed.hi:
            lo, hi, member = shares[at]
            overlap = KeyRange(max(lo, claimed.lo), min(hi, claimed.hi))
            found.setdefault(member, []).append(overlap)
            at += 1
    return {member: union(ranges) for member, ranges in found.items()}
