"""The contract: what all members of a group must agree on, as one line of text. Pure.

In: two contracts. Out: how far they agree. Members whose contracts mean the same by a key hash can
wait for each other, though they keep their progress in different topics: while a lost progress
topic is replaced, some members know the new one already and others do not; and while a group
changes its guarantee, its members have two logs.
"""

from __future__ import annotations

PROGRESS = "progress="
"""What the part begins with that names the progress topic's id and its number of partitions."""
GUARANTEE = ("guarantee=", "ids=")
"""What the parts begin with that name the guarantee, and the prefix of transactional ids."""


def mean_the_same(one: str, other: str) -> bool:
    """Whether two contracts differ in their progress topic and guarantee at most.

    >>> mean_the_same("hash=mmh3,progress=ab/50,format=1", "hash=mmh3,progress=cd/50,format=1")
    True
    >>> mean_the_same("hash=mmh3,progress=ab/50,format=1", "hash=crc,progress=ab/50,format=1")
    False
    """
    return _but_for((PROGRESS, *GUARANTEE), one) == _but_for((PROGRESS, *GUARANTEE), other)


def guarantee_the_same(one: str, other: str) -> bool:
    """Whether two contracts differ in their progress topic at most.

    >>> guarantee_the_same("guarantee=at-least-once,progress=a/8", "guarantee=at-least-once")
    True
    >>> guarantee_the_same("guarantee=at-least-once", "guarantee=exactly-once,ids=coop-")
    False
    """
    return _but_for((PROGRESS,), one) == _but_for((PROGRESS,), other)


def _but_for(beginnings: tuple[str, ...], contract: str) -> list[str]:
    return [part for part in contract.split(",") if not part.startswith(beginnings)]
