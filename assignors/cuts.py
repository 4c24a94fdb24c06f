"""A partition cut into equal parts for assignors that keep no memory: equal by load. Pure.

In: the roster, how many parts. Out: consecutive ranges. Where nobody has weighed a partition, they
are as the KIP prints them.
"""

from __future__ import annotations

from assignors.assignment import Roster
from assignors.key_range import WHOLE, KeyRange
from assignors.member import TopicPartition
from assignors.merged_load import bounded, load_of_each
from assignors.scale import in_units, scale_of


class Cuts:
    """Cuts partitions.

    Args:
        roster: The group; None: all hashes count the same.
    """

    def __init__(self, roster: Roster | None) -> None:
        self._lines = load_of_each(roster) if roster is not None else {}

    def parts(self, tp: TopicPartition, k: int) -> tuple[KeyRange, ...]:
        """Cut a partition into `k` ranges, none empty, in order.

        Raises:
            ValueError: If `k` is below 1.
        """
        line = self._lines.get(tp)
        if line is None or k < 2:
            return WHOLE.parts(k)
        # Of the parts none may take more than one hash that fills it: else another one had none.
        line = bounded(line, k)
        if not line.total:
            return WHOLE.parts(k)
        return scale_of(in_units(line, (line.total, 1))).parts(k)
