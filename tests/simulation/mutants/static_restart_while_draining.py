"""A static member restarts while draining, and nobody takes its earlier run for over.

Whoever waits for a hash at which that run's handler was waits for ever: the group is stable.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from assignors import KeyRange
from offsets import PartitionStore, TenureId

BREAKS = ("stuck", "rest")
SEED = 36


def plant(patch: pytest.MonkeyPatch) -> None:
    """A later run's announcement ends nothing."""
    real = PartitionStore.unreleased

    def unreleased(
        store: PartitionStore, tenure: TenureId, ranges: Iterable[KeyRange]
    ) -> tuple[KeyRange, ...]:
        announced, store.announced = store.announced, {}
        try:
            return real(store, tenure, ranges)
        finally:
            store.announced = announced

    patch.setattr(PartitionStore, "unreleased", unreleased)
