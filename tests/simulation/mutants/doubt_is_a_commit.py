"""A transaction in doubt is taken for a committed one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.commits import Commits

BREAKS = ("I9", "I2", "stuck")
EXACTLY_ONCE = True
SEED = 240


def plant(patch: pytest.MonkeyPatch) -> None:
    """What it held is forgotten, whatever the log says."""

    def in_doubt(commits: Commits, token: int, offsets: Sequence[int]) -> None:
        commits._outbox.appended(token, offsets)

    patch.setattr(Commits, "in_doubt", in_doubt)
