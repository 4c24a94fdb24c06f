"""Examples of patterns and logs, and a cleaning, killed at every step: as if never."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.kafka.publish import marks_of
from coop_consumer.patterns import OffsetChangelog, with_source
from coop_consumer.patterns.folding import POSITION
from examples import deduplicate
from tests.support.journal import WAIT_S
from tests.support.stepping import kill_at_every_step
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic

pytestmark = pytest.mark.integration

Write = Callable[..., str]
Read = Callable[[str, int], list[list[tuple[bytes, bytes]]]]


@pytest.fixture
def write(bootstrap: str, admin: AdminClient, group_id: str) -> Iterator[Write]:
    """Make an example's topics, and write the same inputs into each partition of the first ones."""
    made: list[str] = []

    def make(
        steps: int,
        inputs: Sequence[tuple[str, bytes]],
        *others: str,
        config: Mapping[str, str] | None = None,
    ) -> str:
        names = [f"{group_id}{suffix}" for suffix in dict.fromkeys(it for it, _ in inputs)]
        for name in names:
            create_topic(admin, name, steps)
        for suffix in others:
            create_topic(admin, f"{group_id}{suffix}", steps, config)
        made.extend((*names, *(f"{group_id}{suffix}" for suffix in others)))
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        for number in range(steps):
            for suffix, value in inputs:
                producer.produce(f"{group_id}{suffix}", value, value, number)
        assert producer.flush(WAIT_S) == 0
        return group_id

    yield make
    for future in admin.delete_topics(made).values():
        future.result(ADMIN_TIMEOUT_S)


