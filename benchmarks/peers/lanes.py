"""Lanes by hand: one consumer, a fixed thread for each share of the keys.

In: a job. Out: the usual way past the partition cap. A key is always on the thread `hash(key) % n`,
which has a queue; committed is the lowest offset that is not finished.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue

from benchmarks.handler import Handler
from benchmarks.job import Job
from benchmarks.peers.loop import BATCH, Loop

_IN_FLIGHT_MAX = 10_000

_Place = tuple[int, int, bytes]


class Lanes(Loop):
    """A consumer and its lanes."""

    def __init__(self, job: Job, handler: Handler) -> None:
        super().__init__(job, handler)
        self._lanes: list[SimpleQueue[_Place | None]] = [SimpleQueue() for _ in range(job.width)]
        self._threads = [threading.Thread(target=self._work, args=(it,)) for it in self._lanes]
        self._admitted: dict[int, deque[int]] = {}  # by partition, ascending
        self._finished: dict[int, set[int]] = {}
        self._count = threading.Lock()
        self._taken = 0

    def run(self) -> None:
        """Deal records out, and commit."""
        for thread in self._threads:
            thread.start()
        while not self.stopping.is_set():
            room = min(BATCH, _IN_FLIGHT_MAX - (self._taken - self.handled))
            if room > 0:
                for message in self.messages(room):
                    self._deal(message.partition() or 0, message.offset() or 0, message.key())
            else:
                self.stopping.wait(0.001)  # not paused: that would throw away what was fetched
            if self.is_time_to_commit() and (lowest := self._lowest()):
                self.commit(lowest)
        for lane in self._lanes:
            lane.put(None)
        for thread in self._threads:
            thread.join()
        if lowest := self._lowest():
            self.commit(lowest, last=True)

    @property
    def committed_ns(self) -> int:
        """As the consumer saw it."""
        return self.consumer.committed_ns

    def _deal(self, partition: int, offset: int, key: bytes | None) -> None:
        if partition not in self._admitted:
            self._admitted[partition], self._finished[partition] = deque(), set()
        self._admitted[partition].append(offset)
        self._taken += 1
        key = key or b""
        self._lanes[hash(key) % len(self._lanes)].put((partition, offset, key))

    def _work(self, lane: SimpleQueue[_Place | None]) -> None:
        handle = self.handler.handle
        while (place := lane.get()) is not None:
            handle(*place)
            self._finished[place[0]].add(place[1])
            with self._count:
                self.handled += 1

    def _lowest(self) -> dict[int, int]:
        """The lowest offset that is not finished, of each partition where that has moved."""
        lowest = {}
        for partition, admitted in self._admitted.items():
            finished = self._finished[partition]
            while admitted and admitted[0] in finished:
                finished.remove(admitted[0])
                lowest[partition] = admitted.popleft() + 1
        return lowest


def make(job: Job, handler: Handler) -> Lanes:
    """As `MakeSystem`."""
    return Lanes(job, handler)
