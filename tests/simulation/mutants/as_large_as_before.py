"""A record that the log has refused for its size is sent again as it was, for ever."""

from __future__ import annotations

import pytest

from coop_consumer.core import member

BREAKS = ("stuck", "mirror")
SEED = 155


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nothing is split smaller."""
    patch.setattr(member, "split_smaller", lambda _state, _token: None)
