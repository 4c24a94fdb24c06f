"""A Consumer with the only thread that calls it: how it starts, takes commands, and ends.

In: commands from any thread. Out: they are carried out on the thread, which works in between. The
fetcher and the reader of the progress log stand on it.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from time import monotonic
from typing import Any, Unpack

from confluent_kafka import Consumer

from coop_consumer.kafka.clients import Silence
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.log_events import Facts, LogEvent

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 10.0


class Consuming(ABC):
    """The thread of one Consumer.

    Args:
        settings: Of the Consumer.
        died: Takes the error that ended the thread unexpectedly: a defect.
        name: Names the thread.
    """

    _consumer: Consumer

    stepped_s: float
    """When the thread took a step last (monotonic seconds); infinite while it has nothing to do."""

    def __init__(
        self, settings: dict[str, Any], died: Callable[[Exception], None], name: str
    ) -> None:
        self._settings = settings
        self._died = died
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._closing = False
        self._silence = Silence()
        self.stepped_s = monotonic()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """The thread's."""
        return self._thread.name

    def abandon(self) -> None:
        """Tell the thread to end and close the Consumer, without waiting: it may hang."""
        self._closing = True  # at once: commands before this one may each wait for brokers
        self._commands.put(lambda: None)

    def close(self) -> None:
        """End the thread and close the Consumer; abandon it if it hangs."""
        self.abandon()
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            told = (
                "%s: its Consumer does not close, and is abandoned. Nothing is lost: a thread and "
                "some memory stay until the process ends"
            )
            log.warning(told, self._thread.name, extra=self._extra(LogEvent.CLIENT_NOT_CLOSED))

    def _extra(self, event: LogEvent, **facts: Unpack[Facts]) -> dict[str, object]:
        """The `extra` of a line about this Consumer."""
        facts["group"] = str(self._settings.get("group.id", ""))
        return event.extra(**facts)

    def _new_consumer(self, changed: Mapping[str, Any] | None = None) -> Consumer:
        return Consumer(logged_in({**self._settings, **(changed or {})}), logger=client_log)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - a member that cannot read must end
            self._died(error)

    @abstractmethod
    def _work(self) -> None:
        """Work until `_closing`, then close the Consumer. On the thread."""
