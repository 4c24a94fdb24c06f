"""Stock tools beside our members: producers, a plain consumer, an admin client.

In: the settings of a confluent client. Out: records written, offsets committed and read, and the
progress log as anybody can read it. Nothing here joins a group by our protocol.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._group import ConsumerGroupDescription

from coop_consumer.core.placement import log_partition_of
from coop_consumer.kafka.coordinator import committed_at
from coop_consumer.kafka.topics import LATEST
from offsets import Committed, LogRecord, PartitionStore, ProgressStore, Tag
from tests.support.journal import WAIT_S

Value = TypeVar("Value")
Settings = Mapping[str, Any]

POLL_S = 0.05
ANY_PARTITION = -1
ANSWER_TIMEOUT_S = 5.0
COORDINATOR_LOADS = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
PROGRESS_TOPIC = "__individual_commit_offsets"


def eventually(
    probe: Callable[[], Value], accept: Callable[[Value], bool] = bool, within_s: float = WAIT_S
) -> Value:
    """Ask a broker until the answer is accepted: a broker does not report by itself."""
    pause, deadline = threading.Event(), time.monotonic() + within_s
    while not accept(answer := probe()):
        assert time.monotonic() < deadline, f"not in {within_s} s; the last answer: {answer}"
        pause.wait(POLL_S)
    return answer


def patiently(ask: Callable[[], Value]) -> Value:
    """Ask again while brokers refuse: a leader may be on the move, or have just been chosen."""
    pause, deadline = threading.Event(), time.monotonic() + WAIT_S
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            pause.wait(POLL_S)


# -- records ---------------------------------------------------------------------------------------


def produce(
    settings: Settings, topic: str, keys: Sequence[str | None], partition: int = ANY_PARTITION
) -> list[tuple[int, int]]:
    """Write one record for each key; returns the place of each, once all are acknowledged."""
    places: dict[int, tuple[int, int]] = {}
    failures: list[KafkaError] = []

    def note(number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        places[number] = message.partition() or 0, message.offset() or 0

    room = {"queue.buffering.max.messages": 1_000_000}  # nobody waits for room below
    producer = Producer({**settings, **room, "linger.ms": 5, "acks": "all"})
    for number, key in enumerate(keys):
        encoded = None if key is None else key.encode()
        producer.produce(topic, b"value", encoded, partition, partial(note, number))
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    assert failures == []
    return [places[number] for number in range(len(keys))]


def abort(settings: Settings, topic: str, count: int) -> None:
    """Write so many records to partition 0, in a transaction that comes to nothing."""
    producer = Producer({**settings, "transactional.id": f"aborts-{topic}"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, b"value", b"aborted-%d" % number, 0)
    assert producer.flush(WAIT_S) == 0
    producer.abort_transaction(WAIT_S)


def keys_of(count: int, distinct: int) -> list[str]:
    """`count` keys, `distinct` different ones, equally often and spread out."""
    return [f"key-{i * 7919 % distinct}" for i in range(count)]


def records_of(
    settings: Settings, topic: str, partition: int = 0, *, below_open: bool = False
) -> list[Message]:
    """All committed records that a partition has now; joins no group.

    Not up to the first empty answer (`_PARTITION_EOF`): none comes while somebody goes on to write.
    It waits for markers first, which come after the answer to a commit: a client is
    `read_committed` unless told otherwise. Or, `below_open`, it reads as far as it can now.

    Raises:
        TimeoutError: The partition's end was not reached.
    """
    if settings.get("isolation.level") != "read_uncommitted" and not below_open:
        client = {name: it for name, it in settings.items() if name != "isolation.level"}
        wait_until_decided(AdminClient(client), topic, partition)
    asked = {"group.id": "reader", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({**settings, **asked, "auto.offset.reset": "earliest"})
    found: list[Message] = []
    try:
        _, end = patiently(lambda: consumer.get_watermark_offsets(Place(topic, partition), WAIT_S))
        consumer.assign([Place(topic, partition, 0)])
        while (message := consumer.poll(WAIT_S)) is not None:
            error, offset = message.error(), message.offset() or 0
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return found
            if error is not None:
                raise KafkaException(error)
            if offset < end:
                found.append(message)
            if offset + 1 >= end:
                return found
    finally:
        consumer.close()
    raise TimeoutError(f"{topic}-{partition}: no end within {WAIT_S} s")


def plain_visit(settings: Settings, topic: str, group: str, count: int) -> list[tuple[int, int]]:
    """Let a plain consumer read `count` records as the only member, commit them, and leave."""
    consumer = Consumer(
        {
            **settings,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        found = consumer.consume(count, WAIT_S)
        assert [message.error() for message in found] == [None] * count
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted((message.partition() or 0, message.offset() or 0) for message in found)


# -- groups ----------------------------------------------------------------------------------------


def described(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    """The group as its coordinator describes it, once the coordinator has loaded it.

    While a broker makes its first group, librdkafka may lose a request and time out.
    """

    def ask() -> ConsumerGroupDescription | None:
        asked = admin.describe_consumer_groups([group], request_timeout=ANSWER_TIMEOUT_S)
        try:
            found: ConsumerGroupDescription = asked[group].result(WAIT_S)
        except KafkaException as error:
            if error.args[0].code() in (*COORDINATOR_LOADS, KafkaError._TIMED_OUT):
                return None
            raise
        return found

    found = eventually(ask)
    assert found is not None
    return found


def wait_until_empty(admin: AdminClient, group: str) -> None:
    """Wait until the group has no members, so that offsets may be altered."""
    gone = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
    eventually(lambda: described(admin, group).state, lambda state: state in gone)


def committed(admin: AdminClient, group: str) -> dict[tuple[str, int], tuple[int, str | None]]:
    """What stock tools see as committed: (topic, partition) → offset and metadata."""
    # librdkafka's admin client dies of a null pointer if a coordinator that is not ready is asked
    # for offsets (its issue 5040); one that could describe the group is ready.
    described(admin, group)
    [future] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = future.result(WAIT_S).topic_partitions
    return {
        (place.topic, place.partition): (place.offset, _epoch_alone(committed_at(place)))
        for place in found
        if place.offset >= 0
    }


def _epoch_alone(found: Committed) -> str | None:
    """Our tag without the topic's id, which differs in each test: `coop:1`."""
    tag, epoch = found.tagged
    return found.metadata or None if tag is None else f"{tag}:{epoch}"


