"""What a member drops of a slice, as it is another's or done, counts as its work."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.intake import Intake
from coop_consumer.core.record import Message
from coop_consumer.core.tenure import Tenure

BREAKS = ("load",)
SEED = 6


def plant(patch: pytest.MonkeyPatch) -> None:
    """All that a slice holds is counted."""

    def measure(
        intake: Intake, tenure: Tenure, messages: Sequence[Message], first: int, end: int
    ) -> None:
        if first < end and tenure.ranges:
            partition = intake._state.partition(tenure.tp)
            places = [(message.offset() or 0, message.key()) for message in messages]
            hashes = [intake._place(partition, *place)[1] for place in places]
            tenure.load.sample(tenure.ranges, first, end, hashes, intake._state.now_ms)

    patch.setattr(Intake, "_measure", measure)
