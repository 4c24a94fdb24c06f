"""A member that is told to leave while it starts does not mirror what it was to mirror."""

from __future__ import annotations

import pytest

from coop_consumer.core.withdrawal import Withdrawal

BREAKS = ("mirror",)


def plant(patch: pytest.MonkeyPatch) -> None:
    """It looks only after what it had begun."""
    begin = Withdrawal.begin

    def hasty(self: Withdrawal, keep: tuple[object, ...] = ()) -> None:
        begin(self, keep)  # type: ignore[arg-type]
        self._touched = [it for it in self._touched if it.epoch]

    patch.setattr(Withdrawal, "begin", hasty)
