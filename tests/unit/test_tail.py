"""What a follower of partitions makes of what its client tells."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import AuthorizationError, InputGoneError
from coop_consumer.kafka import clients, tail
from coop_consumer.kafka.tail import Tail

A, B = TopicPartition("a", 0), TopicPartition("b", 3)
CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})


class Told:
    """A message, or an event."""

    def __init__(self, tp: TopicPartition | None, offset: int, code: int | None = None) -> None:
        self.tp, self._offset = tp, offset
        self._error = None if code is None else KafkaError(code)

    def topic(self) -> str | None:
        return self.tp and self.tp.topic

    def partition(self) -> int | None:
        return self.tp and self.tp.partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error


class Client:
    """A Consumer that notes what it is asked for, and tells what it was given."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.assigned: list[tuple[str, int]] = []
        self.paused: set[str] = set()
        self.told: list[Told] = []
        self.is_closed = False

    def assign(self, places: list[Any]) -> None:
        self.assigned = [(place.topic, place.offset) for place in places]

    def pause(self, places: list[Any]) -> None:
        self.paused |= {place.topic for place in places}

    def resume(self, places: list[Any]) -> None:
        self.paused -= {place.topic for place in places}

    def consume(self, *_: Any) -> list[Told]:
        told, self.told = self.told, []
        return told

    def poll(self, _: float) -> None:
        return None

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Tail:
    monkeypatch.setattr(tail, "Consumer", Client)
    return Tail(CONFIG, "merger", {A: 5, B: 0})


def told(followed: Tail, *events: Told) -> list[tuple[str, int]]:
    client: Any = followed._consumer
    client.told = list(events)
    return [(it.topic() or "", it.offset() or 0) for it in followed.messages(0.0)]


def test_messages_come_once_and_ends_move_the_position_over_holes(followed: Tail) -> None:
    assert told(followed, Told(A, 5), Told(B, 2), Told(A, 5), Told(A, 7)) == [
        ("a", 5),
        ("b", 2),
        ("a", 7),
    ]
    assert followed.positions == {A: 8, B: 3}
    assert told(followed, Told(A, 12, KafkaError._PARTITION_EOF)) == []
    assert followed.positions == {A: 12, B: 3}
    assert told(followed, Told(A, 9, KafkaError._PARTITION_EOF)) == [], "an old one"
    assert followed.positions == {A: 12, B: 3}


def test_what_passes_is_passed_over_and_no_right_to_a_group_is_needed(followed: Tail) -> None:
    passing = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    events = [Told(None, 0, code) for code in (*passing, KafkaError.GROUP_AUTHORIZATION_FAILED)]
    assert told(followed, *events, Told(B, 0)) == [("b", 0)]


def test_a_missing_right_names_the_topic_or_all_of_them(followed: Tail) -> None:
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(AuthorizationError, match="topic b: the configured user may not read"):
        told(followed, Told(B, 0, refused))
    with pytest.raises(AuthorizationError, match="topic a, b: "):
        told(followed, Told(None, 0, refused))


def test_records_that_are_gone_are_an_error(
    followed: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "Topics", lambda _: None)
    ends = {tail.EARLIEST: 40, tail.LATEST: 60}
    monkeypatch.setattr(tail, "offset_of", lambda _, __, spec: ends[spec])
    with pytest.raises(
        InputGoneError, match="merger: goes on at offset 5 of a-0, which begins at 40"
    ):
        told(followed, Told(A, 0, KafkaError._AUTO_OFFSET_RESET))


def test_inputs_are_paused_and_resumed_by_their_names(followed: Tail) -> None:
    client: Any = followed._consumer
    followed.keep_paused({A})
    assert client.paused == {"a"}
    followed.keep_paused({B})
    assert client.paused == {"b"}
    followed.keep_paused(set())
    assert client.paused == set()


def test_a_client_that_is_cut_off_is_replaced_where_it_stands(
    followed: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was paused is fetched again, until somebody pauses it anew."""
    old: Any = followed._consumer
    now_s = clients.monotonic()
    monkeypatch.setattr(clients, "monotonic", lambda: now_s + clients.SILENT_S)
    monkeypatch.setattr(tail, "successor", lambda _, make, __: make())
    told(followed, Told(A, 5))
    followed.keep_paused({A})
    now_s += clients.SILENT_S + 1
    assert told(followed) == []
    new: Any = followed._consumer
    assert old.is_closed
    assert new is not old
    assert new.assigned == [("a", 6), ("b", 0)]
    assert followed.paused == set()
    followed.close()
    assert new.is_closed
