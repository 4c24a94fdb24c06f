"""Who takes a range over inherits no attempts: parked records run, failures count anew."""

from __future__ import annotations

import pytest

from assignors import KeyRange
from coop_consumer.core.beginning import Beginnings
from coop_consumer.core.state import Partition

BREAKS = ("attempts",)
SEED = 26


def plant(patch: pytest.MonkeyPatch) -> None:
    """What it inherits is as if no record had failed."""
    real = Beginnings._begin_tenure

    def begin(
        self: Beginnings, partition: Partition, ranges: tuple[KeyRange, ...], *rest: object
    ) -> None:
        real(self, partition, ranges, *rest)  # type: ignore[arg-type]
        partition.tenures[-1].attempts.clear()

    patch.setattr(Beginnings, "_begin_tenure", begin)
