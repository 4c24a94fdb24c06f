"""`latest` for every partition of which nothing is known, also one that was added since.

(Decision 038.)
"""

from __future__ import annotations

import pytest

from coop_consumer.core.state import Partition
from coop_consumer.core.topic_starts import TopicStarts

BREAKS = ("I2",)
SEED = 29


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether the group reads the topic already."""

    def policy(starts: TopicStarts, partition: Partition) -> str:
        del partition
        return starts.state.config.auto_offset_reset

    patch.setattr(TopicStarts, "policy", policy)
