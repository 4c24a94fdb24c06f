"""What is queued of a hot key counts as done when it is forgotten, and is never run."""

from __future__ import annotations

import pytest

from coop_consumer.core.handover import Handover
from coop_consumer.core.state import Partition
from coop_consumer.core.tenure import Tenure

BREAKS = ("I2",)
SEED = 11


def plant(patch: pytest.MonkeyPatch) -> None:
    """Its records are taken from the tracker as if they were finished."""
    real = Handover.move_apart

    def move_apart(handover: Handover, partition: Partition, tenure: Tenure, key_hash: int) -> None:
        forgotten = [offset for offset, it in tenure.pending.items() if it == key_hash]
        tenure.tracker.done_many(forgotten)
        real(handover, partition, tenure, key_hash)

    patch.setattr(Handover, "move_apart", move_apart)
