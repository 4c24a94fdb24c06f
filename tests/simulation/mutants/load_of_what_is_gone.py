"""A member goes on to tell the load of partitions of which it holds nothing any more."""

from __future__ import annotations

import pytest

from coop_consumer.core import loads
from coop_consumer.core.state import Partition

BREAKS = ("load",)
SEED = 6


def plant(patch: pytest.MonkeyPatch) -> None:
    """What it drains, or only mirrors, counts as held."""

    def is_held(partition: Partition) -> bool:
        return bool(partition.topic_id)

    patch.setattr(loads, "_is_held", is_held)
