"""A finished record takes effects while another one of its key runs in a range that moves."""

from __future__ import annotations

import pytest

from coop_consumer.core import effects
from coop_consumer.core.record import Record, is_sealed

BREAKS = ("I9",)
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """It is asked whether the key drains, not whether this record runs."""

    def is_open(record: Record) -> bool:
        tenure, key_hash = record.tenure, record.key_hash
        return not (is_sealed(record) or tenure.is_void) and (
            record.offset in tenure.pending
            or key_hash in tenure.blocked.lingering
            or key_hash in tenure.draining
        )

    patch.setattr(effects, "is_open", is_open)
