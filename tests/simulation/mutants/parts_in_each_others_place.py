"""Parts of a split record take each other's place: a crash between two of them loses a fact."""

from __future__ import annotations

import pytest

from coop_consumer.core import beginning, commits
from coop_consumer.core.tenure import Tenure
from offsets import TenureRecord

BREAKS = ("I3", "I5")
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """The second part is always number 1."""
    real = commits.next_entries

    def next_entries(
        tenure: Tenure, record: TenureRecord, max_bytes: int
    ) -> list[tuple[bytes, bytes | None]]:
        entries = real(tenure, record, max_bytes)
        tenure.logged.parts_end = tenure.logged.parts_kept = 1
        return entries

    patch.setattr(commits, "next_entries", next_entries)
    patch.setattr(beginning, "next_entries", next_entries)
