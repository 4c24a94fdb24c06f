"""A commit as a Kafka transaction: all of it is visible once, or nothing of it."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from statistics import median
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from coop_consumer.config import Config
from coop_consumer.core import actions, events
from coop_consumer.core.effects import Output, Result
from coop_consumer.core.events import NO_MEMBER, GroupMetadata
from coop_consumer.core.transaction import Said
from coop_consumer.errors import RecordRefusedError, RecordTooLargeError
from coop_consumer.kafka import transaction_calls
from coop_consumer.kafka.group_metadata import check_encoding, encoded
from coop_consumer.kafka.transaction_client import TransactionClient
from coop_consumer.kafka.transactor import Transactor, transactional_id
from tests.support.brokers import MakeBroker, MakeTopic
from tests.support.journal import WAIT_S
from tests.support.stock import committed, eventually
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration


class Desk:
    """A transactor of a group, a member of that group, and what is visible of its work.

    Attributes:
        member: The member, as the group's coordinator knows it.
    """

    def __init__(self, bootstrap: str, log: str, outputs: str) -> None:
        self.group, self.log, self.outputs = f"group-of-{outputs}", log, outputs
        self._at = {"bootstrap.servers": bootstrap}
        config = Config.from_dict({**self._at, "group.id": self.group})
        check_encoding(config)
        self._id = transactional_id("coop-", self.group, "m1", 1)
        self.settings = config.producer(self._id) | {"partitioner": "murmur2_random"}
        self._heard: SimpleQueue[events.Event] = SimpleQueue()
        self._consumer = Consumer(
            {**self._at, "group.id": self.group, "group.instance.id": "i-1", **_QUICK}
        )
        self._other: Consumer | None = None
        self.member = self.joined()
        self.transactor = self.start()
        self._tokens = 0

    def start(self, **settings: Any) -> Transactor:
        """A transactor of this member."""
        return Transactor(
            self.settings | {name.replace("_", "."): it for name, it in settings.items()},
            self.group,
            self.log,
            self._heard.put,
            lambda error: self._heard.put(events.Fatal(AssertionError(error))),  # type: ignore[arg-type]
        )

    def joined(self) -> GroupMetadata:
        """Join the group, or a later generation of it."""
        self._consumer.subscribe([self.outputs])

        def metadata() -> GroupMetadata:
            self._consumer.poll(0.05)
            data = self._consumer.consumer_group_metadata()
            (generation,) = struct.unpack("=i", data[7:11])
            _, member, _, instance = data[11:].split(b"\0")[:4]
            assert instance == b"i-1"
            found = GroupMetadata(generation, member.decode(), "i-1")
            assert data == encoded(self.group, found)
            return found

        return eventually(metadata, lambda it: it.generation >= 0)

    def next_generation(self) -> None:
        """Another member comes, so that the group has another generation."""
        before = self.member.generation
        other = self._other = Consumer({**self._at, "group.id": self.group, **_QUICK})
        other.subscribe([self.outputs])

        def joined() -> GroupMetadata:
            other.poll(0.05)
            return self.joined()

        self.member = eventually(joined, lambda it: it.generation > before)

    def commit(
        self,
        *values: str,
        member: GroupMetadata | None = None,
        topic: str = "",
        partition: int = -1,
    ) -> events.Event:
        """Commit outputs with an entry for each of two log partitions; what has become of it."""
        self._tokens += 1
        topic = topic or self.outputs
        effects = [Output(topic, b"k", it.encode(), partition=partition) for it in values]
        results = [Result(None, [it]) for it in effects]  # type: ignore[arg-type]
        appends = {number: [(b"tenure", value.encode()) for value in values] for number in (0, 1)}
        metadata = member or self.member
        self.transactor.commit(actions.Commit(appends, self._tokens, results, metadata))
        told = self._heard.get(timeout=WAIT_S)
        return told._replace(steps_ms={}) if isinstance(told, events.CommitDone) else told

    def visible(self, topic: str) -> list[str]:
        """What a reader of committed records finds, up to the last stable offset."""
        reader = Consumer({**self._at, "group.id": "r", "enable.partition.eof": True, **_STRICT})
        try:
            count = len(reader.list_topics(topic, 10).topics[topic].partitions)
            reader.assign([Place(topic, number, 0) for number in range(count)])
            found, ends = [], 0
            while ends < count:
                message = reader.poll(WAIT_S)
                assert message is not None
                if message.error():
                    ends += 1
                else:
                    found.append((message.value() or b"").decode())
            return found
        finally:
            reader.close()

    def close(self) -> None:
        self.transactor.close(WAIT_S)
        for consumer in (self._consumer, self._other):
            if consumer is not None:
                consumer.close()


# No quick heartbeats: a consumer of librdkafka 2.16 that hears of a rebalance while it closes may
# wait for itself for ever (`rd_kafka_consumer_close`, then `rd_kafka_assign`).
_QUICK = {"session.timeout.ms": 6_000, "auto.offset.reset": "earliest"}
_STRICT = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
MakeDesk = Callable[[], Desk]


@pytest.fixture
def desk(bootstrap: str, topic: MakeTopic) -> Iterator[Desk]:
    log, outputs = topic(2), topic(1)
    desk = Desk(bootstrap, log, outputs)
    yield desk
    desk.close()


def test_outputs_and_progress_become_visible_together(desk: Desk) -> None:
    done = desk.commit("a", "b")
    assert done == events.CommitDone(1, [0, 1, 0, 1])
    assert eventually(lambda: desk.visible(desk.outputs), lambda it: it == ["a", "b"])
    assert sorted(desk.visible(desk.log)) == ["a", "a", "b", "b"]
    assert desk.commit("c") == events.CommitDone(2, [3, 3]), "a marker is at 2"


@pytest.mark.parametrize(
    "change",
    [
        {"generation": 0},
        {"generation": 99},
        {"member_id": "m-unknown"},
        {"member_id": "m-unknown", "instance_id": None},
        {"member_id": ""},
        {"instance_id": "i-2"},
    ],
)
def test_nothing_of_a_stranger_to_the_group_is_visible(desk: Desk, change: dict[str, Any]) -> None:
    """aiokafka#844: offsets of revoked partitions were taken from whoever sent them."""
    other = desk.member._replace(**change)
    refused = desk.commit("a", member=other)
    assert isinstance(refused, events.CommitRefused)
    assert refused.why is events.Refusal.STALE, refused
    assert desk.commit("b") == events.CommitDone(2, [2, 2])
    assert eventually(lambda: desk.visible(desk.outputs), bool) == ["b"]


