"""Facts of an older epoch are taken over: a rewind of the group is without effect."""

from __future__ import annotations

import pytest

from offsets import PartitionProgress, PartitionStore

BREAKS = ("I2",)
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """Progress is the union of all facts, whatever their epoch."""

    def progress(store: PartitionStore) -> PartitionProgress:
        union = PartitionProgress(store.base_offset)
        for record in store._tenures.records():
            for fact in record.facts:
                union.merge(fact)
        return union

    patch.setattr(PartitionStore, "progress", progress)
