"""With `on.data.loss=stop` a member goes on where records were removed, as with `warn`."""

from __future__ import annotations

import pytest

from coop_consumer.core.data_loss import DataLoss
from coop_consumer.core.events import OutOfRange

BREAKS = ("I2",)
SEED = 12


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is gone counts as done, whatever the policy says."""
    real = DataLoss.out_of_range

    def out_of_range(data_loss: DataLoss, event: OutOfRange) -> None:
        partition = data_loss.state.partitions.get(event.tp)
        stream = data_loss.streams.stream_of(partition, event.stream) if partition else None
        if partition is None or stream is None or stream.next_offset > event.high:
            real(data_loss, event)
        else:
            data_loss.streams.skip_to(partition, stream, event.low)

    patch.setattr(DataLoss, "out_of_range", out_of_range)
