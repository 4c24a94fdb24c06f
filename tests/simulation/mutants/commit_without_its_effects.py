"""A commit leaves the effects of its records behind: a crash loses the state that it tells of."""

from __future__ import annotations

import pytest

from coop_consumer.core.outbox import Outbox

BREAKS = ("I2",)
BUFFERED = True
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nothing is collected for a commit."""

    class Leaving(Outbox):
        def commit(self, *args: object, **more: object) -> int:
            kept, self.effects._collected = self.effects._collected, []
            try:
                return super().commit(*args, **more)  # type: ignore[arg-type]
            finally:
                self.effects._collected = kept

    patch.setattr("coop_consumer.core.member.Outbox", Leaving)
