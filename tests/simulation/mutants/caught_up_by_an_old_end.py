"""A member says that it is caught up by an end that it saw before its ranges were another's."""

from __future__ import annotations

import pytest

from coop_consumer.core.state import Partition, Stream
from coop_consumer.core.streams import Streams

BREAKS = ("caught_up",)
SEED = 9


def plant(patch: pytest.MonkeyPatch) -> None:
    """A fetch that begins anew leaves the end as it was seen last."""
    real = Streams._start

    def start(streams: Streams, partition: Partition, offset: int, consumer: int) -> Stream:
        end_offset = partition.end_offset
        stream = real(streams, partition, offset, consumer)
        partition.end_offset = end_offset
        return stream

    patch.setattr(Streams, "_start", start)
