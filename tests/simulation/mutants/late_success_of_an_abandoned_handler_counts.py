"""Executors are not told that a handler is abandoned: what it finishes late counts as done.

The record runs again by then.
"""

from __future__ import annotations

import pytest

from coop_consumer.core.failure import Failure
from coop_consumer.core.lane import Entry, Lane
from coop_consumer.core.lanes import KeyLanes
from coop_consumer.core.record import Record

BREAKS = ("I2", "I4")
SEED = 389


def plant(patch: pytest.MonkeyPatch) -> None:
    abandon, settle = KeyLanes.abandon, KeyLanes.settle
    forgotten = set[Entry]()

    def and_say_nothing(self: KeyLanes, entry: Entry, record: Record, error: Failure) -> None:
        abandon(self, entry, record, error)
        forgotten.add(entry)
        if isinstance(entry, Lane):
            entry.abandoned = False
        else:
            self.abandoned.discard(entry)

    def settle_others(self: KeyLanes) -> None:
        others = [entry for entry in self.ended if entry not in forgotten]
        self.ended.clear()
        self.ended.extend(others)
        settle(self)

    patch.setattr(KeyLanes, "abandon", and_say_nothing)
    patch.setattr(KeyLanes, "settle", settle_others)
