"""Brokers that cannot serve transactions as they are needed are refused before a member joins."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from kafka.admin import KafkaAdminClient
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from coop_consumer.config import Config
from coop_consumer.errors import ExitCode, NoTransactionsError
from coop_consumer.kafka import transaction_check
from coop_consumer.kafka.group_view import newest_version
from coop_consumer.kafka.transaction_check import check_transactions

CONFIG = Config.from_dict(
    {"bootstrap.servers": "b:9092", "group.id": "g", "processing.guarantee": "exactly_once"}
)
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


def test_a_request_that_a_broker_does_not_know_has_no_version(brokers: Brokers) -> None:
    brokers((2, 8))
    assert newest_version(CONFIG, TXN_OFFSET_COMMIT) == 3
    assert newest_version(CONFIG, DESCRIBE_TRANSACTIONS) == -1
