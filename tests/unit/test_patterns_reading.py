"""Who begins to read with a wrong address hears of it soon, by a line and then by an error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from assignors import TopicPartition
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.kafka import patience
from coop_consumer.patterns import Deduplicator, committed_records, reading

CONFIG = {"bootstrap.servers": "wrong:9092"}
PLACE = TopicPartition("orders", 0)
ANSWER_S = 10.0


@pytest.mark.parametrize(
    "read",
    [
        lambda: list(committed_records(CONFIG, PLACE, 0)),
        lambda: Deduplicator().catch_up(CONFIG, PLACE, 7),
    ],
    ids=["committed_records", "catch_up"],
)
def test_a_wrong_address_is_told_within_half_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, read: Any
) -> None:
    now_s = 1_000.0

    def moved(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    def describe(*_: Any, **__: Any) -> None:
        moved(ANSWER_S)
        raise BrokerUnreachableError("wrong:9092", "topic orders: silent for 10 s")

    clock = SimpleNamespace(monotonic=lambda: now_s, sleep=moved)
    monkeypatch.setattr(patience, "time", clock)
    monkeypatch.setattr(reading, "Topics", lambda _: SimpleNamespace(describe=describe))
    with pytest.raises(BrokerUnreachableError, match="wrong:9092"):
        read()
    assert now_s - 1_000.0 <= 30.0 + 2 * ANSWER_S
    assert "topic orders: asked again for 20 s more" in caplog.messages[0]
