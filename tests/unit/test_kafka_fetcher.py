"""The Consumers of a member, without brokers."""

from __future__ import annotations

from contextlib import closing
from math import inf
from typing import Any

from assignors import TopicPartition
from coop_consumer.core.actions import APART, MAIN, HoldApart, StartStream
from coop_consumer.kafka.fetcher import Fetcher
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
