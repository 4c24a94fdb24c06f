"""An evicted owner that wrote after its successor's first record holds the range for ever."""

from __future__ import annotations

import pytest

from assignors import KeyRange, covers
from offsets import PartitionStore
from offsets.tenures import LoggedTenure

BREAKS = ("attempts",)
SEED = 125853


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whoever never released tells of a key's failures, though others began and wrote since."""

    def tells_of(store: PartitionStore, tenure: LoggedTenure, key_hash: int) -> bool:
        at = (KeyRange(key_hash, key_hash),)
        holders = [it for it in store._current() if any(key_hash in r for r in it.ranges)]
        began = max((it.first_offset for it in holders), default=0)
        newest = [it for it in holders if it.last_offset >= began]
        open_ = [it for it in newest if not covers(it.record.released, at)]
        if open_:
            return tenure is max(open_, key=lambda it: it.last_offset)
        return not newest or tenure in newest

    patch.setattr(PartitionStore, "_tells_of", tells_of)
