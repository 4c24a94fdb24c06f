"""What is done in a tenure that a user has moved by `seek`. Pure; one thread.

In: the tenure's facts at that moment, the offset sought, later facts of others. Out: what the
tenure may tell the log. After a seek its tracker begins anew as though everything below the offset
were done and nothing above it, because that is what to hand out. Neither is a fact: what was
skipped below is not done, and what was done above stays done while it is handed out again. So the
tracker vouches for what lies at or above the offset only, and the facts of before are added.
Upholds I2 (a skipped record is not done) and I3 (no fact is withdrawn).
"""

from __future__ import annotations

from collections.abc import Iterable

from assignors import KeyRange
from offsets import OffsetRange, PartitionProgress, RangeProgress, melted, range_progress


def clipped(
    facts: Iterable[RangeProgress], ranges: Iterable[KeyRange]
) -> tuple[RangeProgress, ...]:
    """The facts, for these ranges alone. O(pieces)."""
    progress = PartitionProgress()
    for fact in facts:
        progress.merge(fact)
    return tuple(piece for key_range in ranges for piece in progress.clip(key_range))


class Sought:
    """Turns the facts of a tracker after a seek into true ones.

    Args:
        offset: Where the tracker began anew.
        facts: What was done then; their ranges contain all ranges that the tracker speaks of.

    >>> skipping = Sought(50, [RangeProgress(KeyRange(0, 9), stable=41)])
    >>> [str(fact) for fact in skipping.true([RangeProgress(KeyRange(0, 9), stable=60)])]
    ['[0, 9] stable 41 gaps [50-59]']
    """

    __slots__ = ("_known", "_offset")

    def __init__(self, offset: int, facts: Iterable[RangeProgress]) -> None:
        self._offset = offset
        self._known = PartitionProgress()
        self.learn(facts)

    def learn(self, facts: Iterable[RangeProgress]) -> None:
        """Add facts that do not come from the tracker."""
        for fact in facts:
            self._known.merge(fact)

    def true(self, told: Iterable[RangeProgress]) -> tuple[RangeProgress, ...]:
        """The true facts. O(pieces + gap ranges)."""
        told = tuple(told)
        progress = self._known.copy()
        for fact in told:
            seen = (
                [OffsetRange(self._offset, fact.stable - 1)] if fact.stable > self._offset else []
            )
            progress.merge(range_progress(fact.range, 0, [*seen, *fact.gaps]))
        return melted(piece for fact in told for piece in progress.clip(fact.range))
