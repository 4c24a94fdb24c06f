"""A read ends at the last stable offset: what others have above it is missed."""

from __future__ import annotations

import pytest

from tests.simulation.progress_log import ProgressReader, _Reading

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 10


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is undecided counts as not there."""

    def ask(reader: ProgressReader, partition: int, number: int) -> None:
        reading = reader._readings.setdefault(partition, _Reading())
        reading.ends.append((number, reader._log.partitions[partition].stable_end))
        reader._fetch_later(partition)

    patch.setattr(ProgressReader, "_ask", ask)
