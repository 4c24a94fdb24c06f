"""A broker that has been at work for a while: its Java has compiled what it does all the time.

In: a broker that was just started. Out: the same, warm: the first case would else be slower than
those after it, and its latencies a hundred times as long.
"""

from __future__ import annotations

import threading
from uuid import uuid4

from confluent_kafka import Consumer

from benchmarks import topics
from benchmarks.case import Case

_LOAD = Case(name="", records=16_000, keys=100, rate=2_000)
_POLL_S = 1.0

JVM_OPTIONS = (
    "-Xms1G",
    "-Xmx1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:TieredStopAtLevel=1",
)
"""Heap and collector as in Kafka's own start script: a serial one stops the broker for each
collection. The quick compiler alone: with the optimising one at work beside them on two cores,
records of `live` waited for 50 to 180 ms in each of three runs."""


def warm(bootstrap: str) -> None:
    """Produce, fetch and commit for 8 s, each record by itself."""
    topic = topics.made(bootstrap)
    group = {"group.id": f"warm-{uuid4().hex[:8]}", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **group})
    consumer.subscribe([topic])
    feeding = threading.Thread(target=topics.feed, args=(bootstrap, topic, _LOAD))
    feeding.start()
    try:
        left = _LOAD.records
        while left:
            message = consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                consumer.commit(message=message)
                left -= 1
            assert message is not None or feeding.is_alive(), f"{left} records did not come"
    finally:
        consumer.close()
        feeding.join()
