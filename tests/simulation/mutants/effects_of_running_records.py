"""A commit takes along what running handlers have put so far, as it did while state was by key."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coop_consumer.core.effects import Effects
from coop_consumer.core.record import Record
from coop_consumer.core.tenure import Tenure

BREAKS = ("I9",)
BUFFERED = True
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """What one record of a tenure has filed goes with what all have filed."""
    collect = Effects.collect

    def collect_all(self: Effects, tenure: Tenure, records: Iterable[Record]) -> None:
        collect(self, tenure, [*records, *tenure.effects])

    patch.setattr(Effects, "collect", collect_all)
