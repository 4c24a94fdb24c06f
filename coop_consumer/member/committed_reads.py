"""Reads of the group's committed offsets: one at a time, for all that was asked for meanwhile.

In: partitions, whenever the core wants to know. Out: what is committed of them, or the error. A
member that gets a thousand partitions asks for each several times; alone each is a request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from assignors import TopicPartition
from offsets import Committed

Found = dict[TopicPartition, Committed | None]


class CommittedReads:
    """Asks for committed offsets.

    Args:
        read: Asks the group's coordinator; the answer comes on any thread.
        told: Takes the partitions of a read and what it has found, on that thread.
    """

    def __init__(
        self,
        read: Callable[[list[TopicPartition]], Future[Found]],
        told: Callable[[list[TopicPartition], Future[Found]], None],
    ) -> None:
        self._read = read
        self._told = told
        self._lock = threading.Lock()  # guards the other two
        self._wanted: dict[TopicPartition, None] = {}
        self._is_reading = False

    def ask(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these, from now on: an answer that is under way is too old. Never blocks."""
        with self._lock:
            self._wanted.update(dict.fromkeys(partitions))
            if self._is_reading:
                return
            self._is_reading = True
        self._next()

    def _next(self) -> None:
        with self._lock:
            partitions, self._wanted = list(self._wanted), {}
            self._is_reading = bool(partitions)
        if not partitions:
            return
        try:
            answer = self._read(partitions)
        except BaseException:
            with self._lock:
                self._is_reading = False
            raise
        answer.add_done_callback(lambda done: self._done(partitions, done))

    def _done(self, partitions: list[TopicPartition], done: Future[Found]) -> None:
        try:
            self._told(partitions, done)
        finally:
            self._next()
