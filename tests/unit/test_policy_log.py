"""The policies as the log tells them, also to who has not looked for long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from coop_consumer.config import Config
from coop_consumer.core.policies import NAMES, Policies
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka import policies
from coop_consumer.kafka.policies import GroupPolicyLog, PolicyClient, PolicyLog, PolicyWatch
from offsets import MemoryLog, PolicyKey, PolicyRecord, encode_key, encode_value

KEY = PolicyKey("topic", "orders")
REFUSED = PolicyRecord({NAMES["topic"]: "false"})


class LogConsumer:
    """Reads partition 0 of the progress topic from memory."""

    log = MemoryLog()
    made: ClassVar[list[LogConsumer]] = []

    def __init__(self, *_: object, **__: object) -> None:
        self.position = 0
        self.is_open, self.is_assigned = True, False
        self.made.append(self)

    def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
        return 0, self.log.end_offset

    def assign(self, places: list[SimpleNamespace]) -> None:
        self.position = places[0].offset
        self.is_assigned = True

    def unassign(self) -> None:
        self.is_assigned = False

    def close(self) -> None:
        self.is_open = False


def waiting(consumer: LogConsumer, *_: object) -> list[SimpleNamespace]:
    records = consumer.log.read(consumer.position, 10).records
    return [
        SimpleNamespace(
            error=lambda: None,
            offset=lambda record=record: record.offset,
            key=lambda record=record: record.key,
            value=lambda record=record: record.value,
        )
        for record in records
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time, in seconds; and a log of its own."""
    clock = SimpleNamespace(now_s=1_000.0)
    monkeypatch.setattr(LogConsumer, "log", MemoryLog())
    monkeypatch.setattr(LogConsumer, "made", [])
    monkeypatch.setattr(policies, "Consumer", LogConsumer)
    monkeypatch.setattr(policies, "waiting_messages", waiting)
    monkeypatch.setattr(policies, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    return clock


@pytest.mark.parametrize("away_s", [1, 3_600])
def test_a_policy_that_was_taken_back_long_ago_is_over(
    clock: SimpleNamespace, away_s: float
) -> None:
    """Compaction may have removed the tombstone, too, since we led last."""
    log = PolicyLog(Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"}))
    LogConsumer.log.append(encode_key(KEY), encode_value(REFUSED))
    assert log.read() == {KEY: REFUSED}
    LogConsumer.log.append(encode_key(KEY), None)
    LogConsumer.log.append(b"another's", b"")
    if away_s > 60:
        LogConsumer.log.compact(drop_tombstones=True)
    clock.now_s += away_s
    assert log.read() == {}


def test_a_look_that_failed_is_none(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers were away for as long as a tombstone stays, and were asked all the time."""
    log = PolicyLog(Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"}))
    LogConsumer.log.append(encode_key(KEY), encode_value(REFUSED))
    assert log.read() == {KEY: REFUSED}
    with monkeypatch.context() as away:
        away.setattr(LogConsumer, "get_watermark_offsets", _no_answer)
        for _ in range(10):
            clock.now_s += 10
            with pytest.raises(BrokerUnreachableError):
                log.read()
    LogConsumer.log.append(encode_key(KEY), None)
    LogConsumer.log.append(b"another's", b"")
    LogConsumer.log.compact(drop_tombstones=True)
    assert log.read() == {}


def test_one_client_reads_again_and_again_and_fetches_nothing_in_between(
    clock: SimpleNamespace,
) -> None:
    log = PolicyLog(Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"}))
    assert not log.is_open
    for _ in range(3):
        LogConsumer.log.append(encode_key(KEY), encode_value(REFUSED))
        assert log.read() == {KEY: REFUSED}
        [client] = LogConsumer.made
        assert (client.is_open, client.is_assigned) == (True, False)
    log.close()
    assert (client.is_open, log.is_open) == (False, False)
    LogConsumer.log.append(encode_key(KEY), None)
    assert log.read() == {}


def test_a_client_that_gets_no_answer_is_replaced_in_the_same_read(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have lost every broker. A new one that gets no answer either is closed."""
    log = PolicyLog(Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"}))
    log.read()
    monkeypatch.setattr(LogConsumer.made[0], "get_watermark_offsets", _no_answer, raising=False)
    LogConsumer.log.append(encode_key(KEY), encode_value(REFUSED))
    assert log.read() == {KEY: REFUSED}
    assert [it.is_open for it in LogConsumer.made] == [False, True]
    monkeypatch.setattr(LogConsumer, "get_watermark_offsets", _no_answer)
    with pytest.raises(BrokerUnreachableError):
        log.read()
    assert not any(it.is_open for it in LogConsumer.made)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), BrokerUnreachableError),
        (SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), TopicMissingError),
        (SimpleNamespace(error=None), UnexpectedAnswerError),
    ],
)
def test_a_topic_is_missing_only_if_a_broker_says_so(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, asked: object, told: type[Exception]
) -> None:
    """While all brokers are away, librdkafka calls every partition unknown."""

    def list_topics(_: LogConsumer, topic: str, __: float) -> SimpleNamespace:
        if isinstance(asked, KafkaException):
            raise asked
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None}, **vars(asked))})

    def unknown(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

    monkeypatch.setattr(LogConsumer, "get_watermark_offsets", unknown)
    monkeypatch.setattr(LogConsumer, "list_topics", list_topics, raising=False)
    log = PolicyLog(Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"}))
    with pytest.raises(told):
        log.read()


def test_logs_that_are_lent_one_client_take_turns_and_have_none_of_their_own(
    clock: SimpleNamespace,
) -> None:
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})
    logs, lent = [PolicyLog(config), PolicyLog(config, "another")], PolicyClient()
    for _ in range(2):
        LogConsumer.log.append(encode_key(KEY), encode_value(REFUSED))
        assert [it.read(lent) for it in logs] == [{KEY: REFUSED}] * 2
    [client] = LogConsumer.made
    assert (client.is_open, client.is_assigned) == (True, False)
    assert not any(it.is_open for it in logs)
    lent.close()
    assert not client.is_open


