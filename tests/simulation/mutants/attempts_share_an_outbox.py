"""An attempt goes on with what a failed one has filed: outputs of both go along with the record."""

from __future__ import annotations

import pytest

from coop_consumer.core import failures, lanes
from coop_consumer.core.record import Record

BREAKS = ("I9",)
BUFFERED = True
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """The next attempt has the same `Record`, and nothing is undone."""

    def same(record: Record) -> Record:
        for effect in record.tenure.effects.get(record, ()):
            effect.undo()  # so that the checker knows
        return record

    patch.setattr(failures, "new_attempt", same)
    patch.setattr(lanes, "new_attempt", same)
