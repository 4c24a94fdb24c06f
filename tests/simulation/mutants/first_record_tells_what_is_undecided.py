"""A range begins again by what this member knows, though that may never be committed."""

from __future__ import annotations

import pytest

from assignors import TopicPartition
from coop_consumer.core.state import MemberState, Partition

BREAKS = ("I2", "I9")
EXACTLY_ONCE = True
SEED = 21


def plant(patch: pytest.MonkeyPatch) -> None:
    """As with at least once: its own tenures tell what is done."""
    real = MemberState.partition

    def partition(state: MemberState, tp: TopicPartition) -> Partition:
        found = real(state, tp)
        found.exactly_once = False
        return found

    patch.setattr(MemberState, "partition", partition)
