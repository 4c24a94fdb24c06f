"""What librdkafka's errors mean for whoever wrote the record."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from coop_consumer.errors import RecordRefusedError, UnexpectedAnswerError
from coop_consumer.kafka.translate import fetched_from, translated


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (KafkaError.INVALID_TIMESTAMP, "message.timestamp.type=LogAppendTime"),
        (KafkaError.POLICY_VIOLATION, "which policy"),
        (KafkaError._UNKNOWN_PARTITION, "name a partition that it has"),
        (
            KafkaError.INVALID_RECORD,
            "so give it a key if the topic is compacted; else set the clock",
        ),
        (KafkaError.UNSUPPORTED_COMPRESSION_TYPE, "compression.type"),
    ],
)
def test_a_record_that_is_refused_for_good_is_no_passing_failure(code: int, remedy: str) -> None:
    error = translated(KafkaError(code), "topic log", operation="write")
    assert isinstance(error, RecordRefusedError)
    assert remedy in str(error)
    assert KafkaError(code).str() in str(error)
    first = str(error).partition(". ")[0]
    assert remedy in first, "a line about a dead letter quotes no more"


@pytest.mark.parametrize(("operation", "verb"), [("write", "written"), ("read", "consumed")])
def test_a_missing_topic_says_what_is_not_done_with_it(operation: str, verb: str) -> None:
    error = translated(KafkaError(KafkaError._UNKNOWN_TOPIC), "topic out", operation=operation)
    assert f"topic out: does not exist, or this user may not see it. Nothing is {verb}." in str(
        error
    )


def test_the_same_answer_to_another_question_says_nothing_of_a_record() -> None:
    error = translated(KafkaError(KafkaError.POLICY_VIOLATION), "topic log")
    assert isinstance(error, UnexpectedAnswerError)


@pytest.mark.parametrize(
    ("code", "topic", "told"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "", "group billing: user ann may not read"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "orders", "group billing: user ann may not read"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "orders", "topic orders: user ann may not read"),
    ],
)
def test_a_fetch_names_the_group_where_the_right_to_it_is_missing(
    code: int, topic: str, told: str
) -> None:
    error = KafkaError(code)
    where = fetched_from(error, topic, "billing")
    assert str(translated(error, where, "ann", "read")).startswith(told)
