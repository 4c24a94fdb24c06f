"""A state machine for tests: registers with put and compare-and-set, over a commit log.

Records are JSON; a result is what the register has afterwards, and whether the write was done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from coop_consumer.logs import NewRecord, VisibleRecord


class Registers:
    """Values by key.

    Attributes:
        values: As of the last record that was applied.
        offsets: Of all records that were applied, in their order.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.offsets: list[int] = []

    def apply(self, records: Sequence[VisibleRecord]) -> Sequence[object]:
        return [self._applied(it) for it in records]

    def _applied(self, record: VisibleRecord) -> bool:
        self.offsets.append(record.offset)
        try:
            key, new, *expected = json.loads(record.value or b"")
        except ValueError:  # a stranger's
            return False
        if expected and self.values.get(key) != expected[0]:
            return False
        self.values[key] = new
        return True

    def snapshot(self) -> Iterable[bytes]:
        for item in self.values.items():
            yield json.dumps(item).encode()

    def restore(self, parts: Iterable[bytes]) -> None:
        self.values = dict(json.loads(it) for it in parts)


def put(key: str, value: Any) -> NewRecord:
    """Sets a register."""
    return NewRecord(key.encode(), json.dumps([key, value]).encode())


def compare_and_set(key: str, expected: Any, value: Any) -> NewRecord:
    """Sets a register that has a value."""
    return NewRecord(key.encode(), json.dumps([key, value, expected]).encode())
