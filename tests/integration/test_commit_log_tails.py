"""Logs that end with what nobody sees: markers, aborted records, both. Nobody waits there.

A reader of committed records gets nothing of such a tail, and has to get to the end of it all the
same. If it took the tail for records that are on the way, these calls would end with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from coop_consumer.logs import Applied, CommitLog, ConditionalProducer, Conflict, LogToken
from coop_consumer.offset_stores import LogOffsetStore, OffsetEntry
from tests.support.brokers import MakeTopic
from tests.support.hostile import T0
from tests.support.journal import WAIT_S
from tests.support.registers import Registers, put
from tests.support.stock import eventually
from tests.support.topics import ADMIN_TIMEOUT_S, remove_below

pytestmark = pytest.mark.integration

TAILS = {"its own marker": (), "aborted": (1,), "aborted again and again": (5,) * 20}
"""What transactions have left there that were aborted: so many records each."""


class Place:
    """A topic, its logs, and a stranger who leaves tails."""

    def __init__(self, bootstrap: str, topic: str, logs: ExitStack) -> None:
        self.settings = {"bootstrap.servers": bootstrap}
        self.topic, self._logs = topic, logs

    def log(self, writer: str) -> tuple[CommitLog, Registers]:
        machine = Registers()
        log = CommitLog.open(self.settings, self.topic, 0, writer, machine)
        return self._logs.enter_context(log), machine

    def leave(self, tail: tuple[int, ...], topic: str = "") -> None:
        if not tail:
            return
        stranger = Producer({**self.settings, "transactional.id": f"{self.topic}-stranger"})
        stranger.init_transactions(WAIT_S)
        for records in tail:
            stranger.begin_transaction()
            for number in range(records):
                stranger.produce(topic or self.topic, b"%d" % number, b"stranger", 0)
            assert stranger.flush(WAIT_S) == 0
            stranger.abort_transaction(WAIT_S)


@pytest.fixture
def place(bootstrap: str, topic: MakeTopic, admin: AdminClient) -> Iterator[Place]:
    name = topic()
    with ExitStack() as logs:
        yield Place(bootstrap, name, logs)
    if (snapshots := f"{name}-snapshots") in admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics:
        admin.delete_topics([snapshots])[snapshots].result(ADMIN_TIMEOUT_S)


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_a_log_syncs_and_is_read_to_its_end(place: Place, tail: tuple[int, ...]) -> None:
    first, machine = place.log("a")
    first.append([put("x", 1)])
    place.leave(tail)
    first.sync()
    second, restored = place.log("b")
    assert restored.values == machine.values == {"x": 1}
    assert first.token == second.token, "nothing of the tail is a record"
    assert isinstance(second.append([put("x", 2)]), Applied)
    place.leave(tail)
    assert first.read(lambda: machine.values["x"]) == 2
    assert isinstance(first.append([put("x", 3)]), Applied)
    assert isinstance(second.append([put("x", 4)]), Conflict)


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_a_snapshot_is_restored_and_the_tail_behind_it_passed(
    place: Place, tail: tuple[int, ...], admin: AdminClient
) -> None:
    first, _ = place.log("a")
    first.append([put("x", 1)])
    token = first.snapshot()
    place.leave(tail, f"{place.topic}-snapshots")  # such as snapshots of processes that were killed
    place.leave(tail)
    remove_below(admin, place.topic, token.offset + 1)
    second, machine = place.log("b")
    assert (machine.values, machine.offsets) == ({"x": 1}, []), "there is no record to read"
    second.sync()
    assert second.token == token
    assert isinstance(second.append([put("x", 2)]), Applied)


@pytest.mark.parametrize("tail", list(TAILS.values())[1:], ids=list(TAILS)[1:])
def test_a_log_of_a_tail_alone_is_empty(place: Place, tail: tuple[int, ...]) -> None:
    place.leave(tail)
    log, machine = place.log("a")
    log.sync()
    assert (log.token.offset, machine.offsets) == (-1, [])
    assert isinstance(log.append([put("x", 1)]), Applied)


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_who_appends_without_a_state_or_keeps_offsets_gets_past_it(
    place: Place, tail: tuple[int, ...]
) -> None:
    with ConditionalProducer(place.settings, place.topic, 0, "p") as producer:
        token = producer.append([put("x", 1)], producer.token())
        assert isinstance(token, LogToken)
        place.leave(tail)
        assert eventually(producer.token, lambda it: it == token), "its marker may be on the way"
        assert producer.read(token) == []
        assert isinstance(producer.append([put("x", 2)], token), LogToken)
    place.leave(tail)
    with LogOffsetStore(place.settings, place.topic, "s") as store:
        store.commit("g", {T0: OffsetEntry(7)})
        place.leave(tail)
        assert store.fetch("g", [T0]) == {T0: OffsetEntry(7)}
