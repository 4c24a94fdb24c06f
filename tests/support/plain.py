"""Plain consumers and a steady stream of records, for groups that change hands while they run.

In: a job. Out: rows in a `Journal`, places of written records. A plain consumer here does what most
do: it polls, works, and leaves its commits to `enable.auto.commit`.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message

from coop_consumer.broker import ensure_jars, find_java
from tests.support import jvm
from tests.support.job import Job
from tests.support.journal import WAIT_S, Journal, Place, Row

FEED_EVERY_S = 0.05
PLAIN_NAMES = "plain", "java"
"""How the plain consumers here are called in a journal."""
_JAVA_SOURCE = Path(__file__).with_name("PlainConsumer.java")
_JAVA_ASSIGNORS = {
    "range": "",  # the client's default, which begins with it
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
_RUNS = count(1)


class PlainConsumer:
    """One plain consumer on a thread of its own, until `stop`."""

    def __init__(self, job: Job, strategy: str, journal: Journal) -> None:
        self._journal = journal
        self._run = next(_RUNS)
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                **job.client,
                "group.id": job.group,
                "partition.assignment.strategy": strategy,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._consumer.subscribe([job.topic])
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
        self._journal.note(
            Row(*place, key, started_ns, time.monotonic_ns(), PLAIN_NAMES[0], self._run)
        )

    def stop(self) -> None:
        """Let it commit and leave; raises the error by which it failed."""
        self._stopping.set()
        self._ended.result(WAIT_S)


class JavaConsumer:
    """The same in Java, by the kafka-clients of the embedded broker, in a process of its own.

    Java runs the source file, so it needs its compiler, as a JDK has.
    """

    def __init__(self, job: Job, strategy: str, journal: Journal, log: Path) -> None:
        self._journal = journal
        self._run = next(_RUNS)
        self._log = log
        java = [find_java().executable, *jvm.FLAGS, "-cp", f"{ensure_jars()}/*", _JAVA_SOURCE]
        bootstrap = str(job.client["bootstrap.servers"])
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [*java, bootstrap, job.topic, job.group, _JAVA_ASSIGNORS[strategy]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._reader = threading.Thread(target=self._read, name=f"java-{self._run}")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            partition, offset, key, started_ns, ended_ns = line.decode().split()
            place = int(partition), int(offset)
            self._journal.note(
                Row(*place, key, int(started_ns), int(ended_ns), PLAIN_NAMES[1], self._run)
            )

    def stop(self) -> None:
        """Let it commit and leave; a second call does nothing."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(WAIT_S)
            finally:
                process.kill()
                self._reader.join(WAIT_S)
        assert process.returncode == 0, self._log.read_text()[-5_000:]


class Feed:
    """Writes records for the length of its block; all keys come equally often."""

    def __init__(self, job: Job, keys: int, batch: int) -> None:
        self._job = job
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
            self.places += self._job.produce(keys)
            written += len(keys)
