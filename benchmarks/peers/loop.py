"""What the peers that are written by hand have in common: one consumer, polled by one thread.

In: a job. Out: a thread that runs the peer's own loop. Every one of them uses `subscribe`, commits
without waiting every 100 ms as this library does, and is spared librdkafka's fetch back-off.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from confluent_kafka import KafkaException, Message, TopicPartition

from benchmarks.handler import Handler
from benchmarks.job import Job
from benchmarks.watched import BACKOFF, WatchedConsumer

BATCH = 500
POLL_S = 0.05
COMMIT_EVERY_S = 0.1
SESSION_TIMEOUT_MS = 6_000


def settings_of(job: Job) -> dict[str, str | int | bool]:
    """The configuration of a peer's consumer."""
    settings: dict[str, str | int | bool] = {
        **BACKOFF,
        "bootstrap.servers": job.bootstrap,
        "group.id": job.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
    }
    if job.instance:
        settings["group.instance.id"] = job.instance
    return settings


class Loop:
    """A consumer and its thread; `run` is the peer's."""

    def __init__(self, job: Job, handler: Handler) -> None:
        self.job = job
        self.handler = handler
        self.handled = 0
        self.joined = False
        self.stopping = threading.Event()
        self.consumer = WatchedConsumer(settings_of(job))
        self._committed_s = 0.0
        self._thread = threading.Thread(target=self._run, name="loop")

    def start(self) -> None:
        """Join."""
        self._thread.start()

    def stop(self) -> None:
        """Leave."""
        self.stopping.set()
        self._thread.join()

    @property
    def commits(self) -> tuple[int | None, int | None]:
        """Of offsets; librdkafka does not tell their bytes."""
        return self.consumer.commits, None

    def run(self) -> None:
        """Consume until `stopping`."""
        raise NotImplementedError

    def messages(self, count_max: int = BATCH) -> list[Message]:
        """What the consumer has now, or the first that comes: a full batch is not waited for."""
        messages = self.consumer.consume(count_max, 0)
        if not messages and (first := self.consumer.poll(POLL_S)) is not None:
            messages = [first]
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
        return messages

    def revoked(self) -> None:
        """Partitions are about to go: commit what was handled of them."""

    def is_time_to_commit(self) -> bool:
        """Whether the last commit is long enough ago."""
        return time.monotonic() - self._committed_s >= COMMIT_EVERY_S

    def commit(self, offsets: Mapping[int, int], *, last: bool = False) -> None:
        """Commit the first offset that is not done, by partition; the last one is waited for."""
        self._committed_s = time.monotonic()
        places = [TopicPartition(self.job.topic, p, offset) for p, offset in offsets.items()]
        self.consumer.commit(offsets=places, asynchronous=not last)

    def _run(self) -> None:
        self.consumer.subscribe([self.job.topic], on_assign=self._assigned, on_revoke=self._revoked)
        try:
            self.run()
        finally:
            self.consumer.close()

    def _assigned(self, *_: object) -> None:
        self.joined = True

    def _revoked(self, *_: object) -> None:
        self.revoked()
