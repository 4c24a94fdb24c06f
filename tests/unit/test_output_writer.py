"""What a topic that has taken outputs says when it takes no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError, CoopConsumerError, TopicMissingError
from coop_consumer.kafka.output_writer import OutputWriter

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._UNKNOWN_PARTITION, TopicMissingError),
        (KafkaError._DESTROY, TopicMissingError),  # it waited for a partition that is gone
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissingError),
        (KafkaError._TRANSPORT, BrokerUnreachableError),
    ],
)
def test_a_topic_that_was_deleted_is_missing(code: int, expected: type[CoopConsumerError]) -> None:
    output: Any = SimpleNamespace(topic="totals")
    reason = OutputWriter(CONFIG, ["totals"])._reason(output, KafkaError(code))
    assert type(reason) is expected
    assert "totals" in str(reason)
