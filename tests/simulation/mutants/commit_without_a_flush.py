"""A commit is sent without a flush: it tells as done what a crash takes out of a buffer.

(Decision 011.)
"""

from __future__ import annotations

from typing import Any

import pytest

from coop_consumer.core import actions, outbox

BREAKS = ("I2",)
BUFFERED = True
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whatever rests on what was finished is appended like what does not."""

    def commit(appends: Any, token: int, *effects: Any) -> actions.Append:
        del effects
        ((log_partition, entries),) = appends.items()
        return actions.Append(log_partition, entries, token)

    patch.setattr(outbox, "Commit", commit)
