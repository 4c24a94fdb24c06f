"""A range is released before the drain: the log says that it is free while a handler runs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from assignors import KeyRange
from coop_consumer.core.tenure import Tenure

BREAKS = ("I4",)
SEED = 28


def plant(patch: pytest.MonkeyPatch) -> None:
    """A tenure that gives up takes no notice of what still runs."""
    real = Tenure.give_up

    def give_up(tenure: Tenure, ranges: tuple[KeyRange, ...], _: Iterable[int]) -> None:
        real(tenure, ranges, ())

    patch.setattr(Tenure, "give_up", give_up)
    patch.setattr(Tenure, "drained", lambda *_: ())