@pytest.fixture
def read(bootstrap: str) -> Read:
    """The committed records of each partition: (key, value)."""

    def all_of(topic: str, steps: int) -> list[list[tuple[bytes, bytes]]]:
        asked = {"group.id": "reader", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": bootstrap, **asked})
        found: list[list[tuple[bytes, bytes]]] = [[] for _ in range(steps)]
        consumer.assign([Place(topic, number, 0) for number in range(steps)])
        ended: set[int | None] = set()
        while len(ended) < steps:
            message = consumer.poll(WAIT_S)
            assert message is not None, "an end that does not come"
            if message.error() is None:
                place = found[message.partition() or 0]
                place.append((message.key() or b"", message.value() or b""))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
        consumer.close()
        return found

    return all_of


def check(killed: list[bool], steps: int) -> None:
    """Every step was one at which a run was killed, until runs had no more steps."""
    assert len(killed) == steps
    assert False in killed, "the example makes more calls than its topics have partitions"
    assert killed.index(False) > 15, "the example makes too few calls"


def test_exclusive_producer(bootstrap: str, write: Write, read: Read) -> None:
    """Three transactions: from the third on, offsets are no count."""
    steps = 34
    values = [b"a", b"b", b"c", b"d", b"e"]
    topic = write(steps, [("", value) for value in values], "-copies")
    config = {"bootstrap.servers": bootstrap}
    check(kill_at_every_step("examples.exclusive_producer", config, topic, steps, BATCH=2), steps)
    for number, found in enumerate(read(f"{topic}-copies", steps)):
        assert [value for _, value in found] == values, f"killed at {number}"


def test_paired_offsets(bootstrap: str, write: Write, read: Read) -> None:
    """The last text has more words than a publication, and is killed between its words."""
    steps = 52
    topic = write(steps, [("", b"a b"), ("", b""), ("", b"c d e")], "-words")
    config = {"bootstrap.servers": bootstrap}
    check(kill_at_every_step("examples.paired_offsets", config, topic, steps, PUBLISH=2), steps)
    for number, found in enumerate(read(f"{topic}-words", steps)):
        words = [b"a", b"b", b"c", b"d", b"e"]
        assert [value for _, value in found] == words, f"killed at {number}"


def test_checkpoint(bootstrap: str, write: Write, read: Read) -> None:
    steps = 30
    topic = write(steps, [("", b"5"), ("", b"7"), ("", b"-2")], "-totals")
    config = {"bootstrap.servers": bootstrap}
    check(kill_at_every_step("examples.checkpoint", config, topic, steps, BATCH=2), steps)
    totals: dict[bytes, list[bytes]] = {}
    for found in read(f"{topic}-totals", steps):
        for key, value in found:
            totals.setdefault(key, []).append(value)
    wanted = [b"1 5", b"2 12", b"3 10"]
    assert totals == {b"partition %d" % number: wanted for number in range(steps)}
    group = f"{topic}-counter-{steps // 2}"
    place = TopicPartition(topic, steps // 2)
    marks = marks_of(Config.from_dict({**config, "group.id": group}), group, [place])
    assert marks == {place: (3, json.dumps([3, 10]))}


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_offset_changelog(bootstrap: str, write: Write, read: Read, policy: str) -> None:
    steps = 36
    kept = {"cleanup.policy": policy, "retention.ms": "-1"}
    views = [("", page) for page in (b"p", b"q", b"p", b"p")]
    topic = write(steps, views, "-changes", config=kept)
    config = {"bootstrap.servers": bootstrap}
    check(kill_at_every_step("examples.offset_changelog", config, topic, steps, BATCH=3), steps)
    for number, found in enumerate(read(f"{topic}-changes", steps)):
        counts = [(key, value) for key, value in found if key != POSITION]
        wanted = [(b"p", b"1"), (b"q", b"1"), (b"p", b"2"), (b"p", b"3")]
        assert counts == wanted, f"killed at {number}"
    number = steps // 2
    place = TopicPartition(topic, number), TopicPartition(f"{topic}-changes", number)
    with OffsetChangelog(config, *place, f"{topic}-counter-{number}") as changelog:
        assert (changelog.state, changelog.offset) == ({b"p": b"3", b"q": b"1"}, 4)


def test_merge_log(bootstrap: str, write: Write, read: Read) -> None:
    steps = 60
    inputs = [("", b"order %d" % it) for it in range(3)]
    inputs += [("-payments", b"payment %d" % it) for it in range(3)]
    topic = write(steps, inputs, "-order", "-merged")
    config = {"bootstrap.servers": bootstrap}
    constants = {"EACH": 3, "PUBLISH": 2}
    check(kill_at_every_step("examples.merge_log", config, topic, steps, **constants), steps)
    for number, merged in enumerate(read(f"{topic}-merged", steps)):
        found = [value for _, value in merged]
        assert len(found) == 6, f"killed at {number}: {found}"
        for kind in (b"order", b"payment"):
            own = [it for it in found if it.startswith(kind)]
            assert own == [kind + b" %d" % it for it in range(3)], f"killed at {number}: {found}"


def test_a_cleaning(bootstrap: str, write: Write, read: Read) -> None:
    steps = 30
    topic = write(steps, [], "", "-clean")
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(steps):
        for offset in (0, 1, 0, 2, 1, 3):
            headers = [*with_source([], TopicPartition("orders", 0), offset)]
            producer.produce(topic, b"%d" % offset, partition=number, headers=[*headers])
    assert producer.flush(WAIT_S) == 0
    config = {"bootstrap.servers": bootstrap}
    check(kill_at_every_step("tests.support.cleaner", config, topic, steps), steps)
    for number, found in enumerate(read(f"{topic}-clean", steps)):
        assert [value for _, value in found] == [b"0", b"1", b"2", b"3"], f"killed at {number}"


def test_deduplicate(bootstrap: str, write: Write, read: Read) -> None:
    """Its writer repeats after a kill. The reader sees each record once."""
    steps = 24
    values = [b"%d" % number for number in range(6)]
    topic = write(steps, [("", value) for value in values], "-by-page")
    config = {"bootstrap.servers": bootstrap}
    check(kill_at_every_step("examples.deduplicate", config, topic, steps), steps)
    written = sum(map(len, read(f"{topic}-by-page", steps)))
    assert written > steps * len(values), "some of them are there twice"
    found = [it.value() for at in range(steps) for it in deduplicate.read(config, topic, at)]
    assert sorted(found) == sorted(values * steps)


def test_conditional_producer(bootstrap: str, write: Write, read: Read) -> None:
    steps = 42
    topic = write(steps, [], "", "-numbers")
    config, constants = {"bootstrap.servers": bootstrap}, {"ROWS": 3, "NUMBERS": 3}
    example = "examples.conditional_producer"
    check(kill_at_every_step(example, config, topic, steps, **constants), steps)
    for number, found in enumerate(read(topic, steps)):
        assert [value for _, value in found] == [b"100", b"101", b"102"], f"killed at {number}"
    for number, found in enumerate(read(f"{topic}-numbers", steps)):
        assert [value for _, value in found] == [b"1", b"2", b"3"], f"killed at {number}"
