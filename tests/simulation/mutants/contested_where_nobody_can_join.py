"""A run without a group joins, to learn who counts, and waits for that for ever."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from coop_consumer.core.announcing import Announcing
from coop_consumer.core.state import LogView

BREAKS = ("stuck",)
SEED = 9950


def plant(patch: pytest.MonkeyPatch) -> None:
    """A later announcement is contested as in a group."""
    contest: Callable[[Announcing, LogView], None] = Announcing._contest_if_followed

    def as_in_a_group(self: Announcing, view: LogView) -> None:
        state = self.state
        group = SimpleNamespace(alone=False)
        self.state = SimpleNamespace(  # type: ignore[assignment]
            name=state.name, incarnation=state.incarnation, membership=group, rejoin=state.rejoin
        )
        try:
            contest(self, view)
        finally:
            self.state = state

    patch.setattr(Announcing, "_contest_if_followed", as_in_a_group)
