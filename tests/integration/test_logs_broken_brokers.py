"""Racing publishers and a commit log while their broker is killed and comes back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.errors import RetriableError
from coop_consumer.logs import Applied, CommitLog, ConditionalProducer, LogToken, NewRecord
from tests.support.brokers import MakeBroker
from tests.support.journal import WAIT_S
from tests.support.registers import Registers, put
from tests.support.stock import eventually, records_of
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

EACH = 60
T = TypeVar("T")


class Racer(threading.Thread):
    """Adds one to the counter in a partition, again and again."""

    def __init__(self, producer: ConditionalProducer) -> None:
        super().__init__()
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


def has_ended(pid: int) -> bool:
    """Whether a child process has ended, though nobody has asked for its end."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_no_update_is_lost_while_the_broker_starts_again(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    create_topic(AdminClient(settings), "log")
    racers = [Racer(ConditionalProducer(settings, "log", 0, f"racer{n}")) for n in range(2)]
    for it in racers:
        it.start()
    eventually(lambda: sum(len(it.wins) for it in racers) >= 20)
    # Not kill -9: a broker that is alone and killed may leave a transaction that nobody can end.
    pid = broker.pids[0]
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: has_ended(pid))
    broker.kill()
    broker.restart()
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
    create_topic(AdminClient(settings), "log")
    machine = Registers()
    with CommitLog.open(settings, "log", 0, "a", machine) as log:
        assert isinstance(log.append([put("x", 1)]), Applied)
        broker.kill()
        answer = log.append_later([put("x", 2)])
        read = log.read_later(lambda: machine.values["x"])
        broker.restart()
        assert isinstance(answer.result(WAIT_S), Applied)
        assert read.result(WAIT_S) in (1, 2)
        assert log.read(lambda: machine.values["x"]) == 2
