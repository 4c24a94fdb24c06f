"""A transaction takes all results along, but only the progress that is due."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.commits import Commits
from coop_consumer.core.state import LogView
from coop_consumer.core.tenure import Tenure

BREAKS = ("I9",)
SEED = 172
EXACTLY_ONCE = True


def plant(patch: pytest.MonkeyPatch) -> None:
    """What of the log's partitions is not due waits for its own commit, as with at least once."""
    real = Commits._commit

    def commit(commits: Commits, changed: Sequence[tuple[LogView, list[Tenure]]]) -> None:
        due = [it for it in changed if commits._is_due(it[0], now=False)]
        real(commits, due or changed)

    patch.setattr(Commits, "_commit", commit)
