"""Offset stores on a real broker: rights, and what they cost when something is missing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count, takewhile

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.errors import AppendTooLargeError, AuthorizationError
from coop_consumer.logs import kafka_reader
from coop_consumer.offset_stores import KafkaOffsetStore, LogOffsetStore, OffsetEntry, OffsetStore
from offsets import OffsetRange
from tests.support.brokers import MakeBroker, MakeTopic
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.rights import READ_GROUP, READ_TOPIC, Right, grant
from tests.support.stock import ends, produce, wait_until_decided
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

PLACES = [TopicPartition("orders", number) for number in range(20)]


@pytest.fixture
def orders(secured: EmbeddedBroker, root: AdminClient, group_id: str) -> Job:
    """A topic, and a group in which `ann` commits; so far she may do nothing."""
    create_topic(root, group_id)
    as_ann = secured.client_config("ann")
    return Job(secured.client_config("root"), root, f"{group_id}-group", group_id, own=as_ann)


# -- over logs -----------------------------------------------------------------------------------


def test_a_commit_of_several_batches_is_seen_as_a_whole(
    bootstrap: str, topic: MakeTopic, group_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch has ten entries, the reader gets one batch at a time, and it reads in parts."""
    monkeypatch.setattr(kafka_reader, "READ_MAX", 50)
    small = {"batch.num.messages": 10, "fetch.message.max.bytes": 1_000}
    config, log = {"bootstrap.servers": bootstrap, **small}, topic(1)
    places, enough = [TopicPartition("orders", number) for number in range(200)], threading.Event()
    with ExitStack() as entered:
        writer = entered.enter_context(LogOffsetStore(config, log, "writer"))
        reader = entered.enter_context(LogOffsetStore(config, log, "reader"))
        thread = entered.enter_context(ThreadPoolExecutor(1))
        entered.callback(enough.set)

        def commit() -> None:
            for offset in takewhile(lambda _: not enough.is_set(), count()):
                assert writer.commit(group_id, dict.fromkeys(places, OffsetEntry(offset))) is None

        committing, seen = thread.submit(commit), set[int]()
        while len(seen) < 10 and not committing.done():
            offsets = {entry.offset for entry in reader.fetch(group_id, places).values()}
            assert len(offsets) <= 1
            seen |= offsets
        enough.set()
        committing.result()


def test_a_store_starts_from_the_snapshot_and_what_came_behind_it(
    bootstrap: str, topic: MakeTopic, group_id: str, admin: AdminClient
) -> None:
    """The log loses what the snapshot has taken in."""
    config, log = {"bootstrap.servers": bootstrap}, topic(1)
    with LogOffsetStore(config, log, "first") as store:
        for place in PLACES:
            store.commit_later(group_id, {place: OffsetEntry(1, "m", (OffsetRange(5, 6),))})
        store.commit(group_id, {})
        store.snapshot()
        (end,) = ends(admin, log, 1).values()
        store.commit(group_id, {PLACES[0]: OffsetEntry(2)})
    marker = Place(log, 0, end - 1)  # of the last commit that the snapshot has taken in
    admin.delete_records([marker])[marker].result(WAIT_S)

    with LogOffsetStore(config, log, "second") as store:
        found = store.fetch(group_id, PLACES)
        assert found.pop(PLACES[0]) == OffsetEntry(2)
        assert found == dict.fromkeys(PLACES[1:], OffsetEntry(1, "m", (OffsetRange(5, 6),)))
        assert store.commit(group_id, {PLACES[0]: OffsetEntry(3)}, {PLACES[0]: 2}) is None


