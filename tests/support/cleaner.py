"""A cleaning of one partition, to be killed at every step; see `tests.support.stepping`."""

from __future__ import annotations

from collections.abc import Mapping

from coop_consumer.config import Config
from coop_consumer.kafka import slice_reader
from coop_consumer.patterns import cleaning

RECORDS = 3
"""In a transaction: six records go in two."""


def run(config: Mapping[str, object], topic: str, partition: int) -> None:
    """Clean what is left of a partition. May be killed anywhere, and called again."""
    slice_reader.BATCH_MAX = cleaning.TRANSACTION_RECORDS = RECORDS
    parsed = Config.from_dict({**config, "group.id": f"{topic}-cleanup"}, both_clients=False)
    order = cleaning.cleaning_order(parsed, topic, f"{topic}-clean")
    cleaning.clean_partition(order, partition)
