"""A commit leaves the effects of its records behind: a crash loses the state that it tells of."""

from __future__ import annotations

from typing import Any

import pytest

from coop_consumer.core.outbox import Outbox

BREAKS = ("I2",)
BUFFERED = True
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nothing is collected for a commit."""

    class Leaving(Outbox):
        def commit(self, entries: Any, results: Any, owner: Any, **more: Any) -> int:
            self.effects.put_back(results)
            return super().commit(entries, (), owner, **more)

    patch.setattr("coop_consumer.core.member.Outbox", Leaving)
