"""A group's log is folded over many looks, by readers that read for others in between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from assignors import TopicPartition
from coop_consumer.admin.log_view import GroupLog
from coop_consumer.config import Config
from coop_consumer.core.events import LogRead
from offsets import BaseKey, BaseRecord, LogRecord, encode_key, encode_value

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
ORDERS, TOPIC_ID = TopicPartition("orders", 0), b"0123456789abcdef"
BASE = encode_key(BaseKey("billing", TOPIC_ID, 0, 1, "w")), encode_value(BaseRecord(1, 7))


class Reader:
    """Answers each read at once: with a record, if these readings have not had it."""

    def __init__(self) -> None:
        self.hangs = False
        self.turns: list[Any] = []
        self._deliver: Any = None

    def turn_to(
        self, _: object, __: str, readings: Any, deliver: Any, *___: Any, **____: Any
    ) -> None:
        self.turns.append(readings)
        self._deliver = deliver

    def read(self, number: int, asked: int) -> None:
        known = self.turns[-1].by_number
        records = [] if number in known else [LogRecord(0, *BASE, 0)]
        known[number] = "read"
        self._deliver(LogRead(number, records, asked, 1))

    def late(self, number: int) -> None:
        """Deliver to whoever has had the last turn."""
        self._deliver(LogRead(number, [], 0, 0, restart=True))

    def leave(self) -> bool:
        return not self.hangs


def look(log: GroupLog, readers: Any) -> int:
    """Look once; returns the epoch that the log tells."""
    log.begin(readers)
    store = log.stores([ORDERS])[ORDERS]
    return store.partition(TOPIC_ID, 0).epoch


def test_what_was_folded_stays_whoever_reads_on() -> None:
    first, second = Reader(), Reader()
    log = GroupLog(CONFIG, 1)
    for reader in (first, second):
        assert look(log, SimpleNamespace(reader=lambda *_: reader, policies=None)) == 1  # noqa: B023
        log.end()
    assert first.turns == second.turns, "the second reader goes on where the first one was"


def test_after_a_reader_that_hangs_the_log_is_read_anew_and_its_late_words_are_not_heard() -> None:
    hanging, other = Reader(), Reader()
    log = GroupLog(CONFIG, 1)
    assert look(log, SimpleNamespace(reader=lambda *_: hanging, policies=None)) == 1
    hanging.hangs = True
    log.end()
    hanging.late(0)
    assert look(log, SimpleNamespace(reader=lambda *_: other, policies=None)) == 1
    assert other.turns[0] is not hanging.turns[0]
