"""A parked record is tried once more by whoever gets its range, though nobody has decided so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import KeyRange
from coop_consumer.core.beginning import Beginnings
from coop_consumer.core.state import Partition

BREAKS = ("attempts",)
SEED = 26


def plant(patch: pytest.MonkeyPatch) -> None:
    """Failures are counted on, but nothing that is inherited is parked."""
    real = Beginnings._begin_tenure

    def begin(
        self: Beginnings, partition: Partition, ranges: tuple[KeyRange, ...], *rest: object
    ) -> None:
        real(self, partition, ranges, *rest)  # type: ignore[arg-type]
        attempts = partition.tenures[-1].attempts
        attempts |= {offset: replace(it, parked=False) for offset, it in attempts.items()}

    patch.setattr(Beginnings, "_begin_tenure", begin)
