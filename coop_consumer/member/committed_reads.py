"""Reads of the group's committed offsets: one at a time, for all that was asked for meanwhile.

In: partitions, whenever the core wants to know. Out: what is committed of them, or the error. A
member that gets a thousand partitions asks for each several times; alone each is a request.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from assignors import TopicPartition
from offsets import Committed

Found = dict[TopicPartition, Committed | None]

_PATIENCE_S = 30.0
"""As long as the core waits before it asks again: it may be that no answer will ever come."""


class CommittedReads:
    """Asks for committed offsets.

    Args:
        read: Asks the group's coordinator; the answer comes on any thread.
        told: Takes the partitions of a read and what it has found, on that thread.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        read: Callable[[list[TopicPartition]], Future[Found]],
        told: Callable[[list[TopicPartition], Future[Found]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._told = told
        self._clock = clock
        self._lock = threading.Lock()  # guards the others
        self._wanted: dict[TopicPartition, None] = {}
        self._number = 0
        self._waits_until_s: float | None = None

    def ask(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these, from now on: an answer that is under way is too old. Never blocks."""
        with self._lock:
            self._wanted.update(dict.fromkeys(partitions))
            if self._waits_until_s is not None and self._clock() < self._waits_until_s:
                return
        self._next()

    def _next(self) -> None:
        with self._lock:
            partitions, self._wanted = list(self._wanted), {}
            self._number = number = self._number + 1
            self._waits_until_s = self._clock() + _PATIENCE_S if partitions else None
        if partitions:
            self._read(partitions).add_done_callback(
                lambda done: self._done(number, partitions, done)
            )

    def _done(self, number: int, partitions: list[TopicPartition], done: Future[Found]) -> None:
        topics: dict[str, list[TopicPartition]] = defaultdict(list)
        for tp in partitions:
            topics[tp.topic].append(tp)
        try:
            if done.exception() is None or len(topics) == 1:
                self._told(partitions, done)
            else:  # a right that one topic lacks fails all
                for of_one in topics.values():
                    self._read_alone(of_one)
        finally:
            if number == self._number:
                self._next()

    def _read_alone(self, partitions: list[TopicPartition]) -> None:
        self._read(partitions).add_done_callback(lambda done: self._told(partitions, done))
