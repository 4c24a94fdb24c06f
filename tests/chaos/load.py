"""A steady load: records, each with the time at which it was made.

In: a topic, a rate, the keys. Out: what the broker acknowledged. It goes on through every outage of
the broker, and never sends a record twice. One thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from random import Random
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.journal import Place

KEYS = 150
HANDED_OVER_S = 90.0
_TICK_S = 0.02


def weighted_keys(rng: Random) -> Iterator[str]:
    """Keys of unequal weight: the first comes over a hundred times as often as the last."""
    keys = [f"key-{number}" for number in range(KEYS)]
    weights = [1 / (number + 1) for number in range(KEYS)]
    while True:
        yield from rng.choices(keys, weights, k=KEYS)


class Load:
    """Produces from `start` to `finish`.

    Args:
        settings: Of a confluent client.
        rate: Records a second.
        keys: The key of each record, without end.
    """

    def __init__(
        self, settings: Mapping[str, Any], topic: str, rate: int, keys: Iterator[str]
    ) -> None:
        self._topic = topic
        self._rate = rate
        self._keys = keys
        self._ending = threading.Event()
        self._acknowledged: set[Place] = set()
        self._failures: list[KafkaError] = []
        self._thread = threading.Thread(target=self._produce, name=f"load-{topic}")
        self._producer = Producer(
            {
                **settings,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(HANDED_OVER_S * 1_000),
            }
        )

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> set[Place]:
        """End it; returns where its records lie, once all of them are acknowledged.

        Raises:
            AssertionError: The broker did not take them.
        """
        self._ending.set()
        self._thread.join()
        left = self._producer.flush(HANDED_OVER_S)
        assert left == 0, f"{left} records were not taken by the broker in {HANDED_OVER_S} s"
        assert self._failures == [], f"the broker refused records: {self._failures[:3]}"
        return self._acknowledged

    def abandon(self) -> None:
        """End it, whatever is left."""
        self._ending.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(HANDED_OVER_S)

    def _produce(self) -> None:
        started_s, count = time.monotonic(), 0
        while not self._ending.wait(_TICK_S):
            due = round((time.monotonic() - started_s) * self._rate) - count
            for key in islice(self._keys, due):
                value = str(time.monotonic_ns())
                self._producer.produce(self._topic, value, key, on_delivery=self._note)
            count += due
            self._producer.poll(0)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error)
        else:
            self._acknowledged.add((message.partition() or 0, message.offset() or 0))
