"""`FlightWorker`: a worker with state of its own for each key, that survives crashes and moves.

In: flights, keyed by tail number. Out: one `Leg` a flight in the topic `legs`, and the same leg in
the compacted topic `last_leg`, which thereby holds the last leg of every aircraft: its state.

How the state moves with its range:

1. `process` returns, and its flight counts as done, only when the broker has acknowledged both
   records. A flight that is done therefore has its leg in `last_leg`.
2. A new owner reads `last_leg` to its end in `on_ranges_assigned`, before the first flight of the
   range. Whoever owned it before has nothing of it running any more, so what it reads is the last
   word. Both topics have the partitions of the flights: it reads one partition, and of that only
   what it has not read before.
3. After a crash, flights that were processed but not yet committed come again. A leg names its
   flight's offset: one at the last leg's offset sends that same leg again (perhaps only one of the
   two records had been written), one below it has both records for certain and is skipped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import assignors
from coop_consumer.demo.aircraft import Leg, next_leg
from coop_consumer.demo.topics import FlightTopics
from coop_consumer.worker import Context, Record, Worker

_READ_AT_ONCE = 10_000
_BROKER_TIMEOUT_S = 30.0


class FlightWorker(Worker):
    """Follows every aircraft.

    Args:
        clients: Settings of the producer and the state's consumer: at least `bootstrap.servers`.
        topics: Their names.
        latency_s: A stand-in for a call to a remote service; each flight sleeps so long.

    Attributes:
        handled: Calls of `process` that have ended, repeats included.
        skipped: Those among them whose leg was known already.
        first_s: Unix time at which the first one began; 0.0 before.
    """

    def __init__(
        self, clients: Mapping[str, str], topics: FlightTopics, *, latency_s: float
    ) -> None:
        self._topics = topics
        self._latency_s = latency_s
        self._last: dict[bytes, Leg] = {}
        self._count = threading.Lock()
        self.handled = self.skipped = 0
        self.first_s = 0.0
        self._output = LegWriter(clients, topics)
        self._state = StateReader(clients, topics.last_leg)

    def setup(self, context: Context) -> None:
        """Start the thread that receives acknowledgements."""
        del context  # nothing in there that it needs
        self._output.start()

    def on_ranges_assigned(
        self, tp: assignors.TopicPartition, ranges: tuple[assignors.KeyRange, ...]
    ) -> None:
        """Read the last leg of every aircraft in these ranges."""
        for tail, value in self._state.read(tp.partition).items():
            if any(assignors.key_hash(tail) in key_range for key_range in ranges):
                self._last[tail] = Leg.decode(value)

    def process(self, record: Record) -> None:
        """Make the flight's leg, send it, and wait for the broker to have it."""
        if not self.first_s:
            self.first_s = time.time()
        time.sleep(self._latency_s)
        value = record.value
        assert value is not None, "a flight has a value"
        tail, offset = record.key, record.offset
        last = None if tail is None else self._last.get(tail)
        skipped = last is not None and offset < last.offset
        if not skipped:
            leg = (
                last
                if last is not None and offset == last.offset
                else next_leg(last, value, record.partition, offset)
            )
            self._output.write(tail, leg)
            if tail is not None:
                self._last[tail] = leg
        with self._count:
            self.handled += 1
            self.skipped += skipped

    def teardown(self) -> None:
        """Close the clients."""
        self._output.close()
        self._state.close()


class LegWriter:
    """Writes legs, and waits until the broker has them; many threads wait at a time."""

    def __init__(self, clients: Mapping[str, str], topics: FlightTopics) -> None:
        self._topics = topics
        # Sixteen workers write at a time: a ms of linger lets their legs share a request.
        self._producer = Producer({**clients, "enable.idempotence": True, "linger.ms": 1})
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="legs", daemon=True)

    def start(self) -> None:
        """Start the thread that receives acknowledgements."""
        self._thread.start()

    def write(self, tail: bytes | None, leg: Leg) -> None:
        """Write the leg and, if the aircraft is known, its state. Returns when both are safe.

        Raises:
            KafkaException: One of them may not be; the record is to be tried again.
        """
        value = leg.encode()
        receipt = Receipt(1 if tail is None else 2)
        self._produce(self._topics.legs, tail, value, leg.partition, receipt)
        if tail is not None:
            self._produce(self._topics.last_leg, tail, value, leg.partition, receipt)
        receipt.wait()

    def _produce(
        self, topic: str, tail: bytes | None, value: bytes, partition: int, receipt: Receipt
    ) -> None:
        self._producer.produce(
            topic, value, tail, partition=partition, on_delivery=receipt.delivered
        )

    def _receive(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.1)

    def close(self) -> None:
        """Nothing waits any more: end the thread."""
        self._closing.set()
        self._thread.join()
        self._producer.flush(_BROKER_TIMEOUT_S)


class Receipt:
    """Waits for the acknowledgements of some messages, which one thread receives."""

    __slots__ = ("_awaited", "_complete", "_error")

    def __init__(self, awaited: int) -> None:
        self._awaited = awaited
        self._error: KafkaError | None = None
        self._complete = threading.Lock()  # the cheapest thing to wait on: held until complete
        self._complete.acquire()

    def delivered(self, error: KafkaError | None, _: Message) -> None:
        """One message is in the log, or has failed for good."""
        self._error = self._error or error
        self._awaited -= 1
        if not self._awaited:
            self._complete.release()

    def wait(self) -> None:
        """Return when all are in the log; KafkaException if one is not."""
        self._complete.acquire()
        if self._error is not None:
            raise KafkaException(self._error)


class StateReader:
    """Reads partitions of the compacted topic to their end, each time from where it was."""

    def __init__(self, clients: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._next_offset: dict[int, int] = {}
        self._values: dict[int, dict[bytes, bytes]] = {}
        self._consumer = Consumer(
            {
                **clients,
                "group.id": "unused",  # the client insists on one; nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 1,
                "fetch.wait.max.ms": 10,
            }
        )

    def read(self, partition: int) -> dict[bytes, bytes]:
        """The last value of every key of the partition, as of now. One thread at a time."""
        values = self._values.setdefault(partition, {})
        at = self._next_offset.get(partition, 0)
        place = TopicPartition(self._topic, partition, at)
        end = self._consumer.get_watermark_offsets(place, timeout=_BROKER_TIMEOUT_S)[1]
        if at < end:
            self._consumer.assign([place])
        while at < end:
            for message in self._consumer.consume(_READ_AT_ONCE, timeout=0.05):
                error, key, value = message.error(), message.key(), message.value()
                if error is not None:
                    raise KafkaException(error)
                assert key is not None, "state has a key"
                assert value is not None, "state is never deleted"
                values[key] = value
            at = self._position(place, at)
        self._consumer.unassign()
        self._next_offset[partition] = at
        return values

    def _position(self, place: TopicPartition, before: int) -> int:
        """How far we are; compaction leaves holes, so it is not the last message's offset + 1."""
        position = self._consumer.position([place])[0].offset
        return max(position, before)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
