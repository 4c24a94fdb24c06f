"""Topics to measure on: made and filled.

In: a broker, a case. Out: a topic's name, and when each record of a live one was made. Values are
100 bytes, not compressed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from threading import Event
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.case import Case
from tests.support.journal import Place
from tests.support.stock import records_of
from tests.support.topics import create_topic

PARTITIONS = 3
VALUE = b"x" * 100
_ANSWER_S = 30.0

Output = tuple[bytes, Place]

_QUEUED_MAX = 1_000_000
"""So many records wait at most for a broker that is slower than this program."""


def made(bootstrap: str, partitions: int = PARTITIONS) -> str:
    """An empty topic."""
    topic = f"bench-{uuid4().hex[:8]}"
    create_topic(AdminClient({"bootstrap.servers": bootstrap}), topic, partitions)
    return topic


def produced(bootstrap: str, records: int, keys: int, value: bytes) -> str:
    """A topic with keys that recur evenly, in an order that is not that of their hashes."""
    topic = made(bootstrap)
    fill(bootstrap, topic, Case(name="", records=records, keys=keys).record_keys(), value)
    return topic


def fill(
    bootstrap: str,
    topic: str,
    keys: Iterable[str],
    value: bytes = VALUE,
    headers: Sequence[tuple[str, bytes]] = (),
) -> None:
    """Produce a record for each key, as fast as it goes.

    Raises:
        AssertionError: The broker did not take all of them.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "queue.buffering.max.messages": 2 * _QUEUED_MAX,
        }
    )
    for number, key in enumerate(keys):
        while len(producer) >= _QUEUED_MAX:
            producer.poll(0.1)
        producer.produce(topic, value, key=key, headers=list(headers))
        if number % 1_000 == 0:
            producer.poll(0)
    left = producer.flush()
    assert left == 0, f"{left} records were not taken"


def feed(bootstrap: str, topic: str, case: Case) -> dict[Place, int]:
    """Produce at the case's rate, each record at its own moment.

    Returns:
        When each record was made, by the monotonic clock in ns.
    """
    made_ns: dict[Place, int] = {}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    waiting, begun_s = Event(), time.monotonic()
    for number, key in enumerate(case.record_keys()):
        due_s = begun_s + number / case.rate - time.monotonic()
        if due_s > 0:
            waiting.wait(due_s)
        now_ns = time.monotonic_ns()

        def note(error: object, message: Message, now_ns: int = now_ns) -> None:
            if error is not None:
                raise KafkaException(error)
            made_ns[message.partition() or 0, message.offset() or 0] = now_ns

        producer.produce(topic, VALUE, key=key, on_delivery=note)
        producer.poll(0)
    producer.flush()
    return made_ns


def sent(bootstrap: str, topic: str, partitions: int) -> list[Output]:
    """The outputs that a reader of committed records finds, those of a partition in its order."""
    client = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    return [
        output_of(message.key() or b"", message.value() or b"")
        for number in range(partitions)
        for message in records_of(client, topic, number)
    ]


def output_of(key: bytes, value: bytes) -> Output:
    """The key of an output, and the place of its record.

    >>> output_of(b"key-1", b"2/41")
    (b'key-1', (2, 41))
    """
    partition, _, offset = value.partition(b"/")
    return key, (int(partition), int(offset))


def ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """How many records each partition has."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        return [consumer.get_watermark_offsets(place, _ANSWER_S)[1] for place in places]
    finally:
        consumer.close()
