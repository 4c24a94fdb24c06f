"""A wrong topic id: a member that knew the topic goes on with the id of the deleted one."""

from __future__ import annotations

import pytest

from coop_consumer.core.data_loss import DataLoss
from coop_consumer.core.events import TopicsKnown

BREAKS = ("stuck",)
SEED = 5


def plant(patch: pytest.MonkeyPatch) -> None:
    """Only the number of partitions is ever taken over."""

    def topics_known(data_loss: DataLoss, event: TopicsKnown) -> None:
        known = data_loss.state.topics
        for topic, (id_, count) in event.topics.items():
            known[topic] = known.get(topic, (id_, 0))[0], count

    patch.setattr(DataLoss, "topics_known", topics_known)
