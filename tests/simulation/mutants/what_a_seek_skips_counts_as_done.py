"""What a user skips by a seek ahead counts as done: nobody ever processes it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coop_consumer.core.tenure import Tenure

BREAKS = ("I2", "I4")
SEED = 5


def plant(patch: pytest.MonkeyPatch) -> None:
    """After a seek ahead the tracker is believed."""
    real = Tenure.begin_anew

    def begin_anew(tenure: Tenure, running: Iterable[int], offset: int | None) -> None:
        is_ahead = offset is not None and offset > tenure.tracker.stable
        real(tenure, running, offset)
        if is_ahead:
            tenure.sought = None

    patch.setattr(Tenure, "begin_anew", begin_anew)
