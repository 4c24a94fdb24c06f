"""Of owners that have released a key, the last record counts, though its writer knows less."""

from __future__ import annotations

import pytest

from offsets import Attempt, PartitionStore

BREAKS = ("attempts",)
BUFFERED = True
SEED = 73875


def plant(patch: pytest.MonkeyPatch) -> None:
    """Attempts are taken in the order in which their records lie in the log."""

    def attempts(store: PartitionStore) -> dict[int, Attempt]:
        return {
            attempt.offset: attempt
            for tenure in sorted(store._current(), key=lambda it: it.last_offset)
            for attempt in tenure.record.attempts
            if store._tells_of(tenure, attempt.key_hash)
        }

    patch.setattr(PartitionStore, "attempts", attempts)
