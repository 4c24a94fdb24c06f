"""A handler that has just ended counts as overdue: its record is finished, and tried again."""

from __future__ import annotations

import pytest

from coop_consumer.core.overdue import Overdue

BREAKS = ("I8",)
SEED = 13295
EXACTLY_ONCE = True


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at what executors have done since."""
    patch.setattr(Overdue, "_has_ended", lambda *_: False)
