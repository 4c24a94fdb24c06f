"""No record tells how a group began: whatever it has committed of a topic shows that it reads it.

So of several members that start at once, all but the first read the whole of their partitions.
(Decision 038.)
"""

from __future__ import annotations

import pytest

from coop_consumer.config import OffsetReset
from coop_consumer.core.state import Partition
from coop_consumer.core.topic_starts import TopicStarts

BREAKS = ("start",)
SEED = 126


def plant(patch: pytest.MonkeyPatch) -> None:
    """It is as if the record told of no partition, once anything is committed."""
    real = TopicStarts.policy

    def policy(starts: TopicStarts, partition: Partition) -> str | None:
        others = [p for p in starts.state.partitions.values() if p is not partition]
        committed = [p.agreement.committed for p in others]
        found = real(starts, partition)
        return OffsetReset.EARLIEST if found and any(committed) else found

    patch.setattr(TopicStarts, "policy", policy)
