"""Commits of offsets for the group: one at a time, with all that was asked for meanwhile.

In: commits, whenever the core wants one. Out: what became of each. A member that gets a thousand
partitions tags each of them; a request takes a coordinator and us some 10 ms, however much it has.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from assignors import TopicPartition
from coop_consumer.core.actions import CommitOffsets
from coop_consumer.errors import CoopConsumerError, Told
from offsets import Committed


class OffsetCommits:
    """Commits offsets.

    Args:
        commit: Asks the group's coordinator, under a generation; it calls back once, on any thread.
        told: Takes each commit and its error, or None; on that thread.
    """

    def __init__(
        self,
        commit: Callable[[Mapping[TopicPartition, Committed], int, Told], None],
        told: Callable[[CommitOffsets, CoopConsumerError | None], None],
    ) -> None:
        self._commit = commit
        self._told = told
        self._lock = threading.Lock()  # guards the others
        self._waiting: deque[CommitOffsets] = deque()
        self._is_under_way = False

    def add(self, asked: CommitOffsets) -> None:
        """Commit this, now or with the next ones. Never blocks."""
        with self._lock:
            self._waiting.append(asked)
            if self._is_under_way:
                return
            self._is_under_way = True
        self._next()

    def _next(self) -> None:
        with self._lock:
            if not self._waiting:
                self._is_under_way = False
                return
            generation = self._waiting[0].generation
            together = list(takewhile(lambda it: it.generation == generation, self._waiting))
            for _ in together:
                self._waiting.popleft()
        offsets = {tp: value for asked in together for tp, value in asked.offsets.items()}
        self._commit(offsets, generation, lambda error: self._done(together, error))

    def _done(self, together: Sequence[CommitOffsets], error: CoopConsumerError | None) -> None:
        try:
            for asked in together:
                if error is None or len(together) == 1:
                    self._told(asked, error)
                else:  # what one of them lacks fails all
                    self._commit_alone(asked)
        finally:
            self._next()

    def _commit_alone(self, asked: CommitOffsets) -> None:
        self._commit(asked.offsets, asked.generation, lambda error: self._told(asked, error))
