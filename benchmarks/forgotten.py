"""How long `gc` takes for many forgotten groups.

`python -m benchmarks.forgotten [--groups 1000] [--runs 5]` writes by hand what so many groups have
left, of three partitions each, to a progress topic of its own, and has `gc` clear it. It runs on
the broker of COOP_TEST_BOOTSTRAP, or on an embedded one, and prints the median and the extremes.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from uuid import uuid4

from confluent_kafka import Producer

from assignors import WHOLE
from coop_consumer.admin.collector import Collector, CollectOutcome
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.config import Config
from coop_consumer.core.placement import log_partition_of
from coop_consumer.kafka.topics import Topics
from offsets import (
    AnnounceKey,
    AnnounceRecord,
    BaseKey,
    BaseRecord,
    Key,
    OffsetRange,
    RangeProgress,
    TenureId,
    TenureKey,
    TenureRecord,
    Value,
    encode_key,
    encode_value,
)

PARTITIONS = 3
TENURES = 3
"""Of each partition, as after some rebalances."""
FACT = RangeProgress(WHOLE, 50, (OffsetRange(60, 70), OffsetRange(90, 99)))


@contextmanager
def _broker() -> Iterator[str]:
    named = os.environ.get("COOP_TEST_BOOTSTRAP")
    if named:
        yield named
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def _records(group: str, topic_id: bytes, partition: int) -> Iterator[tuple[Key, Value]]:
    member = f"member-{partition}"
    yield AnnounceKey(group, member), AnnounceRecord(1, 0, "", "benchmark")
    yield BaseKey(group, topic_id, partition, 1, member), BaseRecord(1, 0)
    for number in range(TENURES):
        tenure = TenureId(member, 1, number)
        yield TenureKey(group, topic_id, partition, tenure), TenureRecord(1, -1, (FACT,))


def _leave_behind(config: Config, count: int) -> None:
    """What so many groups leave that nobody starts any more."""
    topics, data = Topics(config), f"forgotten-{uuid4().hex[:8]}"
    log_partitions = topics.progress_topic().partitions
    topics.create(data, PARTITIONS, -1, {})
    topic_id = topics.once_made(data).id
    producer = Producer({"bootstrap.servers": config.bootstrap_servers, "linger.ms": 20})
    for group in (f"{data}-{number}" for number in range(count)):
        for partition in range(PARTITIONS):
            place = log_partition_of(group, data, partition, log_partitions)
            for key, value in _records(group, topic_id, partition):
                entry = encode_value(value), encode_key(key)
                producer.produce(config.progress_topic, *entry, place)
        producer.poll(0)
    producer.flush()


def _cleared_s(bootstrap: str, groups: int) -> float:
    settings = {"bootstrap.servers": bootstrap, "group.id": "benchmark-gc"}
    config = Config.from_dict({**settings, "progress.topic": f"progress-{uuid4().hex[:8]}"})
    _leave_behind(config, groups)
    began_s = time.monotonic()
    with Collector(config, time.time_ns() // 1_000_000 + 60_000) as collector:
        found, _ = collector.found()
        outcomes = [it.outcome for it in collector.collect(found)]
    assert outcomes == [CollectOutcome.CLEARED] * groups, "some groups were not cleared"
    return time.monotonic() - began_s


def main() -> None:
    """Measure, and print a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    with _broker() as bootstrap:
        took_s = [_cleared_s(bootstrap, asked.groups) for _ in range(asked.runs)]
    print(
        f"gc of {asked.groups} groups: {median(took_s):.1f} s in the median of {asked.runs}, "
        f"{min(took_s):.1f} to {max(took_s):.1f} s"
    )


if __name__ == "__main__":
    main()
