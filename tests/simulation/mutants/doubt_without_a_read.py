"""A doubt is decided by what was read of the log before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.commits import Commits
from coop_consumer.core.events import CommitDone
from coop_consumer.errors import TransactionAbortedError

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 582


def plant(patch: pytest.MonkeyPatch) -> None:
    """The log is not read to its end first."""
    real = Commits.in_doubt

    def in_doubt(commits: Commits, token: int, offsets: Sequence[int]) -> None:
        real(commits, token, offsets)
        assert commits._doubt is not None
        commits._doubt = commits._doubt._replace(read=0)
        if isinstance(commits.decided(), CommitDone):
            commits._outbox.appended(token, offsets)
        else:
            commits._outbox.append_failed(token, TransactionAbortedError("simulated", "in doubt"))

    patch.setattr(Commits, "in_doubt", in_doubt)
