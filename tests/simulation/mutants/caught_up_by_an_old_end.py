"""A member says that it is caught up by an end that it saw before its ranges were another's."""

from __future__ import annotations

import pytest

from coop_consumer.core.intake import Intake
from coop_consumer.core.state import Partition, Stream

BREAKS = ("caught_up",)
SEED = 4


def plant(patch: pytest.MonkeyPatch) -> None:
    """A fetch that begins anew leaves the end as it was seen last."""
    real = Intake._start

    def start(intake: Intake, partition: Partition, offset: int, *, catch_up: bool) -> Stream:
        end_offset = partition.end_offset
        stream = real(intake, partition, offset, catch_up=catch_up)
        partition.end_offset = end_offset
        return stream

    patch.setattr(Intake, "_start", start)
