"""A lead decides by one look: an old offset beside a new log looks like a foreign decision."""

from __future__ import annotations

import pytest

from coop_consumer.core.agreement import Agreement, Next

BREAKS = ("I3",)
SEED = 10


def plant(patch: pytest.MonkeyPatch) -> None:
    """What was read is certain."""
    patch.setattr(Agreement, "_certain", lambda *_: Next.BASE)
