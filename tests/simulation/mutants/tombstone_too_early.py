"""A tombstone is written once a tenure is released, though nobody else tells its facts yet."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from offsets import PartitionStore
from offsets.records import Key

BREAKS = ("I3", "I5")
SEED = 14


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is released may go."""
    real = PartitionStore.superseded

    def superseded(
        store: PartitionStore,
        live_names: Collection[str],
        end_offset: int,
        settled_offset: int | None = None,
    ) -> tuple[Key, ...]:
        over = [key for t in store.tenures() if t.is_released for key in store._tenures.keys(t)]
        return tuple(dict.fromkeys((*real(store, live_names, end_offset, settled_offset), *over)))

    patch.setattr(PartitionStore, "superseded", superseded)
