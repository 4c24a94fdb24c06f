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

from coop_consumer.kafka.clients import SILENT_S, Silence, successor
from tests.support.journal import Place

KEYS = 150
HANDED_OVER_S = 90.0
_NEVER_SENT = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_TICK_S = 0.02


def weighted_keys(rng: Random, *, hot: bool = False) -> Iterator[str]:
    """Keys of unequal weight: the first comes over a hundred times as often as the last.

    Args:
        rng: Chooses.
        hot: The first is a third of all, which is more than one worker does.
    """
    keys = [f"key-{number}" for number in range(KEYS)]
    weights = [1 / (number + 1) for number in range(KEYS)]
    if hot:
        weights[0] = sum(weights[1:]) / 2
    while True:
        yield from rng.choices(keys, weights, k=KEYS)


class Load:
    """Produces from `start` to `finish`.

    Attributes:
        acknowledged_ns: Where its records lie, and when the broker said so.

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
        self._is_given_up = False
        self.acknowledged_ns: dict[Place, int] = {}
        self._failures: list[KafkaError] = []
        self._thread = threading.Thread(target=self._produce, name=f"load-{topic}")
        self._settings = {
            **settings,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": int(HANDED_OVER_S * 1_000),
        }
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        return Producer(self._settings)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> set[Place]:
        """End it; returns where its records lie, once all of them are acknowledged.

        Raises:
            AssertionError: The broker did not take them.
        """
        self._ending.set()
        self._thread.join()
        until_s = time.monotonic() + HANDED_OVER_S
        while (left := self._producer.flush(SILENT_S)) and time.monotonic() < until_s:
            self._replace_if_cut_off()
        assert left == 0, f"{left} records were not taken by the broker in {HANDED_OVER_S} s"
        assert self._failures == [], f"the broker refused records: {self._failures[:3]}"
        return set(self.acknowledged_ns)

    def abandon(self) -> None:
        """End it, whatever is left."""
        self._ending.set()
        self._is_given_up = True
        self._thread.join()
        self._producer.purge()
        self._producer.flush(HANDED_OVER_S)

    def _produce(self) -> None:
        started_s, count, silence = time.monotonic(), 0, Silence()
        while not self._ending.wait(_TICK_S):
            due = round((time.monotonic() - started_s) * self._rate) - count
            for key in islice(self._keys, due):
                value = str(time.monotonic_ns())
                self._producer.produce(self._topic, value, key, on_delivery=self._note)
            count += due
            if self._producer.poll(0) or not len(self._producer):
                silence.end()
            elif silence.is_due():
                self._replace_if_cut_off()

    def _replace_if_cut_off(self) -> None:
        """Go on with a new client if this one is cut off from the brokers."""
        found = successor(self._producer, self._new_producer, self._topic)
        if found is not None:
            old, self._producer = self._producer, found
            old.purge()
            old.flush(HANDED_OVER_S)  # `_note` gives to the new one what waited in it

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in _NEVER_SENT and not self._is_given_up:
            self._producer.produce(
                self._topic, message.value(), message.key(), on_delivery=self._note
            )
        elif error is not None:
            self._failures.append(error)
        else:
            place = message.partition() or 0, message.offset() or 0
            self.acknowledged_ns[place] = time.monotonic_ns()
