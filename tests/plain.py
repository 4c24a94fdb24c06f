"""Plain consumers and a steady stream of records, for groups that change hands while they run.

In: the settings of a confluent client, a topic. Out: rows in a `Journal`, places of what was
written. A plain consumer here is what most are: it polls, works, and leaves its commits to
`enable.auto.commit`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message

from tests.journal import WAIT_S, Journal, Place, Row
from tests.stock import produce

FEED_EVERY_S = 0.05
_RUNS = count(1)


class PlainConsumer:
    """One plain consumer on a thread of its own, from its making to `stop`."""

    def __init__(
        self, settings: Mapping[str, Any], topic: str, group: str, strategy: str, journal: Journal
    ) -> None:
        self._journal = journal
        self._run = next(_RUNS)
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                **settings,
                "group.id": group,
                "partition.assignment.strategy": strategy,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._consumer.subscribe([topic])
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"plain-{self._run}")
        self._ended = executor.submit(self._run_until_stopped)
        executor.shutdown(wait=False)

    def _run_until_stopped(self) -> None:
        try:
            while not self._stopping.is_set():
                message = self._consumer.poll(0.05)
                if message is not None:
                    self._process(message)
        finally:
            self._consumer.close()

    def _process(self, message: Message) -> None:
        started_ns = time.monotonic_ns()
        if (error := message.error()) is not None:
            raise KafkaException(error)
        place = message.partition() or 0, message.offset() or 0
        key = (message.key() or b"").decode()
        self._journal.note(Row(*place, key, started_ns, time.monotonic_ns(), "plain", self._run))

    def stop(self) -> None:
        """Let it commit and leave; what it failed by is raised here."""
        self._stopping.set()
        self._ended.result(WAIT_S)


class Feed:
    """Writes records for as long as its block lasts; all keys come evenly often."""

    def __init__(self, settings: Mapping[str, Any], topic: str, keys: int, batch: int) -> None:
        self._settings = settings
        self._topic = topic
        self._keys = [f"key-{number}" for number in range(keys)]
        self._batch = batch
        self._ending = threading.Event()
        self.places: list[Place] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        thread = threading.Thread(target=self._write, name="feed")
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _write(self) -> None:
        written = 0
        while not self._ending.wait(FEED_EVERY_S):
            keys = [self._keys[(written + i) % len(self._keys)] for i in range(self._batch)]
            self.places += produce(self._settings, self._topic, keys)
            written += len(keys)
