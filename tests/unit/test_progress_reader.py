"""The reader of the progress log while no broker tells where a partition ends."""

from __future__ import annotations

import itertools
import logging
import threading
from queue import SimpleQueue
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from coop_consumer.core.events import LogRead
from coop_consumer.kafka import consuming, progress_log
from coop_consumer.kafka.progress_log import ProgressReader


@pytest.mark.parametrize(
    "reason",
    [
        (KafkaError.NOT_LEADER_FOR_PARTITION, "Broker: Not leader for partition"),
        # So librdkafka says of every partition while all brokers are away.
        (KafkaError._UNKNOWN_PARTITION, "no broker answers, or none leads it"),
    ],
)
@pytest.mark.parametrize(("refusals", "is_told"), [(1, False), (3, False), (60, True)])
def test_a_partition_without_a_leader_is_told_only_if_that_lasts(
    refusals: int,
    is_told: bool,
    reason: tuple[int, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    code, why = reason
    left = itertools.repeat(None, refusals)

    class Asked:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
            if next(left, "none") is None:
                raise KafkaException(KafkaError(code))
            return 0, 0

        def close(self) -> None:
            pass

    clock = itertools.count(step=0.05)
    monkeypatch.setattr(consuming, "Consumer", Asked)
    monkeypatch.setattr(progress_log, "monotonic", lambda: next(clock))
    # A log without the filter of all clients, which would hold back what comes again.
    monkeypatch.setattr(progress_log, "client_log", logging.getLogger("tests.clients"))
    monkeypatch.setattr(progress_log, "successor", lambda *_: None)
    monkeypatch.setattr(progress_log, "waiting_messages", lambda *_: [])
    read: SimpleQueue[Any] = SimpleQueue()
    reader = ProgressReader({}, "log", read.put, read.put, name="reader")
    with caplog.at_level(logging.WARNING):
        reader.read(7, 1)
        got = read.get(timeout=10)
    reader.close()
    assert isinstance(got, LogRead)
    assert got.complete == 1
    told = f"topic log, partition 7: no broker has told its end yet ({why}). The"
    assert (told in caplog.text) is is_told
    assert all(it.event == "progress_log.read_failed" for it in caplog.records)  # type: ignore[attr-defined]


def test_a_reader_that_is_closed_asks_no_more_of_brokers_that_are_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who leaves asks for all partitions at once: each question takes seconds in an outage."""
    asked: SimpleQueue[int] = SimpleQueue()
    goes_on = threading.Event()

    class Away:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def get_watermark_offsets(self, place: Any, *_: object) -> tuple[int, int]:
            asked.put(place.partition)
            assert goes_on.wait(10)
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        def close(self) -> None:
            pass

    monkeypatch.setattr(consuming, "Consumer", Away)
    monkeypatch.setattr(progress_log, "successor", lambda *_: None)
    reader = ProgressReader({}, "log", lambda _: None, lambda _: None, name="reader")
    for number in range(60):
        reader.read(number, 1)
    assert asked.get(timeout=10) == 0
    reader.abandon()
    goes_on.set()
    reader.close()
    assert asked.empty()


def test_a_read_that_fails_is_told_with_its_place_what_it_means_and_a_command(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failed:
        def partition(self) -> int:
            return 7

        def offset(self) -> int:
            return -1001

        def error(self) -> KafkaError:
            return KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)

    class Silent:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __getattr__(self, _: str) -> Any:
            return lambda *_: (0, 5)  # where a partition begins and ends, if that is asked

    handed: SimpleQueue[list[Failed]] = SimpleQueue()
    done = threading.Event()

    def messages(*_: object) -> list[Failed]:
        if handed.empty():
            done.set()
            return []
        return handed.get()

    monkeypatch.setattr(consuming, "Consumer", Silent)
    monkeypatch.setattr(progress_log, "successor", lambda *_: None)
    monkeypatch.setattr(progress_log, "waiting_messages", messages)
    handed.put([Failed()])
    reader = ProgressReader({}, "log", lambda _: None, lambda _: None, name="reader")
    reader.read(7, 1)
    assert done.wait(10)
    reader.close()
    [line] = [it for it in caplog.records if it.levelno >= logging.WARNING]
    told = line.getMessage()
    assert told.startswith(
        "progress topic log, partition 7: a read has failed (Broker: Not leader for partition). "
        "Nothing is lost: it is read again"
    )
    assert told.endswith(": `coop-consumer topic describe log`")
