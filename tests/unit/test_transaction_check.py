"""Brokers that cannot serve transactions as they are needed are refused before a member joins."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from kafka.admin import KafkaAdminClient
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from coop_consumer.config import Config
from coop_consumer.core.blocked_read import RunId
from coop_consumer.core.events import NO_MEMBER
from coop_consumer.errors import (
    AuthorizationError,
    ClientVersionError,
    ConfigError,
    ExitCode,
    NoTransactionsError,
)
from coop_consumer.kafka import group_metadata, transaction_check
from coop_consumer.kafka.group_metadata import encoded
from coop_consumer.kafka.group_view import newest_version
from coop_consumer.kafka.topics import TopicFacts
from coop_consumer.kafka.transaction_check import (
    check_transactions,
    id_of,
    transactions_refusal,
    transactor_settings,
)

SETTINGS: dict[str, Any] = {
    "bootstrap.servers": "b:9092",
    "group.id": "g",
    "processing.guarantee": "exactly_once",
}
CONFIG = Config.from_dict(SETTINGS)
TXN_OFFSET_COMMIT, DESCRIBE_TRANSACTIONS = 28, 65

Brokers = Callable[[tuple[int, ...]], None]


class ProducerMadeError(Exception):
    """The check has got as far as the Producer."""


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    """Let brokers be of this version of Kafka; nobody can make a Producer of theirs."""

    def refuse(*_: object, **__: object) -> None:
        raise ProducerMadeError

    def use(version: tuple[int, ...]) -> None:
        def made(admin: KafkaAdminClient, **_: object) -> None:
            told = SimpleNamespace(api_versions=BROKER_API_VERSIONS[version])
            admin._manager = SimpleNamespace(broker_version_data=told)

        monkeypatch.setattr(KafkaAdminClient, "__init__", made)
        monkeypatch.setattr(KafkaAdminClient, "close", lambda _: None)
        monkeypatch.setattr(transaction_check, "Producer", refuse)

    return use


@pytest.mark.parametrize("version", [(0, 11), (1, 1), (2, 4)])
def test_brokers_that_check_no_generation_are_refused(
    brokers: Brokers, version: tuple[int, ...]
) -> None:
    """They would take the progress of a member that was put out of its group."""
    brokers(version)
    with pytest.raises(NoTransactionsError, match=r"Kafka 2\.5 or newer") as refused:
        check_transactions(CONFIG, {})
    assert "a member's generation" in str(refused.value)
    assert refused.value.exit_code is ExitCode.UNAVAILABLE


@pytest.mark.parametrize("version", [(2, 5), (3, 9), (4, 3)])
def test_brokers_that_check_it_are_asked_whether_they_take_the_id(
    brokers: Brokers, version: tuple[int, ...]
) -> None:
    brokers(version)
    with pytest.raises(ProducerMadeError):
        check_transactions(CONFIG, {})


def test_a_librdkafka_that_writes_a_members_metadata_in_another_form_is_refused(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By bytes that it takes for something else, nobody would check the member."""
    brokers((4, 3))

    class Newer:
        def consumer_group_metadata(self) -> bytes:
            return b"CGMDv3:" + encoded("g", NO_MEMBER).removeprefix(b"CGMDv2:")

        def close(self) -> None:
            pass

    monkeypatch.setattr(group_metadata, "Consumer", lambda *_, **__: Newer())
    with pytest.raises(ClientVersionError, match=r"in another form .* confluent-kafka"):
        check_transactions(CONFIG, {})


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        (
            KafkaError.INVALID_TRANSACTION_TIMEOUT,
            ConfigError,
            r"transaction\.timeout\.ms=10000 is above the brokers' transaction\.max\.timeout\.ms",
        ),
        (
            KafkaError._TIMED_OUT,
            NoTransactionsError,
            r"do not serve transactional\.id coop-g-.* transaction\.state\.log\.replication\.fac",
        ),
        (KafkaError._UNSUPPORTED_FEATURE, NoTransactionsError, r"do not serve transactional\.id"),
        (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            AuthorizationError,
            r"transactional\.id coop-g-m1-ff: .* may not write",
        ),
    ],
)
def test_why_brokers_do_not_serve_an_id_is_said_with_a_remedy(
    code: int, kind: type[Exception], told: str
) -> None:
    settings = transactor_settings(TopicFacts(b"", 0), CONFIG, RunId("m1", 255))
    refusal = transactions_refusal(CONFIG, settings, KafkaError(code))
    assert isinstance(refusal, kind)
    assert re.search(told, str(refusal))


@pytest.mark.parametrize("asked", [None, 1_000, 1_000_000])
def test_the_producers_queue_holds_all_outputs_that_may_wait(asked: int | None) -> None:
    """With a shorter one, a transaction would wait for its own first outputs."""
    own = {} if asked is None else {"queue.buffering.max.messages": asked}
    config = Config.from_dict({**SETTINGS, **own, "output.max.records": 300_000})
    settings = transactor_settings(TopicFacts(b"", 0), config, RunId("m1", 255))
    assert settings["queue.buffering.max.messages"] == max(600_000, asked or 0)
    assert settings["transactional.id"] == "coop-g-m1-ff"


def test_ids_begin_as_the_configuration_says() -> None:
    config = Config.from_dict({**SETTINGS, "transactional.id.prefix": "bill-"})
    settings = transactor_settings(TopicFacts(b"", 0), config, RunId("m1", 255))
    assert settings["transactional.id"] == id_of(config, RunId("m1", 255)) == "bill-g-m1-ff"


def test_a_request_that_a_broker_does_not_know_has_no_version(brokers: Brokers) -> None:
    brokers((2, 8))
    assert newest_version(CONFIG, TXN_OFFSET_COMMIT) == 3
    assert newest_version(CONFIG, DESCRIBE_TRANSACTIONS) == -1
