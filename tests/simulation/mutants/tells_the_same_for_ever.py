"""A tenure whose record is in the log is told again at each interval, though nothing changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.commits import Commits

BREAKS = ("rest",)


def plant(patch: pytest.MonkeyPatch) -> None:
    """What it holds counts as changed, however often it is told."""
    real = Commits.acknowledged

    def acknowledged(commits: Commits, token: int, offsets: Sequence[int]) -> bool:
        told = commits._under_way[token].told if token in commits._under_way else []
        ours = real(commits, token, offsets)
        for tenure, *_ in told:
            tenure.dirty |= bool(tenure.ranges) and not commits._state.closing
        return ours

    patch.setattr(Commits, "acknowledged", acknowledged)
