"""Beside plain members a member joins with all that it has, and its handlers run on."""

from __future__ import annotations

import pytest

from coop_consumer.core.actions import Answer
from coop_consumer.core.withdrawal import Withdrawal

BREAKS = ("plain",)
SEED = 765


def plant(patch: pytest.MonkeyPatch) -> None:
    """The question before the join is answered at once, and nothing is released."""

    def ask(self: Withdrawal, token: int) -> None:
        self.state.actions.append(Answer(token, None))

    patch.setattr(Withdrawal, "ask", ask)