def test_a_group_with_exactly_once_has_its_policy_where_its_progress_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And those of topics where all groups have them, if there is such a topic."""
    group_key = PolicyKey("group", "g")
    refused = PolicyRecord({NAMES["group"]: "false"})
    found, hidden = {"own": {group_key: refused}, "shared": {KEY: REFUSED}}, ""

    class Logs:
        def __init__(self, _: Config, topic: str | None = None) -> None:
            self.name = "shared" if topic is None else "own"

        def read(self, _: object) -> dict[PolicyKey, PolicyRecord]:
            if self.name == hidden:
                raise AuthorizationError(f"topic {self.name}", "read", "ann")
            if self.name not in found:
                raise TopicMissingError(self.name)
            return found[self.name]

    monkeypatch.setattr(policies, "PolicyLog", Logs)
    needed = {"bootstrap.servers": "b:9092", "group.id": "g"}
    log = GroupPolicyLog(Config.from_dict({**needed, "processing.guarantee": "exactly_once"}))
    assert log.read() == Policies(frozenset({"orders"}), group=True)
    found["shared"][group_key] = found["own"].pop(group_key)  # it was set before a change
    assert log.read() == Policies(frozenset({"orders"}), group=False)
    hidden = "shared"  # the rights that exactly once needs do not include it
    assert log.read() == Policies()
    hidden = "own"
    with pytest.raises(AuthorizationError):
        log.read()
    hidden = ""
    del found["shared"]
    assert log.read() == Policies()
    with pytest.raises(TopicMissingError):
        GroupPolicyLog(Config.from_dict(needed)).read()


def _no_answer(*_: object) -> None:
    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_only_a_second_failure_running_is_told_and_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers take a moment to lead a topic that was just made: the first member told of that."""
    monkeypatch.setattr(PolicyWatch, "_begin", lambda _, call: call())
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})
    watch = PolicyWatch(config, changed=lambda: None)
    watch.for_plan()
    outcomes: list[Policies | BrokerUnreachableError] = []

    def read() -> Policies:
        outcome = outcomes.pop(0)
        if isinstance(outcome, BrokerUnreachableError):
            raise outcome
        return outcome

    monkeypatch.setattr(watch, "read", read)
    caplog.set_level("INFO")
    away = BrokerUnreachableError("b:9092", "silent")
    told_by_then = [
        (away, 0),
        (away, 1),
        (away, 1),
        (Policies(), 1),
        (away, 1),
        (away, 2),
        (away, 2),
    ]
    for outcome, told in told_by_then:
        outcomes.append(outcome)
        watch.look()
        assert caplog.text.count("policies cannot be read yet") == told
