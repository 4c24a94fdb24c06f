"""The Consumers of a member, without brokers."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from math import inf
from typing import Any

import pytest
from confluent_kafka import KafkaError

from assignors import TopicPartition
from coop_consumer.core.actions import APART, MAIN, HoldApart, StartStream
from coop_consumer.kafka.fetcher import Fetcher, FetchThread
from coop_consumer.plain_text import command
from tests.support.stock import eventually


def ignored(*_: Any) -> None:
    """Nothing is fetched."""


def test_the_consumer_of_a_hot_hash_may_be_gone_when_its_hold_ends() -> None:
    """A stream that is held, and whose Consumer was replaced, stops before it begins again."""
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    fetcher = Fetcher(
        settings, ignored, ignored, ignored, missing=ignored, blocked=ignored, name="fetch"
    )
    with closing(fetcher):
        fetcher.renew(APART)
        fetcher.hold_apart(HoldApart(APART, hold=False))


def test_a_fetch_thread_rests_while_there_is_nothing_to_fetch_and_then_takes_steps() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    fetcher = Fetcher(
        settings, ignored, ignored, ignored, missing=ignored, blocked=ignored, name="fetch"
    )
    with closing(fetcher):
        eventually(lambda: fetcher.stepped_s() == {"fetch": inf})
        fetcher.start_stream(StartStream(TopicPartition("t", 0), 1, 0, MAIN))
        first_s = eventually(lambda: fetcher.stepped_s()["fetch"], lambda at_s: at_s != inf)
        eventually(lambda: first_s < fetcher.stepped_s()["fetch"] < inf)


@pytest.mark.parametrize(
    ("topic", "partition", "where", "check"),
    [
        ("orders", 3, ", topic orders, partition 3", "topic describe orders"),
        ("orders", -1, ", topic orders", "topic describe orders"),
        ("", None, "", "doctor --group g"),
    ],
)
def test_a_fetch_that_fails_is_told_with_its_place_what_it_means_and_a_command(
    topic: str,
    partition: int | None,
    where: str,
    check: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    whole = partial(command, options=("--bootstrap", "b:9092"))
    thread = FetchThread(
        settings, ignored, ignored, ignored, missing=ignored, name="fetch", command=whole
    )
    with closing(thread):
        thread._error(topic, partition, KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
    [line] = [it for it in caplog.records if vars(it).get("event") == "fetch.failed"]
    told = line.getMessage()
    assert told.startswith(
        f"group g{where}: a fetch has failed (Broker: Not leader for partition). Nothing is lost"
    )
    assert told.endswith(f": `coop-consumer {check} --bootstrap b:9092`")
    facts = vars(line)
    assert facts.get("topic", "") == topic
    assert facts.get("partition") == (partition if partition == 3 else None)
