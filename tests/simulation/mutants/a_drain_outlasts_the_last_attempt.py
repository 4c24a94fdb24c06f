"""The last attempt of a record fails while its key drains: its next owner tries it once more."""

from __future__ import annotations

import pytest

from coop_consumer.core.failures import Failures

BREAKS = ("attempts",)
SEED = 997


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whatever fails while it drains has attempts left."""
    patch.setattr(Failures, "_is_used_up", lambda *_: False)