def alter(admin: AdminClient, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Set the committed offsets of an empty group, as any reset tool does."""
    described(admin, group)  # see `committed`
    places = [Place(topic, number, offset) for number, offset in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(group, places)]
    [future] = admin.alter_consumer_group_offsets(asked).values()
    assert [place.error for place in future.result(WAIT_S).topic_partitions] == [None] * len(places)


def delete(admin: AdminClient, group: str) -> None:
    """Delete a group that has no members, as `kafka-consumer-groups.sh --delete` does."""
    wait_until_empty(admin, group)
    [future] = admin.delete_consumer_groups([group]).values()
    future.result(WAIT_S)


def ends(admin: AdminClient, topic: str, partitions: int) -> dict[tuple[str, int], int]:
    """The end offset of every partition."""
    asked = {Place(topic, number): LATEST for number in range(partitions)}

    def ask() -> dict[tuple[str, int], int]:
        look_up_leaders(admin, topic)
        return {
            (place.topic, place.partition): future.result(WAIT_S).offset
            for place, future in admin.list_offsets(asked).items()
        }

    return patiently(ask)


def look_up_leaders(admin: AdminClient, topic: str) -> None:
    """Before offsets are listed: a client asks the leaders it knows for minutes, also former ones.

    Each refuses (FENCED_LEADER_EPOCH), and librdkafka does not look again for that.
    """
    admin.list_topics(topic, ANSWER_TIMEOUT_S)


def wait_until_decided(admin: AdminClient, topic: str, partition: int = 0) -> None:
    """Until each transaction in a partition has its marker.

    A lone broker that is killed between the answer to a commit and its markers never writes these
    (KAFKA-20734).
    """
    place = Place(topic, partition)

    def end(isolation: IsolationLevel) -> int:
        def ask() -> int:
            look_up_leaders(admin, topic)
            asked = admin.list_offsets({place: LATEST}, isolation_level=isolation)
            found: int = asked[place].result(ANSWER_TIMEOUT_S).offset
            return found

        return patiently(ask)

    eventually(lambda: end(IsolationLevel.READ_COMMITTED) == end(IsolationLevel.READ_UNCOMMITTED))


def wait_for_lag(admin: AdminClient, group: str, topic: str, partitions: int, lag: int = 0) -> None:
    """Wait until stock tools see this lag over the whole topic."""
    until = ends(admin, topic, partitions)

    def seen() -> int:
        offsets = committed(admin, group)
        return sum(end - offsets.get(place, (0, ""))[0] for place, end in until.items())

    eventually(seen, lambda found: found == lag)


class CommittedWatch:
    """Looks at committed offsets again and again, and notes whether one ever goes back."""

    def __init__(self, admin: AdminClient, group: str) -> None:
        self._admin = admin
        self._group = group
        self._ending = threading.Event()
        self.seen: list[dict[tuple[str, int], tuple[int, str | None]]] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, name="committed-watch")
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _watch(self) -> None:
        while not self._ending.wait(POLL_S):
            self.seen.append(committed(self._admin, self._group))

    def setbacks(self) -> list[str]:
        """Each time that an offset was lower than before, or gone."""
        return [
            f"{place}: {offset} → {later.get(place)}"
            for before, later in pairwise(self.seen)
            for place, (offset, _) in before.items()
            if later.get(place, (-1, ""))[0] < offset
        ]


# -- the progress log ------------------------------------------------------------------------------


def topic_id(admin: AdminClient, topic: str) -> bytes:
    """The 16 bytes that name a topic in the progress log."""
    [future] = admin.describe_topics(TopicCollection([topic])).values()
    found = future.result(WAIT_S).topic_id
    mask = 2**64 - 1
    high, low = found.get_most_significant_bits() & mask, found.get_least_significant_bits() & mask
    return int.to_bytes(high << 64 | low, 16, "big")


class ProgressLog:
    """One group's part of the progress log, read and written without a member.

    Args:
        settings: Of a client that may read and write the log.
        group: The group id.
        topic: The progress topic.
        tag: Of offsets that its members commit.
    """

    def __init__(
        self,
        settings: Settings,
        group: str,
        topic: str = PROGRESS_TOPIC,
        tag: Tag = Tag.AT_LEAST_ONCE,
    ) -> None:
        self._settings = settings
        self._tag = tag
        self._admin = AdminClient(dict(settings))
        self._group = group
        self._topic = topic

    def partition(self, topic: str, partition: int) -> PartitionStore:
        """What the log now has about one data partition."""
        store = self.store(self.number_of(topic, partition))
        return store.partition(topic_id(self._admin, topic), partition)

    def number_of(self, topic: str, partition: int) -> int:
        """The log's partition that has the history of a data partition."""
        count = len(self._admin.list_topics(self._topic, WAIT_S).topics[self._topic].partitions)
        return log_partition_of(self._group, topic, partition, count)

    def store(self, number: int) -> ProgressStore:
        """The fold of one partition of the log, up to its end."""
        store = ProgressStore(self._group, self._tag)
        strict = {**self._settings, "isolation.level": "read_committed"}
        for message in records_of(strict, self._topic, number):
            key, offset = message.key() or b"", message.offset() or 0
            store.apply(LogRecord(offset, key, message.value(), message.timestamp()[1]))
        return store

    def write(self, number: int, key: bytes, value: bytes | None) -> None:
        """Append a record."""
        failures: list[KafkaError | None] = []
        producer = Producer({**self._settings, "acks": "all"})
        producer.produce(self._topic, value, key, number, lambda error, _: failures.append(error))
        assert producer.flush(WAIT_S) == 0
        assert failures == [None]
