"""What a commit log asks of the user's state. Pure.

In: records of the log, in order, each once. Out: a result a record, and the whole state in parts.
All calls come on the log's one thread, never two at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from coop_consumer.logs.records import VisibleRecord

SNAPSHOT_PART_MAX_BYTES = 512 << 10
"""A part of a snapshot is a record of its topic, which takes 1 MB."""


class StateMachine(Protocol):
    """A state that follows from the records of a log, and from nothing else.

    If it rested on a clock, on chance or on anything else, those who read the same log would come
    to different states.
    """

    def apply(self, records: Sequence[VisibleRecord]) -> Sequence[object]:
        """Take in records; one result for each, for whoever has appended it.

        It must take in any record, also one that it cannot read: to raise ends the log here, and
        wherever else it is read.
        """

    def snapshot(self) -> Iterable[bytes]:
        """The whole state, in parts of up to `SNAPSHOT_PART_MAX_BYTES`."""

    def restore(self, parts: Iterable[bytes]) -> None:
        """Replace the state by that of a snapshot."""
