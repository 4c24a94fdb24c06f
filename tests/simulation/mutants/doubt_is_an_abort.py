"""A transaction in doubt is taken for an aborted one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.commits import Commits
from coop_consumer.errors import TransactionAbortedError

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 582


def plant(patch: pytest.MonkeyPatch) -> None:
    """What it held goes again, whatever the log says."""

    def in_doubt(commits: Commits, token: int, offsets: Sequence[int]) -> None:
        del offsets
        commits._outbox.append_failed(token, TransactionAbortedError("simulated", "in doubt"))

    patch.setattr(Commits, "in_doubt", in_doubt)
