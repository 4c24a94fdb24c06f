"""A Producer with a thread that serves it, replaced when it no longer works.

In: records. Out: their delivery reports, on the thread. librdkafka's Producer may lose every broker
for good without an error. So it is checked while nothing is heard of it. Records left in the old
Producer are reported as purged, and their owner decides what to do with them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from coop_consumer.kafka.clients import Silence, successor
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
"""The reports of a record that was withdrawn. A record in flight may be in the log nevertheless."""

_RAISED = (KafkaException, SystemError)
"""What calls of a broken Producer raise: the second one, if a report is served in `flush`."""

_POLL_S = 0.1
_LAST_WORDS_S = 1.0


@dataclass(eq=False, repr=False)
class Producing:
    """One Producer after another, with the thread that serves them.

    Args:
        settings: Of the Producer at work.
        topic: The topic to ask for when checking the brokers; "": any.
        name: Names the thread.
        first: Called once, before the first report; on the thread, as the next two.
        served: Called after each round of delivery reports.
        failed: Takes the error that ended the thread unexpectedly.

    Attributes:
        broken: Why no Producer of these settings can write again; None: it can.
    """

    settings: dict[str, Any]
    topic: Callable[[], str]
    name: str
    _: KW_ONLY
    first: Callable[[], None] = lambda: None
    served: Callable[[], None] = lambda: None
    failed: Callable[[Exception], None] | None = None

    def __post_init__(self) -> None:
        self.broken: KafkaError | None = None
        self._closing = threading.Event()
        self._changing = threading.Lock()  # guards the Producer
        self._producer = self._new()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _new(self) -> Producer:
        return Producer(logged_in(self.settings), logger=client_log)

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        """The Producer at work: all records of the block go through the same one."""
        with self._changing:
            yield self._producer

    def look_up(self, topic: str, timeout_s: float) -> None:
        """Make it look up a topic's leaders, if a broker answers in time."""
        with suppress(KafkaException):
            self._producer.list_topics(topic, timeout_s)

    def replace(self, settings: dict[str, Any]) -> None:
        """Replace the Producer by one with other settings. Only on the thread."""
        self.settings = settings
        self._use_producer(self._new())

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """Wait for pending records, then end the thread; `lost`: withdraw them instead."""
        with suppress(*_RAISED):
            if lost:
                self._producer.purge()
            self._producer.flush(timeout_s)
        self._closing.set()
        self._thread.join()

    # ---- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self.first()
            self._serve()
        except Exception as error:
            if self.failed is None:
                raise
            self.failed(error)

    def _serve(self) -> None:
        silence = Silence()
        while not self._closing.is_set():
            try:
                reports = self._producer.poll(_POLL_S)
            except KafkaException as error:  # it will never write again
                self.broken, reports = error.args[0], 0
                self._closing.wait(_POLL_S)
            self.served()
            if self.broken or reports or not len(self._producer):
                silence.end()
            elif silence.is_due():
                self._replace_if_cut_off()

    def _replace_if_cut_off(self) -> None:
        found = successor(self._producer, self._new, self.topic())
        if found is not None:
            extra = LogEvent.CLIENT_RENEWED.extra()
            told = "%s: it goes on with a new client. Nothing is lost"
            log.warning(told, self._thread.name, extra=extra)
            self._use_producer(found)

    def _use_producer(self, found: Producer) -> None:
        """Replace the Producer; records left in the old one are reported as purged.

        The old Producer's records in flight must not reach the log behind the new one's. So the old
        one gets its time first.
        """
        with self._changing:
            old, self._producer = self._producer, found
        with suppress(*_RAISED):
            old.flush(_LAST_WORDS_S)
        with suppress(*_RAISED):
            old.purge()
            old.flush(_LAST_WORDS_S)
