"""The record that keeps the member's thread is not filed: others of its key overtake it."""

from __future__ import annotations

import pytest

from coop_consumer.core.lane_tables import LaneTables, Straight
from coop_consumer.core.record import Record

BREAKS = ("I4", "I8")
SEED = 13


def plant(patch: pytest.MonkeyPatch) -> None:
    """Only what was not begun is filed."""

    def file_straight(tables: LaneTables, run: Straight) -> Record | None:
        running, rest = run.split()
        tables._file_all([*rest, *tables.fresh])
        tables.fresh = []
        return running

    patch.setattr(LaneTables, "file_straight", file_straight)
