"""Of two base records of an epoch the last one counts, so a late one changes what was agreed.

(Decision 003.)
"""

from __future__ import annotations

import pytest

from offsets import PartitionStore

BREAKS = ("I2", "I3")
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """The base is that of the highest log offset."""

    def base_offset(store: PartitionStore) -> int:
        bases = [base for base in store._bases.values() if base[1].epoch == store.epoch]
        return max(bases, key=lambda base: base[0])[1].offset if bases else 0

    patch.setattr(PartitionStore, "base_offset", property(base_offset))
