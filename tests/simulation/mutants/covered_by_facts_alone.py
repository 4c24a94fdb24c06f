"""A tombstone is written once a tenure's facts are told by others, though its ranges are nobody's.

Somebody who has it on his wait list, and reads only then, finds a tenure that the log does not
know.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from offsets import PartitionProgress, PartitionStore, TenureId
from offsets.records import Key

BREAKS = ("I3",)
SEED = 275


def plant(patch: pytest.MonkeyPatch) -> None:
    """Of the two conditions only the one on the facts is left."""
    real = PartitionStore.superseded

    def superseded(
        store: PartitionStore,
        live_names: Collection[str],
        end_offset: int,
        settled_offset: int | None = None,
    ) -> tuple[Key, ...]:
        keys, gone = [*real(store, live_names, end_offset, settled_offset)], set[TenureId]()
        seen = [t for t in store.tenures() if t.last_offset < end_offset]
        current = [t for t in seen if t.record.epoch == store.epoch]
        for tenure in current:
            others = PartitionProgress(store.base_offset)
            for other in current:
                if other is not tenure and other.id not in gone:
                    for fact in other.record.facts:
                        others.merge(fact)
            is_over = not store._is_live(tenure, live_names)
            if is_over and all(map(others.contains, tenure.record.facts)):
                gone.add(tenure.id)
                keys += store._tenures.keys(tenure)
        return tuple(dict.fromkeys(keys))

    patch.setattr(PartitionStore, "superseded", superseded)
