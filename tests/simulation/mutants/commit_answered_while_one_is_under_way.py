"""A commit that a user asks for is answered though the one that tells all is still under way."""

from __future__ import annotations

import pytest

from coop_consumer.core.commits import Commits

BREAKS = ("answer",)
SEED = 1731


def plant(patch: pytest.MonkeyPatch) -> None:
    """It waits for commits that are not built yet, and for no others."""

    def commit_now(self: Commits, token: int) -> None:
        changed = self._changed()
        for view, _ in changed.values():
            view.hurry()
        self._asked[token] = {number: self._state.token() for number in changed}

    patch.setattr(Commits, "commit_now", commit_now)
