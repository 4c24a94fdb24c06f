"""What a reader of committed records makes of a batch of messages."""

from __future__ import annotations

from time import monotonic
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from assignors import TopicPartition
from coop_consumer.errors import UnexpectedAnswerError
from coop_consumer.logs.kafka_reader import CommittedReader, _Found
from coop_consumer.logs.records import VisibleRecord


class Message:
    """A record, or an event of the client."""

    def __init__(self, offset: int, code: int | None = None) -> None:
        self._offset, self._code = offset, code

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"%d" % self._offset

    def headers(self) -> list[tuple[str, bytes]]:
        return [("tag", b"of %d" % self._offset)]


@pytest.fixture
def reader() -> CommittedReader:
    found = CommittedReader.__new__(CommittedReader)  # without clients
    found._tp = TopicPartition("log", 0)
    return found


def taken(reader: CommittedReader, position: int, *messages: Message) -> tuple[list[int], int]:
    begun = _Found([], [], position)
    found = reader._with(begun, cast("Any", messages), "tag", 100)
    assert found.tags == [b"of %d" % it.offset for it in found.records]
    return [it.offset for it in found.records], found.position


def test_what_was_fetched_before_the_client_was_assigned_anew_is_passed_over(
    reader: CommittedReader,
) -> None:
    assert taken(reader, 5, Message(3), Message(4), Message(5), Message(7)) == ([5, 7], 8)
    assert taken(reader, 5, Message(3), Message(4)) == ([], 5)


def test_the_end_moves_the_position_over_what_nobody_sees(reader: CommittedReader) -> None:
    end = Message(9, KafkaError._PARTITION_EOF)
    assert taken(reader, 5, Message(5), end) == ([5], 9)
    assert taken(reader, 5, Message(3), Message(4, KafkaError._PARTITION_EOF)) == ([], 5)


def test_a_beginning_that_is_gone_is_asked_for_once_more(reader: CommittedReader) -> None:
    with pytest.raises(UnexpectedAnswerError, match=r"log-0 from offset 6: .*were removed"):
        taken(reader, 5, Message(5), Message(0, KafkaError._AUTO_OFFSET_RESET))


@pytest.mark.parametrize("name", ["_position", "_last_visible"])
def test_a_read_that_is_interrupted_is_made_again_and_misses_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = [name]

    class Interrupted(CommittedReader):
        def __setattr__(self, attribute: str, value: object) -> None:
            super().__setattr__(attribute, value)
            if attribute in interrupts:
                interrupts.remove(attribute)
                raise KeyboardInterrupt

    log = range(5, 10)
    reader = Interrupted.__new__(Interrupted)  # without clients
    vars(reader).update(_position=5, _last_visible=4, _checked_s=monotonic())

    def read_to(end: int, start: int) -> _Found:
        records = [VisibleRecord(offset, b"k", b"v") for offset in log if start <= offset < end]
        return _Found(records, [b""] * len(records), end)

    monkeypatch.setattr(CommittedReader, "_ends", lambda *_, **__: (0, 10))
    monkeypatch.setattr(
        CommittedReader, "_read_to", lambda _, end, start, *__, **___: read_to(end, start)
    )
    with pytest.raises(KeyboardInterrupt):
        reader.read(4)
    assert [it.offset for it in reader.read(4).records] == [*log]


def test_the_log_is_searched_backwards_in_growing_steps_and_not_above_its_end(
    reader: CommittedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[int, int]] = []

    def read_to(end: int, start: int, _: str) -> _Found:
        """Others append while it is read: what it brings may lie above the end."""
        steps.append((start, end))
        offsets = range(start, end + 2)
        records = [VisibleRecord(offset, b"k", b"v") for offset in offsets]
        return _Found(records, [b"tag"] * len(records), end + 2)

    monkeypatch.setattr(reader, "_read_to", read_to)
    found = [it.record.offset for it in reader._backwards(0, 300, "tag")]
    assert found == list(range(300))[::-1], "each once"
    assert steps == [(236, 300), (108, 236), (0, 108)]
