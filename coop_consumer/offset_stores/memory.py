"""An offset store in this process's memory: for tests, and for jobs that one process runs.

In: commits of any thread. Out: answers at once. Nothing outlasts the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from assignors import TopicPartition
from coop_consumer.arguments import seconds
from coop_consumer.offset_stores import store
from offsets import OffsetConflict, OffsetEntry, OffsetTable


class MemoryOffsetStore(store.OffsetStore):
    """See `OffsetStore`. All or none, and `expected`; nothing is durable.

    >>> offsets, orders = MemoryOffsetStore(), TopicPartition("orders", 3)
    >>> offsets.commit("billing", {orders: OffsetEntry(42)}, expected={orders: None})
    >>> offsets.commit("billing", {orders: OffsetEntry(50)}, expected={orders: 41}).found[orders]
    OffsetEntry(offset=42, metadata='', gaps=())
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = OffsetTable()
        self._is_closed = False

    def commit_later(
        self,
        group: str,
        entries: Mapping[TopicPartition, OffsetEntry],
        expected: Mapping[TopicPartition, int | None] | None = None,
    ) -> Future[OffsetConflict | None]:
        """See `OffsetStore`; done when it returns."""
        commit = store.checked(group, entries, expected)
        answer: Future[OffsetConflict | None] = Future()
        with self._lock:
            if self._is_closed:
                raise store.closed("commit()")
            try:
                self._table.check_room(group, (place.topic for place in commit.entries))
            except ValueError as error:
                raise store.full(error) from error
            conflict = commit.conflict(self._table.get)
            if conflict is None:
                for place, entry in commit.entries.items():
                    self._table.put(group, place, entry)
        answer.set_result(conflict)
        return answer

    def fetch(
        self,
        group: str,
        places: Iterable[TopicPartition],
        *,
        timeout_s: float = store.TIMEOUT_S,
    ) -> dict[TopicPartition, OffsetEntry]:
        """See `OffsetStore`."""
        wanted = store.checked_places(group, places)
        seconds("fetch()", timeout_s)  # others wait
        with self._lock:
            if self._is_closed:
                raise store.closed("fetch()")
            return self._table.found(group, wanted)

    def close(self) -> None:
        """See `OffsetStore`."""
        with self._lock:
            self._is_closed = True
