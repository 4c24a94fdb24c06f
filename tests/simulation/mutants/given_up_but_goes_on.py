"""A lane that waits for its next turn stays ready when its range is given up, and runs on."""

from __future__ import annotations

import pytest

from coop_consumer.core.lane import Entry
from coop_consumer.core.ready import Ready

BREAKS = ("I4", "I5")
SEED = 73


def plant(patch: pytest.MonkeyPatch) -> None:
    """Only new entries are taken out, though all count as taken out."""
    real = Ready.withdraw

    def withdraw(ready: Ready, heads: dict[int, Entry]) -> set[int]:
        kept = list(ready.going_on)
        found = real(ready, heads)
        ready.going_on.clear()
        ready.going_on.extend(kept)
        return found

    patch.setattr(Ready, "withdraw", withdraw)