def test_a_strangers_record_is_named_and_loses_no_offset(
    bootstrap: str, topic: MakeTopic, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    config, log = {"bootstrap.servers": bootstrap}, topic(1)
    with LogOffsetStore(config, log, "one") as store:
        store.commit(group_id, {PLACES[0]: OffsetEntry(41)})
        [(_, offset)] = produce(config, log, ["stranger"])
        assert store.commit(group_id, {PLACES[0]: OffsetEntry(42)}, {PLACES[0]: 41}) is None
        assert store.fetch(group_id, PLACES) == {PLACES[0]: OffsetEntry(42)}
    assert f"{log}-0, offset {offset}: corrupt record, byte 0: " in caplog.text


def test_a_commit_too_large_for_a_transaction_is_refused_and_others_go_on(
    bootstrap: str, topic: MakeTopic, group_id: str
) -> None:
    many = {TopicPartition("orders", number): OffsetEntry(1) for number in range(100_001)}
    with LogOffsetStore({"bootstrap.servers": bootstrap}, topic(1), "one") as store:
        with pytest.raises(AppendTooLargeError, match="100001"):
            store.commit(group_id, many)
        assert store.fetch(group_id, many) == {}
        assert store.commit(group_id, {PLACES[0]: OffsetEntry(1)}) is None


def test_the_next_store_of_a_name_goes_on_and_loses_nothing(
    bootstrap: str, topic: MakeTopic, group_id: str
) -> None:
    """Both live: each takes the id from the other, and each commit is made once."""
    config, log, place = {"bootstrap.servers": bootstrap}, topic(1), PLACES[0]
    with LogOffsetStore(config, log, "twin") as one, LogOffsetStore(config, log, "twin") as other:
        for offset in range(6):
            store, expected = (one, other)[offset % 2], {place: offset - 1 if offset else None}
            assert store.commit(group_id, {place: OffsetEntry(offset)}, expected) is None
        assert one.fetch(group_id, [place]) == {place: OffsetEntry(5)}


RIGHTS: list[Right] = [
    ("TOPIC", "{topic}", "READ"),
    ("TOPIC", "{topic}", "WRITE"),
    ("TRANSACTIONAL_ID", "coop-log-*", "WRITE"),
    ("TOPIC", "{topic}-snapshots", "READ"),
]


def test_a_store_over_logs_needs_no_group(orders: Job, root: AdminClient) -> None:
    grant(root, orders, RIGHTS)
    with LogOffsetStore(orders.settings, orders.topic, "one") as store:
        assert store.commit("any group", {PLACES[0]: OffsetEntry(1)}) is None
        assert store.fetch("any group", PLACES) == {PLACES[0]: OffsetEntry(1)}


@pytest.mark.parametrize(
    ("right", "named"),
    [(RIGHTS[0], "topic"), (RIGHTS[1], "topic"), (RIGHTS[2], "transactional")],
    ids=["READ", "WRITE", "ID"],
)
def test_a_right_that_a_store_over_logs_lacks_is_named(
    orders: Job, root: AdminClient, right: Right, named: str
) -> None:
    grant(root, orders, [it for it in RIGHTS if it != right])
    with pytest.raises(AuthorizationError, match=f"(?i)^{named}.*{right[2].lower()}"):  # noqa: SIM117
        with LogOffsetStore(orders.settings, orders.topic, "one") as store:
            store.commit("any group", {PLACES[0]: OffsetEntry(1)})


# -- Kafka's own ---------------------------------------------------------------------------------


def test_with_the_rights_of_a_consumer_offsets_are_kept(orders: Job, root: AdminClient) -> None:
    grant(root, orders, [READ_TOPIC, READ_GROUP])
    place = TopicPartition(orders.topic, 0)
    with KafkaOffsetStore(orders.settings) as store:
        assert store.commit(orders.group, {place: OffsetEntry(42, "m")}) is None
        assert store.fetch(orders.group, [place]) == {place: OffsetEntry(42, "m")}


@pytest.mark.parametrize(
    ("right", "named"), [(READ_TOPIC, "group {group}: "), (READ_GROUP, "topic {topic}: ")]
)
def test_a_missing_right_is_named(orders: Job, root: AdminClient, right: Right, named: str) -> None:
    """She has one right; the other one is missing."""
    grant(root, orders, [right])
    place = TopicPartition(orders.topic, 0)
    missing = named.format(group=orders.group, topic=orders.topic)
    with KafkaOffsetStore(orders.settings) as store:
        with pytest.raises(AuthorizationError, match=f"^{missing}.*ann"):
            store.commit(orders.group, {place: OffsetEntry(42)})
        with pytest.raises(AuthorizationError, match=f"^{missing}.*ann"):
            store.fetch(orders.group, [place])


# -- both ----------------------------------------------------------------------------------------


def test_what_was_committed_is_there_though_the_broker_was_killed(
    fresh_broker: MakeBroker,
) -> None:
    """Commits that the kill hits are answered once the broker is back, or are an error."""
    broker = fresh_broker()
    config = {"bootstrap.servers": broker.bootstrap_servers}
    admin = AdminClient(config)
    create_topic(admin, "orders", len(PLACES))
    create_topic(admin, "offsets", 1)
    with KafkaOffsetStore(config) as kafkas, LogOffsetStore(config, "offsets", "one") as log:
        stores: list[OffsetStore] = [kafkas, log]
        for store in stores:
            assert store.commit("billing", {PLACES[0]: OffsetEntry(1)}) is None
        wait_until_decided(admin, "offsets")
        broker.kill()
        asked = [
            store.commit_later("billing", {PLACES[0]: OffsetEntry(2), PLACES[1]: OffsetEntry(2)})
            for store in stores
        ]
        broker.restart()
        assert [it.result(6 * WAIT_S) for it in asked] == [None, None]
        for store in stores:
            assert store.fetch("billing", PLACES) == dict.fromkeys(PLACES[:2], OffsetEntry(2))
            assert store.commit("billing", {PLACES[0]: OffsetEntry(3)}) is None
