"""A tenure whose record is in the log is told again at each interval, though nothing changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.commits import Commits

BREAKS = ("rest",)
SEED = 26


def plant(patch: pytest.MonkeyPatch) -> None:
    """What it holds counts as changed, however often it is told."""
    real = Commits.appended

    def appended(commits: Commits, token: int, offsets: Sequence[int]) -> None:
        told = commits.under_way[token].records
        real(commits, token, offsets)
        for tenure, *_ in told:
            tenure.dirty |= bool(tenure.ranges) and not commits._state.membership.closing

    patch.setattr(Commits, "appended", appended)
