"""A member that leaves mirrors only what it has begun and still has, as if others were to stay."""

from __future__ import annotations

import pytest

from coop_consumer.core.withdrawal import Withdrawal

BREAKS = ("mirror",)
SEED = 1092


def plant(patch: pytest.MonkeyPatch) -> None:
    """Neither what it was to begin, nor what nobody began after it."""
    begin = Withdrawal.begin

    def hasty(self: Withdrawal, keep: tuple[object, ...] = ()) -> None:
        begin(self, keep)  # type: ignore[arg-type]
        self._touched = [it for it in self._touched if it.agreement.epoch]
        self._former = []

    patch.setattr(Withdrawal, "begin", hasty)
