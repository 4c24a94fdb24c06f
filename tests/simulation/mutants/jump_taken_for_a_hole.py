"""A jump of the fetch is taken for a hole: a range behind joins the stream of the others."""

from __future__ import annotations

import pytest

from coop_consumer.core.actions import MAIN
from coop_consumer.core.state import Partition
from coop_consumer.core.streams import Streams
from coop_consumer.core.tenure import Tenure
from offsets import GapTracker

BREAKS = ("I2", "I4")
SEED = 2


def plant(patch: pytest.MonkeyPatch) -> None:
    """Every tenure joins the main stream, and its tracker takes any batch."""
    real = Streams.feed

    def feed(streams: Streams, partition: Partition, tenure: Tenure) -> None:
        if MAIN in partition.streams:
            partition.streams[MAIN].tenures.append(tenure)
        else:
            real(streams, partition, tenure)

    def cover(tracker: GapTracker, _: int, end: int) -> None:
        tracker.seen_to = max(tracker.seen_to, end)

    patch.setattr(Streams, "feed", feed)
    patch.setattr(GapTracker, "cover", cover)
