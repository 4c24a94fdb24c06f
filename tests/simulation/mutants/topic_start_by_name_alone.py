"""A topic that is made again counts as the one that the group began with.

(Decision 038.)
"""

from __future__ import annotations

import pytest

from offsets import TopicStartRecord

BREAKS = ("I2",)
SEED = 50


def plant(patch: pytest.MonkeyPatch) -> None:
    """Its id is not looked at."""

    def had(start: TopicStartRecord, topic_id: bytes, partition: int) -> bool:
        del topic_id
        return partition < start.partitions

    patch.setattr(TopicStartRecord, "had", had)
