"""The Consumers of a member, without brokers."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from coop_consumer.core.actions import APART, HoldApart
from coop_consumer.kafka.fetcher import Fetcher


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
