"""What a member on a table claims, and what others wait for because of it; two keys to claim."""

from __future__ import annotations

from assignors import Claim, KeyRange, Wait, decode_subscription, key_hash
from tests.unit.core_member import HIGH, T0, TableMember, keys_in

A, B = keys_in(HIGH, 2)
AT_A = KeyRange(key_hash(A), key_hash(A))


def claims(member: TableMember) -> list[Claim]:
    """What the member would claim in a JoinGroup now."""
    return list(decode_subscription(member.core.subscription()).claims)


def wait_for(claim: Claim, *ranges: KeyRange, member: str = "m1", incarnation: int = 1) -> Wait:
    return Wait(member, incarnation, claim.number, T0, ranges or claim.ranges)