def test_what_was_done_in_an_earlier_generation_is_refused_and_goes_with_the_next(
    desk: Desk,
) -> None:
    """aiokafka#844, evolution-gaming/kafka-flow#854: a stale generation was taken, or was fatal."""
    before = desk.member
    assert isinstance(desk.commit("a"), events.CommitDone)
    desk.next_generation()
    refused = desk.commit("b", member=before)
    assert isinstance(refused, events.CommitRefused)
    assert refused.why is events.Refusal.STALE
    assert isinstance(desk.commit("b"), events.CommitDone)
    assert eventually(lambda: desk.visible(desk.outputs), lambda it: len(it) > 1) == ["a", "b"]


def test_that_it_is_no_member_never_leaves_the_process(desk: Desk) -> None:
    """evolution-gaming/kafka-flow#854: a coordinator takes generation -1 into a living group."""
    ended = desk.commit("a", member=NO_MEMBER)
    assert isinstance(ended, events.Fatal)
    assert "I9: a transaction of no member" in str(ended.error)
    assert desk.visible(desk.outputs) == []


class MarkersAwaited(logging.Handler):
    """Hears in librdkafka's log that a transaction has to wait for the markers of the last one.

    Attributes:
        waits_s: How long each transaction has waited for that reason, if it has.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []
        self._refused_at_s: float | None = None

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "AddPartitionsToTxn response" in line and "concurrent" in line:
            if self._refused_at_s is None:
                self.waits_s.append(0.0)
                self._refused_at_s = record.created
        elif "registered with transaction" in line and self._refused_at_s is not None:
            self.waits_s[-1] = record.created - self._refused_at_s
            self._refused_at_s = None


@pytest.fixture
def awaited(monkeypatch: pytest.MonkeyPatch) -> MarkersAwaited:
    """What Producers of transactions tell of that, if `debug` lets them; nothing is filtered."""
    heard, log = MarkersAwaited(), logging.getLogger(f"{__name__}.librdkafka")
    log.handlers, log.propagate = [heard], False
    log.setLevel(logging.DEBUG)
    monkeypatch.setattr(transaction_calls, "client_log", log)
    return heard


@pytest.mark.parametrize("seconds", [1.0, pytest.param(60.0, marks=pytest.mark.chaos)])
def test_transactions_without_a_pause_between_them_pass_their_checks_as_well(
    desk: Desk, admin: AdminClient, awaited: MarkersAwaited, seconds: float
) -> None:
    """librdkafka#3221, confluent-kafka-python#967: the one before was ending still.

    Brokers answer that with CONCURRENT_TRANSACTIONS; some went on without their offsets then, and
    some asked again only after 500 ms.
    """
    desk.transactor.close(WAIT_S)
    desk.settings |= {"debug": "eos", "log_level": 7}
    desk.transactor = desk.start()
    told, until_s = list[events.Event](), time.monotonic() + seconds
    while len(told) < 30 or time.monotonic() < until_s:
        told.append(desk.commit(str(len(told))))
    count = len(told)
    assert told == [events.CommitDone(n + 1, [2 * n, 2 * n]) for n in range(count)], "each at once"
    waits_s = awaited.waits_s
    if seconds < 60:  # no benchmark: a busy machine pauses, and a quick one may wait for none
        assert median(waits_s or [0.0]) < 0.25, waits_s
    else:
        assert 0 < max(waits_s) < 0.25, sorted(waits_s)[-9:]
    last = 2 * count - 1
    eventually(lambda: committed(admin, desk.group), lambda it: it[desk.log, 0][0] == last)
    values = [str(number) for number in range(count)]
    assert eventually(lambda: desk.visible(desk.outputs), lambda it: len(it) == count) == values


def test_behind_a_commit_that_was_asked_for_twice_the_next_one_has_a_new_epoch(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request may have been sent twice: a late one would commit whatever is open by then."""
    assert isinstance(desk.commit("a"), events.CommitDone)
    first, epochs = desk.transactor._client._producer, 0
    asks, real_commit, real_renew = [Said.AGAIN], TransactionClient.commit, TransactionClient.renew

    def commit(client: TransactionClient) -> Said:
        return asks.pop() if asks else real_commit(client)

    def renew(client: TransactionClient) -> Said:
        nonlocal epochs
        epochs += 1
        return real_renew(client)

    monkeypatch.setattr(TransactionClient, "commit", commit)
    monkeypatch.setattr(TransactionClient, "renew", renew)
    assert isinstance(desk.commit("b"), events.CommitDone)
    assert (desk.transactor._client._producer, epochs) == (first, 0)
    for value in ("c", "d"):
        assert isinstance(desk.commit(value), events.CommitDone)
    assert desk.transactor._client._producer is not first
    assert epochs == 1, "once"
    assert eventually(lambda: desk.visible(desk.outputs), lambda it: len(it) == 4) == [*"abcd"]


