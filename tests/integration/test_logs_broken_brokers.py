"""Racing publishers and a commit log while their broker is killed and comes back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.transaction import Said
from coop_consumer.errors import RetriableError
from coop_consumer.logs import (
    Applied,
    CommitLog,
    ConditionalProducer,
    LogToken,
    NewRecord,
    kafka_log,
)
from coop_consumer.logs.records import ID_HEADER
from coop_consumer.status.open_transaction import OpenTransaction
from tests.support.brokers import MakeBroker
from tests.support.journal import WAIT_S
from tests.support.registers import Registers, put
from tests.support.stock import eventually, records_of, wait_until_decided
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

EACH = 60
T = TypeVar("T")


class Racer(threading.Thread):
    """Adds one to the counter in a partition, again and again."""

    def __init__(self, producer: ConditionalProducer) -> None:
        super().__init__(daemon=True)
        self.producer, self.wins = producer, list[int]()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            token, known = self.producer.token().at(-1), 0
            while len(self.wins) < EACH:
                end = self.appended(known + 1, token)
                if isinstance(end, LogToken):
                    token, known = end, known + 1
                    self.wins.append(known)
                else:
                    last = patiently(lambda since=token: self.producer.read(since))[-1]
                    token, known = token.at(last.offset), int(last.value or b"")
        except BaseException as error:
            self.failure = error
            raise

    def appended(self, value: int, token: LogToken) -> object:
        append_id = value.to_bytes(8, "big") + self.producer.name.encode().rjust(8)
        record = NewRecord(None, b"%d" % value)
        return patiently(lambda: self.producer.append([record], token, append_id=append_id))


def patiently(ask: Callable[[], T]) -> T:
    """Ask again while brokers are away; an append is found by its id."""
    while True:
        try:
            return ask()
        except RetriableError:
            continue


def leader_of(admin: AdminClient, topic: str) -> int:
    """The index of the node that leads the topic's partition, once one does."""
    led = eventually(lambda: admin.list_topics(topic).topics[topic].partitions[0].leader, at_work)
    return led - 1


def at_work(leader: int) -> bool:
    """Whether a partition has a leader."""
    return leader > 0


def test_no_update_is_lost_while_the_leader_is_killed(fresh_broker: MakeBroker) -> None:
    """Not on one broker alone: Kafka 4.3.1 may lose or leave open what was being decided there.

    When it ends or comes back, the coordinator finds no leader of the partition, takes it for a
    deleted one, and skips the marker ("likely deleted already and hence can be skipped").
    """
    broker = fresh_broker(nodes=3)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    admin = AdminClient(settings)
    create_topic(admin, "log")
    racers = [Racer(ConditionalProducer(settings, "log", 0, f"racer{n}")) for n in range(2)]
    for it in racers:
        it.start()
    eventually(lambda: sum(len(it.wins) for it in racers) >= EACH // 2)
    node = leader_of(admin, "log")
    broker.kill(node)
    broker.restart(node)
    for it in racers:
        it.join(WAIT_S)
        assert it.failure is None
        assert not it.is_alive()
    found = [int(it.value() or b"") for it in records_of(settings, "log")]
    assert found == list(range(1, 2 * EACH + 1))
    assert sorted(racers[0].wins + racers[1].wins) == found
    for it in racers:
        it.producer.close()


def test_a_commit_log_goes_on_when_its_broker_is_back(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    admin, machine = AdminClient(settings), Registers()
    create_topic(admin, "log")
    with CommitLog.open(settings, "log", 0, "a", machine) as log:
        assert isinstance(log.append([put("x", 1)]), Applied)
        wait_until_decided(admin, "log")
        broker.kill()
        answer = log.append_later([put("x", 2)])
        read = log.read_later(lambda: machine.values["x"])
        broker.restart()
        assert isinstance(answer.result(WAIT_S), Applied)
        assert read.result(WAIT_S) in (1, 2)
        assert log.read(lambda: machine.values["x"]) == 2


def test_a_transaction_that_no_fence_ends_is_an_error_with_the_command(
    bootstrap: str,
    topic: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """twmb/kcl#10 (KAFKA-12671): its coordinator knows nothing of it, and answers without error."""
    config = Config.from_dict({"bootstrap.servers": bootstrap, "group.id": "logs"})
    place = TopicPartition(topic(), 0)
    look = kafka_log.open_transactions

    def hanging(*asked: Any) -> dict[TopicPartition, OpenTransaction]:
        return {tp: replace(it, is_hanging=True) for tp, it in look(*asked).items()}

    monkeypatch.setattr(kafka_log, "open_transactions", hanging)
    monkeypatch.setattr(kafka_log, "end_transaction_of", lambda *_: True)
    with (
        closing(kafka_log.KafkaLog(config, place, "dead")) as dead,
        closing(kafka_log.KafkaLog(config, place, "reader")) as reader,
        caplog.at_level(logging.WARNING, kafka_log.__name__),
    ):
        while dead.renew() is not Said.DONE:
            pass
        dead.produce([NewRecord(b"key", b"1", ((ID_HEADER, dead.writer.encode()),))])
        for _ in range(3):
            assert reader.end_blocker(0)
    told = [(it.levelname, it.getMessage()) for it in caplog.records]
    assert [level for level, _ in told] == ["WARNING", "ERROR"], "each is said once"
    assert f"a transaction of coop-log-dead-{place} stands undecided at offset 0" in told[0][1]
    assert "Only this command ends it" in told[1][1]
    assert f"--topic {place.topic} --partition 0 --start-offset 0" in told[1][1]
