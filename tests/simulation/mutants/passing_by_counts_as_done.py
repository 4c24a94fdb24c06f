"""What passes by while a hash drains counts as done: it is neither run here nor left to others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.intake import Intake
from coop_consumer.core.record import Message
from coop_consumer.core.state import Partition, Stream

BREAKS = ("I2", "I4")
SEED = 745


def plant(patch: pytest.MonkeyPatch) -> None:
    """The tracker takes in nothing of a draining hash."""
    real = Intake._admit

    def admit(
        intake: Intake,
        partition: Partition,
        stream: Stream,
        messages: Sequence[Message],
        is_large: bool,
    ) -> None:
        before = {tenure: dict(tenure.pending) for tenure in stream.tenures if tenure.draining}
        real(intake, partition, stream, messages, is_large)
        for tenure, pending in before.items():
            for offset, key_hash in list(tenure.pending.items()):
                if key_hash in tenure.draining and offset not in pending:
                    del tenure.pending[offset]

    patch.setattr(Intake, "_admit", admit)
