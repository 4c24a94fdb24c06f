"""A member leaves brokers that are away while a handler still runs: its key goes to others."""

from __future__ import annotations

import pytest

from coop_consumer.core.closing import Closing

BREAKS = ("I4",)
SEED = 819


def plant(patch: pytest.MonkeyPatch) -> None:
    """What runs is not asked for, unless its outcome alone is waited for."""
    waits_in_vain = Closing._waits_in_vain

    def hasty(self: Closing) -> bool:
        with pytest.MonkeyPatch.context() as blind:
            blind.setattr(Closing, "still_running", lambda _: [])
            return waits_in_vain(self)

    patch.setattr(Closing, "_waits_in_vain", hasty)
