"""The next epoch is numbered without the epochs that tenures name, so old facts count in it.

(`coop-consumer reset` did so: the log had lost the base of epoch 2, and kept a tenure of it.)
"""

from __future__ import annotations

import pytest

from offsets import PartitionStore

BREAKS = ("I2",)
SEED = 238


def plant(patch: pytest.MonkeyPatch) -> None:
    """Only bases, and what the caller knows, count."""

    def next_epoch(store: PartitionStore, *known: int) -> int:
        return max([store.epoch or 0, *known]) + 1

    patch.setattr(PartitionStore, "next_epoch", next_epoch)