def test_the_next_run_of_an_id_ends_what_the_one_before_has_open(
    desk: Desk,
) -> None:
    rival = Producer(desk.settings)
    rival.init_transactions(WAIT_S)
    rival.begin_transaction()
    rival.produce(desk.outputs, b"never")
    rival.flush(WAIT_S)
    assert isinstance(desk.commit("a"), events.CommitDone)
    assert eventually(lambda: desk.visible(desk.outputs), bool) == ["a"]


def test_one_that_a_rival_has_fenced_goes_on_with_the_next_epoch(desk: Desk) -> None:
    assert isinstance(desk.commit("a"), events.CommitDone)
    rival = Producer(desk.settings)
    rival.init_transactions(WAIT_S)
    refused = desk.commit("b")
    assert isinstance(refused, events.CommitRefused)
    assert refused.why is events.Refusal.RETRY
    assert isinstance(desk.commit("b"), events.CommitDone)
    assert eventually(lambda: desk.visible(desk.outputs), lambda it: len(it) > 1) == ["a", "b"]


def test_an_output_that_its_topic_refuses_is_named_and_nothing_is_visible(
    desk: Desk, topic: MakeTopic
) -> None:
    narrow = topic(1, config={"max.message.bytes": "1000"})
    refused = desk.commit("a", "b" * 5_000, topic=narrow)
    assert isinstance(refused, events.OutputRefused)
    assert refused.topic == narrow
    assert isinstance(refused.error, RecordTooLargeError)
    assert desk.visible(desk.log) == []


def test_an_output_that_the_producer_itself_refuses_is_named_as_well(desk: Desk) -> None:
    """Its topic was made again, with fewer partitions: no repetition cures that."""
    refused = desk.commit("a", partition=7)
    assert isinstance(refused, events.OutputRefused)
    assert refused.topic == desk.outputs
    assert isinstance(refused.error, RecordRefusedError)
    assert isinstance(desk.commit("b"), events.CommitDone)
    assert eventually(lambda: desk.visible(desk.outputs), bool) == ["b"]


def test_a_topic_that_is_gone_is_tried_again(desk: Desk) -> None:
    desk.settings["transaction.timeout.ms"] = 1_000
    desk.transactor.close(WAIT_S)
    desk.transactor = desk.start()
    refused = desk.commit("a", topic="nowhere")
    assert isinstance(refused, events.CommitRefused)
    assert refused.why is events.Refusal.RETRY
    assert "topic nowhere" in str(refused.error)
    assert isinstance(desk.commit("b"), events.CommitDone)
    assert eventually(lambda: desk.visible(desk.outputs), bool) == ["b"]


def test_a_call_that_hangs_behind_a_broker_that_was_away_is_left_behind(
    fresh_broker: MakeBroker,
) -> None:
    """Its connections lost, a Producer begins at `bootstrap.servers` again, and drops its brokers.

    `send_offsets_to_transaction` may wait for one of those for ever, whatever its time-out
    (librdkafka#5456).
    """
    broker = fresh_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    create_topic(admin, "log", 2)
    create_topic(admin, "outputs")
    desk = Desk(broker.bootstrap_servers, "log", "outputs")
    desk.transactor.close(WAIT_S)
    desk.transactor = desk.start(transaction_timeout_ms=2_000)
    assert isinstance(desk.commit("a"), events.CommitDone)
    broker.restart(0)
    told = [desk.commit("b"), desk.commit("b")]  # its member is gone, or not
    assert all(isinstance(it, events.CommitDone | events.CommitRefused) for it in told), told
    desk.close()
