"""A join beside plain members in the midst of a member's end forgets what that was to mirror."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from assignors import TopicPartition
from coop_consumer.core.withdrawal import Withdrawal

BREAKS = ("mirror",)
BUFFERED = True
SEED = 62923


def plant(patch: pytest.MonkeyPatch) -> None:
    """Each withdrawal knows only what the member holds when it begins."""
    begin = Withdrawal.begin

    def begin_anew(withdrawal: Withdrawal, keep: Collection[TopicPartition] = ()) -> None:
        withdrawal._touched = []
        begin(withdrawal, keep)

    patch.setattr(Withdrawal, "begin", begin_anew)
