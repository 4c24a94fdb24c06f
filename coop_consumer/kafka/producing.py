"""A Producer that is always served, and replaced when it is of no use any more.

In: records. Out: their delivery reports, on one thread of its own. librdkafka's Producer may lose
every broker for good, and says nothing then: so it is looked after while nothing is heard of it.
What the old Producer still had is reported as purged, and its owner decides what becomes of that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from coop_consumer.kafka.clients import Silence, successor
from coop_consumer.kafka.clients import log as client_log

log = logging.getLogger(__name__)

PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
"""The reports of a record that was taken back. One under way may be in the log all the same."""

_POLL_S = 0.1
_LAST_WORDS_S = 1.0


class Producing:
    """One Producer after the other, with the thread that serves them.

    Args:
        settings: Of the Producer.
        topic: Names the topic by which it is looked whether brokers answer; "": any.
        name: Names the thread.
        first: Called once, before anything is served; on the thread, as what follows.
        served: Called after each round of delivery reports.
        failed: Takes what ended the thread though it should go on.

    Attributes:
        settings: Of the Producer at work.
        broken: Why no Producer of these settings will ever write again; None: it may.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        topic: Callable[[], str],
        name: str,
        *,
        first: Callable[[], None] = lambda: None,
        served: Callable[[], None] = lambda: None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        self.settings = settings
        self.broken: KafkaError | None = None
        self._topic = topic
        self._first = first
        self._served = served
        self._failed = failed
        self._closing = False
        self._changing = threading.Lock()  # of the Producer
        self._producer = self._new()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _new(self) -> Producer:
        return Producer(self.settings, logger=client_log)

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        """The Producer at work: all that is produced in the block goes through the same one."""
        with self._changing:
            yield self._producer

    def look_up(self, topic: str, timeout_s: float) -> None:
        """Let it know who leads a topic, if a broker answers in time."""
        with suppress(KafkaException):
            self._producer.list_topics(topic, timeout_s)

    def replace(self, settings: dict[str, Any]) -> None:
        """Go on with a Producer of other settings. On the thread of its own."""
        self.settings = settings
        self._go_on_with(self._new())

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """Wait for what is under way, then end the thread; `lost`: take it back instead."""
        with suppress(KafkaException):  # of one that is broken
            if lost:
                self._producer.purge()
            self._producer.flush(timeout_s)
        self._closing = True
        self._thread.join()

    # ---- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._first()
            self._serve()
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(error)

    def _serve(self) -> None:
        silence = Silence()
        while not self._closing:
            try:
                reports = self._producer.poll(_POLL_S)
            except KafkaException as error:  # it will never write again
                self.broken, reports = error.args[0], 0
            self._served()
            if self.broken or reports or not len(self._producer):
                silence.end()
            elif silence.is_due():
                self._replace_if_cut_off()

    def _replace_if_cut_off(self) -> None:
        found = successor(self._producer, self._new, self._topic())
        if found is not None:
            log.warning("%s: it goes on with a new client", self._thread.name)
            self._go_on_with(found)

    def _go_on_with(self, found: Producer) -> None:
        """Replace the Producer; what waits in the old one is reported as purged.

        What the old one has under way must not come into the log behind what the new one sends: so
        it gets its time first.
        """
        with self._changing:
            old, self._producer = self._producer, found
        with suppress(KafkaException):
            old.flush(_LAST_WORDS_S)
            old.purge()
            old.flush(_LAST_WORDS_S)
