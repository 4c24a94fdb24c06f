"""A plain group: each process takes whole partitions and handles one record after the other.

In: a job. Out: what most services are. A batch is what the consumer has.
"""

from __future__ import annotations

from confluent_kafka import Message

from benchmarks.handler import Handler
from benchmarks.job import Job
from benchmarks.peers.loop import Loop


class Plain(Loop):
    """One process of the group."""

    def __init__(self, job: Job, handler: Handler) -> None:
        super().__init__(job, handler)
        self._new: dict[int, int] = {}

    def run(self) -> None:
        """Handle, and commit what was handled."""
        handle = self.handler.handle
        while not self.stopping.is_set():
            messages = self.messages()
            if messages and self.job.work == "batch":
                self._handle_batch(messages)
                messages = []
            for message in messages:
                partition, offset = message.partition() or 0, message.offset() or 0
                handle(partition, offset, message.key() or b"")
                self.handled += 1
                self._new[partition] = offset + 1
                if self.job.work_ms:  # else a look at the clock would cost as much as the record
                    self._commit_in_time()
                    if self.stopping.is_set():
                        break
            self._commit_in_time()
        if self._new:
            self.commit(self._new, last=True)

    def _handle_batch(self, messages: list[Message]) -> None:
        partitions = [message.partition() or 0 for message in messages]
        offsets = [message.offset() or 0 for message in messages]
        keys = [message.key() or b"" for message in messages]
        self.handler.handle_batch(partitions, offsets, keys, one_by_one=True)
        self.handled += len(messages)
        for partition, offset in zip(partitions, offsets, strict=True):
            self._new[partition] = offset + 1

    def revoked(self) -> None:
        """All that was polled is handled by now."""
        if self._new:
            self.commit(self._new, last=True)
            self._new = {}

    @property
    def committed_ns(self) -> int:
        """As the consumer saw it."""
        return self.consumer.committed_ns

    def _commit_in_time(self) -> None:
        if self._new and self.is_time_to_commit():
            self.commit(self._new)
            self._new = {}


def make(job: Job, handler: Handler) -> Plain:
    """As `MakeSystem`."""
    return Plain(job, handler)
