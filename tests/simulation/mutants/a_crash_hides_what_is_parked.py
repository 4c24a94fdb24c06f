"""What a member had parked is forgotten if it crashes: whoever gets its ranges tries it again."""

from __future__ import annotations

import pytest

from assignors import KeyRange
from coop_consumer.core.beginning import Beginnings
from coop_consumer.core.state import Partition

BREAKS = ("attempts",)
SEED = 40


def plant(patch: pytest.MonkeyPatch) -> None:
    """Only who has released all hands its attempts on."""
    real = Beginnings._begin_tenure

    def begin(
        self: Beginnings, partition: Partition, ranges: tuple[KeyRange, ...], *rest: object
    ) -> None:
        told = [tenure.record for tenure in partition.store.tenures() if tenure.is_released]
        real(self, partition, ranges, *rest)  # type: ignore[arg-type]
        handed_on = {attempt.offset for record in told for attempt in record.attempts}
        attempts = partition.tenures[-1].attempts
        for offset in attempts.keys() - handed_on:
            del attempts[offset]

    patch.setattr(Beginnings, "_begin_tenure", begin)
