"""The contract: what all members of a group must agree on, as one line of text. Pure.

In: two contracts. Out: whether they mean the same by a key hash, so that their members can wait for
each other, though they keep their progress in different topics: while a lost progress topic is
replaced, some members know the new one already and others do not.
"""

from __future__ import annotations

PROGRESS = "progress="
"""What the part begins with that names the progress topic's id and its number of partitions."""


def mean_the_same(one: str, other: str) -> bool:
    """Whether two contracts differ in their progress topic at most.

    >>> mean_the_same("hash=mmh3,progress=ab/50,format=1", "hash=mmh3,progress=cd/50,format=1")
    True
    >>> mean_the_same("hash=mmh3,progress=ab/50,format=1", "hash=crc,progress=ab/50,format=1")
    False
    """
    return _but_for_progress(one) == _but_for_progress(other)


def _but_for_progress(contract: str) -> list[str]:
    return [part for part in contract.split(",") if not part.startswith(PROGRESS)]
