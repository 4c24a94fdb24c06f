"""Two solutions without this library, each in its strongest usual form.

In: the same flights. Out: the same legs, in topics of their own. `PlainConsumer` is one member of a
plain consumer group: poll, process, commit. `LanesConsumer` is the usual hand-written solution to
the partition cap: one consumer, 64 threads, a key always on the thread hash(key) % 64; it commits
the lowest finished offset. Neither waits for the acknowledgement of each leg. The plain one flushes
before it commits, as the cooperative group does. The lanes count a flight as finished when its leg
is acknowledged. Both keep aircraft only in memory, and could not hand one to another process.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from coop_consumer.demo.aircraft import Leg, next_leg
from coop_consumer.demo.report import ChildReport, MemberTask
from coop_consumer.demo.topics import clients_of

LANES = 64
_COMMIT_EVERY_S = 0.5
_IN_FLIGHT_MAX = 10_000
_POLL_S = 0.05


class _Rival:
    """One consumer with its producer, and what it has done so far."""

    def __init__(self, task: MemberTask) -> None:
        self._topics = task.topics
        self._latency_s = task.latency_ms / 1_000
        self._consumer = _consumer(task)
        self._producer = _producer(task)
        self._last: dict[bytes, Leg] = {}
        self._handled = 0
        self._first_s = 0.0

    def report(self) -> ChildReport:
        """How far it is."""
        return ChildReport(self._handled, 0, self._first_s, time.time())


class PlainConsumer(_Rival):
    """One process of a plain group of as many processes as partitions."""

    _uncommitted = False

    def run(self, stop: threading.Event) -> None:
        """Consume until `stop` is set, then commit what is finished and leave the group."""
        # Commit polled records before another member takes their partitions over.
        self._consumer.subscribe([self._topics.flights], on_revoke=lambda *_: self._commit())
        committed_s = time.monotonic()
        while not stop.is_set():
            message = self._consumer.poll(_POLL_S)
            if message is not None:
                self._process(message)
            if time.monotonic() - committed_s >= _COMMIT_EVERY_S:
                self._commit()
                committed_s = time.monotonic()
        self._commit()
        self._consumer.close()

    def _process(self, message: Message) -> None:
        self._first_s = self._first_s or time.time()
        time.sleep(self._latency_s)
        tail, leg = _leg(message, self._last)
        self._producer.produce(
            self._topics.legs, leg.encode(), leg.key(tail), partition=leg.partition
        )
        self._producer.poll(0)
        self._uncommitted = True
        self._handled += 1

    def _commit(self) -> None:
        """Commit all that was polled, once its legs are safe."""
        self._producer.flush()
        if self._uncommitted:
            self._consumer.commit(asynchronous=False)
            self._uncommitted = False


class LanesConsumer(_Rival):
    """One consumer, a fixed thread for each share of the keys."""

    def __init__(self, task: MemberTask) -> None:
        super().__init__(task)
        self._lanes: list[SimpleQueue[Message | None]] = [SimpleQueue() for _ in range(LANES)]
        self._admitted: dict[int, deque[int]] = {}  # by partition, ascending
        self._finished: dict[int, set[int]] = {}
        self._count = threading.Lock()
        self._room = threading.Semaphore(_IN_FLIGHT_MAX)

    def run(self, stop: threading.Event) -> None:
        """Consume until `stop` is set, then commit what is finished and leave the group."""
        threads = [threading.Thread(target=self._work, args=(lane,)) for lane in self._lanes]
        for thread in threads:
            thread.start()
        self._consumer.subscribe([self._topics.flights])
        committed_s = time.monotonic()
        while not stop.is_set():
            for message in self._consumer.consume(500, timeout=_POLL_S):
                self._dispatch(message, stop)
            self._producer.poll(0)
            if time.monotonic() - committed_s >= _COMMIT_EVERY_S:
                self._commit()
                committed_s = time.monotonic()
        for lane in self._lanes:
            lane.put(None)
        for thread in threads:
            thread.join()
        self._producer.flush()
        self._commit()
        self._consumer.close()

    def _dispatch(self, message: Message, stop: threading.Event) -> None:
        partition, offset, tail = _place(message)
        while not self._room.acquire(timeout=_POLL_S):
            self._producer.poll(0)
            if stop.is_set():
                return
        self._admitted.setdefault(partition, deque()).append(offset)
        self._finished.setdefault(partition, set())
        self._lanes[(offset if tail is None else hash(tail)) % LANES].put(message)

    def _work(self, lane: SimpleQueue[Message | None]) -> None:
        while (message := lane.get()) is not None:
            self._first_s = self._first_s or time.time()
            time.sleep(self._latency_s)
            tail, leg = _leg(message, self._last)
            self._producer.produce(
                self._topics.legs,
                leg.encode(),
                leg.key(tail),
                partition=leg.partition,
                on_delivery=self._finisher(leg),
            )
            with self._count:
                self._handled += 1
            self._room.release()

    def _finisher(self, leg: Leg) -> Callable[[KafkaError | None, Message], None]:
        """Marks the flight finished when its leg is safe; runs on the consumer's thread."""

        def acknowledged(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            self._finished[leg.partition].add(leg.offset)

        return acknowledged

    def _commit(self) -> None:
        """Commit the lowest offset that is not finished, of each partition."""
        lowest = []
        for partition, admitted in self._admitted.items():
            finished, done = self._finished[partition], -1
            while admitted and admitted[0] in finished:
                done = admitted.popleft()
                finished.remove(done)
            if done >= 0:
                lowest.append(Place(self._topics.flights, partition, done + 1))
        if lowest:
            self._consumer.commit(offsets=lowest, asynchronous=False)


def _consumer(task: MemberTask) -> Consumer:
    return Consumer(
        {
            **clients_of(task.bootstrap),
            "group.id": task.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,  # the default, 1 s, would starve a fast loop
        }
    )


def _producer(task: MemberTask) -> Producer:
    return Producer({**clients_of(task.bootstrap), "enable.idempotence": True, "linger.ms": 5})


def _place(message: Message) -> tuple[int, int, bytes | None]:
    """Partition, offset and key of a message; KafkaException if it is an error."""
    error, partition, offset = message.error(), message.partition(), message.offset()
    if error is not None:
        raise KafkaException(error)
    assert partition is not None, "a record has a partition"
    assert offset is not None, "a record has an offset"
    return partition, offset, message.key()


def _leg(message: Message, last: dict[bytes, Leg]) -> tuple[bytes | None, Leg]:
    """The aircraft, and the leg that the message makes; `last` is brought up to date."""
    partition, offset, tail = _place(message)
    value = message.value()
    assert value is not None, "a flight has a value"
    leg = next_leg(None if tail is None else last.get(tail), value, partition, offset)
    if tail is not None:
        last[tail] = leg
    return tail, leg
