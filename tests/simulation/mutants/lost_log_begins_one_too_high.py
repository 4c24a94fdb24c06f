"""Where the log is lost the next epoch begins one behind the committed offset.

A new run of a member begins there, after its progress topic was deleted.
"""

from __future__ import annotations

import pytest

from coop_consumer.core import agreement
from offsets import Committed, PartitionStore
from offsets.history import Meaning, Newest, newest_epoch

BREAKS = ("I2",)
SEED = 14


def plant(patch: pytest.MonkeyPatch) -> None:
    def one_more(store: PartitionStore, committed: Committed | None, known: int = 0) -> Newest:
        newest = newest_epoch(store, committed, known)
        if newest.meaning is Meaning.LOST and newest.base is not None:
            return newest._replace(base=newest.base + 1)
        return newest

    patch.setattr(agreement, "newest_epoch", one_more)
