"""A standalone range begins at the committed offset, whatever the log has above it."""

from __future__ import annotations

import pytest

from assignors import KeyRange
from coop_consumer.core.beginning import Beginnings
from coop_consumer.core.state import Partition, WaitingRanges
from offsets import PartitionProgress

BREAKS = ("I3", "I5")
SEED = 14


def plant(patch: pytest.MonkeyPatch) -> None:
    begin_tenure = Beginnings._begin_tenure

    def nothing(partition: Partition, epoch: int) -> PartitionProgress:
        return PartitionProgress()

    def begin(
        self: Beginnings,
        partition: Partition,
        ranges: tuple[KeyRange, ...],
        waiting: WaitingRanges,
        blocked: set[int],
    ) -> None:
        with pytest.MonkeyPatch.context() as forgetting:
            if self.state.membership.alone:
                forgetting.setattr(Partition, "progress_in", nothing)
            begin_tenure(self, partition, ranges, waiting, blocked)

    patch.setattr(Beginnings, "_begin_tenure", begin)
