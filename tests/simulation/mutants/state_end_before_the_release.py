"""The end of a changelog is asked when a range is assigned, before its release is read."""

from __future__ import annotations

from typing import Any

import pytest

from coop_consumer.core import events
from tests.simulation.restores import Restores
from tests.simulation.shell import MemberShell

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 48


def plant(patch: pytest.MonkeyPatch) -> None:
    """A restore goes by the end that was asked last."""
    handle, begin = MemberShell.handle, Restores._begin
    ends: dict[MemberShell, dict[object, int]] = {}

    def hear(shell: MemberShell, event: events.Event) -> None:
        if isinstance(event, events.Assigned):
            logs = shell._world.changelogs
            ends[shell] = {tp: logs.log(tp).end_offset for tp in shell._world.data}
        handle(shell, event)

    def begin_early(restores: Restores, grant: Any, ready: Any, end: int) -> None:
        begin(restores, grant, ready, ends[restores._shell].get(grant.tp, end))

    patch.setattr(MemberShell, "handle", hear)
    patch.setattr(Restores, "_begin", begin_early)
