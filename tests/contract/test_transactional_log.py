"""The log in memory and Kafka's keep the same promises to the rules of a conditional append."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.transaction import Said
from coop_consumer.logs import MemoryPartition, NewRecord
from coop_consumer.logs.kafka_log import KafkaLog
from coop_consumer.logs.memory_log import MemoryClient
from coop_consumer.logs.port import StableRead, TransactionalLog
from coop_consumer.logs.records import APPEND_HEADER, ID_HEADER
from tests.support.stock import eventually, produce

Clients = Callable[[str], TransactionalLog]


class _Place:
    """A partition: its clients, and a plain producer beside them."""

    def __init__(self, client: Clients, plain: Callable[[], object]) -> None:
        self.client, self.plain = client, plain


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.integration)])
def place(request: pytest.FixtureRequest) -> Iterator[_Place]:
    if request.param == "memory":
        partition = MemoryPartition(lock=threading.RLock())
        yield _Place(
            lambda name: MemoryClient(partition, name),
            lambda: partition.append_plainly(NewRecord(b"plain", b"value")),
        )
        return
    bootstrap: str = request.getfixturevalue("bootstrap")
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    name = request.getfixturevalue("topic")()
    config = Config.from_dict({"group.id": name, **settings})
    with ExitStack() as clients:

        def client(writer: str) -> TransactionalLog:
            made = KafkaLog(config, TopicPartition(name, 0), writer)
            clients.callback(made.close)
            return made

        yield _Place(client, lambda: produce(settings, name, ["plain"]))


def record(log: TransactionalLog, value: bytes) -> NewRecord:
    headers = ((APPEND_HEADER, b"id of " + value), (ID_HEADER, log.writer.encode()))
    return NewRecord(b"key", value, headers)


def ready(log: TransactionalLog) -> TransactionalLog:
    assert eventually(lambda: log.renew() is Said.DONE)
    return log


def stable(log: TransactionalLog, beyond: int = -1) -> StableRead:
    """A read once all markers are written."""
    return eventually(lambda: log.read(beyond), lambda seen: not seen.is_undecided)


def test_an_empty_log_is_read_at_once(place: _Place) -> None:
    log = place.client("a")
    assert log.read(-1) == StableRead([], 0, 0, 0, 0, b"")
    assert log.empty().offset == -1
    assert log.end() == 0


def test_what_is_committed_is_visible_and_what_is_aborted_never_is(place: _Place) -> None:
    log = ready(place.client("a"))
    landed = log.produce([record(log, b"1"), NewRecord(None, None)])
    assert landed == (Said.DONE, 0, 1)
    assert log.commit() is Said.DONE
    landed = log.produce([record(log, b"2")])
    assert landed == (Said.DONE, 3, 3), "the marker of the first one lies between"
    assert log.abort() is Said.DONE
    seen = stable(place.client("b"))
    assert seen.records == [(0, b"key", b"1"), (1, None, None)]
    assert (seen.position, seen.end) == (5, 5)
    assert seen.append_id == b"id of 1"


def test_a_read_goes_on_behind_an_offset(place: _Place) -> None:
    log = ready(place.client("a"))
    reader = place.client("b")
    for value in (b"1", b"2"):
        log.produce([record(log, value)])
        log.commit()
    assert [it.value for it in stable(reader, 0).records] == [b"2"]
    assert stable(reader, 2).records == []
    assert stable(reader, 2).position == 4
    place.plain()
    assert [it.offset for it in stable(reader, 2).records] == [4]
    assert stable(reader, 4).append_id == b""
    assert [it.offset for it in stable(reader, -1).records] == [0, 2, 4]


def test_an_offset_ahead_of_the_log_finds_nothing(place: _Place) -> None:
    place.plain()
    seen = place.client("a").read(17)
    assert seen.records == []
    assert seen.end == 1


def test_nobody_reads_past_an_undecided_record(place: _Place) -> None:
    log, reader = ready(place.client("a")), place.client("b")
    log.produce([record(log, b"1")])
    place.plain()
    seen = reader.read(-1)
    assert (seen.records, seen.position, seen.end) == ([], 0, 2)
    assert seen.is_undecided
    assert seen.is_complete
    log.commit()
    assert [it.value for it in stable(reader).records] == [b"1", b"value"]


def test_a_new_client_of_an_id_ends_what_is_open_and_fences_the_former_one(place: _Place) -> None:
    former = ready(place.client("a"))
    former.produce([record(former, b"1")])
    ready(place.client("a"))
    assert former.commit() is Said.BROKEN
    seen = stable(place.client("b"))
    assert (seen.records, seen.position) == ([], 2)
    assert former.produce([record(former, b"2")]).said is not Said.DONE
    assert former.renew() is Said.DONE, "it may take the id back"
    assert former.produce([record(former, b"3")]).said is Said.DONE


def test_an_undecided_transaction_of_others_can_be_ended(place: _Place) -> None:
    dead, reader = ready(place.client("a")), place.client("b")
    dead.produce([record(dead, b"1")])
    assert reader.end_blocker(0)
    assert stable(reader).position == 2
    assert dead.commit() is Said.BROKEN
    place.plain()
    assert not reader.end_blocker(2), "nobody's transaction"
