"""A hot key runs in both streams: the tenure around it does not give it up."""

from __future__ import annotations

import pytest

from assignors import KeyRange
from coop_consumer.core.handover import Handover
from coop_consumer.core.state import Partition, WaitingRanges
from coop_consumer.core.tenure import Tenure

BREAKS = ("I1",)
SEED = 2


def plant(patch: pytest.MonkeyPatch) -> None:
    """It begins a second time while the main stream still feeds it."""

    def move_apart(handover: Handover, partition: Partition, tenure: Tenure, key_hash: int) -> None:
        del tenure
        partition.hot.add(key_hash)
        alone = (KeyRange(key_hash, key_hash),)
        partition.waiting.append(WaitingRanges(alone, (), handover.state.now_ms))
        handover.reading.read(partition.view)

    patch.setattr(Handover, "move_apart", move_apart)
