"""A publisher whose Producer is a script: which error a caller gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import RecordTooLargeError
from coop_consumer.kafka import publish
from coop_consumer.kafka.publish import Publisher


class Refusing:
    """A Producer: a broker refuses the record, and its report waits for who serves it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.report: Any = None

    def __getattr__(self, _: str) -> Any:
        return lambda *_: None

    def produce(self, topic: str, *_: Any, on_delivery: Any, **__: Any) -> None:
        self.report = lambda: on_delivery(
            KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), SimpleNamespace(topic=lambda: topic)
        )

    def commit_transaction(self, *_: Any) -> None:
        aborts = {"fatal": False, "retriable": False, "txn_requires_abort": True}
        raise KafkaException(KafkaError(KafkaError._INCONSISTENT, "see the reports", **aborts))

    def poll(self, _: float = 0) -> int:
        if self.report is not None:
            self.report()
            self.report = None
        return 1

    def __len__(self) -> int:
        return int(self.report is not None)


@pytest.mark.parametrize("has_mark", [True, False])
def test_a_record_that_is_refused_is_named_whichever_call_comes_next(
    monkeypatch: pytest.MonkeyPatch, has_mark: bool
) -> None:
    """librdkafka says of that call only "Erroneous state", or "see the reports"."""
    monkeypatch.setattr(publish, "Producer", Refusing)
    config = Config.from_dict({"bootstrap.servers": "localhost:1", "group.id": "g"})
    refused = pytest.raises(RecordTooLargeError, match="topic totals")
    with Publisher(config, "w") as publisher, refused, publisher.transaction():
        publisher.write("totals", b"x" * 2_000)
        if has_mark:
            publisher.mark(TopicPartition("orders", 0), 1)
