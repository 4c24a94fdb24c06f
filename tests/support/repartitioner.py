"""A task that repartitions, to be killed at every step; see `tests.support.stepping`.

It has committed nothing when it is killed, so the next run writes all of its records again.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignors import TopicPartition
from coop_consumer.kafka import publish
from coop_consumer.patterns import committed_records, with_source
from tests.support.journal import WAIT_S


def run(config: Mapping[str, object], topic: str, partition: int) -> None:
    """Write all records of a partition to another topic, with their places."""
    source = TopicPartition(topic, partition)
    producer = publish.Producer({**config, "enable.idempotence": True})  # the one that is killed
    for record in committed_records(config, source, 0):
        headers = [*with_source([], source, record.offset() or 0)]
        producer.produce(f"{topic}-out", record.value(), partition=partition, headers=[*headers])
    assert producer.flush(WAIT_S) == 0
