"""What a failed attempt has left behind goes along with the next attempt."""

from __future__ import annotations

import pytest

from coop_consumer.core import failures
from coop_consumer.core.effects import Filed
from coop_consumer.core.record import Record, again

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 1


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nothing is undone, and the attempts share one list."""

    def new_attempt(record: Record) -> Record:
        mine = record._tenure.effects.pop(record, Filed.empty())
        following = again(record)
        record._tenure.effects[following] = mine
        return following

    patch.setattr(failures, "new_attempt", new_attempt)
