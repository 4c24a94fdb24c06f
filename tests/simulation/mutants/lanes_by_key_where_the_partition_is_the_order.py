"""With the order of whole partitions, records still queue up by key, and overtake one another."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from coop_consumer.core.intake import Intake
from coop_consumer.core.state import Partition

BREAKS = ("I4",)
SEED = 19


def plant(patch: pytest.MonkeyPatch) -> None:
    """The hash is the partition's, the lane the key's."""
    real = Intake._place

    def place(
        intake: Intake, partition: Partition, offset: int, key: bytes | None
    ) -> tuple[Hashable, int]:
        lane, key_hash = real(intake, partition, offset, key)
        return (key if lane is None else lane), key_hash

    patch.setattr(Intake, "_place", place)
