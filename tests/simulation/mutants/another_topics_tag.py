"""A tag with the wrong topic id counts: what was committed of a deleted topic is taken for ours.

(Decision 009.)
"""

from __future__ import annotations

import pytest

from coop_consumer.core import lead

BREAKS = ("I2", "I3")
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """The committed offset counts, whatever topic its tag names."""
    patch.setattr(lead, "of_topic", lambda committed, _: committed)
