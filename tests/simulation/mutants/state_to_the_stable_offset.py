"""A restore ends at the last stable offset of its changelog."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.restores import Restores

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 523


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is undecided counts as not there."""
    begin = Restores._begin

    def begin_below(restores: Restores, grant: Any, ready: Any, end: int) -> None:
        log = restores._world.changelogs.log(grant.tp)
        begin(restores, grant, ready, min(end, log.stable_end))

    patch.setattr(Restores, "_begin", begin_below)
