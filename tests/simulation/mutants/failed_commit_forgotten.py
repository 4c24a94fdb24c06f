"""A commit whose reply is lost is taken for done: what only it told is never heard of."""

from __future__ import annotations

import pytest

from coop_consumer.core.commits import Commits
from coop_consumer.errors import CoopConsumerError

BREAKS = ("I5", "stuck")
SEED = 13


def plant(patch: pytest.MonkeyPatch) -> None:
    """What it told is not told again."""
    real = Commits.append_failed

    def append_failed(commits: Commits, token: int, error: CoopConsumerError) -> None:
        told = commits.under_way[token].records
        real(commits, token, error)
        for tenure, *_ in told:
            tenure.dirty, tenure.finished = False, 0

    patch.setattr(Commits, "append_failed", append_failed)
