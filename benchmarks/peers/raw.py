"""The raw loop: one confluent Consumer that touches key and offset of each record.

In: a job. Out: how fast Python can see records at all. It processes nothing and commits nothing.
"""

from __future__ import annotations

import time

from benchmarks.handler import Handler
from benchmarks.job import Job
from benchmarks.peers.loop import BATCH, POLL_S, Loop


class Raw(Loop):
    """The loop."""

    def __init__(self, job: Job, handler: Handler) -> None:
        super().__init__(job, handler)
        self._seen_ns = 0

    def run(self) -> None:
        """See every record."""
        handler, consume = self.handler, self.consumer.consume
        while not self.stopping.is_set():
            messages = consume(BATCH, POLL_S)
            if not messages:
                continue
            if not handler.first_ns:
                handler.first_ns = time.monotonic_ns()
            for message in messages:
                message.key()
                message.offset()
            self.handled += len(messages)
            self._seen_ns = time.monotonic_ns()

    @property
    def committed_ns(self) -> int:
        """When it last saw a record: there is no commit to wait for."""
        return self._seen_ns


def make(job: Job, handler: Handler) -> Raw:
    """As `MakeSystem`."""
    return Raw(job, handler)
