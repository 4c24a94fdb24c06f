"""How a consumer begins and ends, and which calls it refuses meanwhile.

In: calls in any order, from any thread, in a handler of a signal, or in a forked child. Out: the
member at work, or an error that says which call is missing. Begin and end exclude each other by a
lock; a call on the way of a record takes no lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Self

from coop_consumer import forks
from coop_consumer.arguments import seconds
from coop_consumer.config import Config, Settings
from coop_consumer.consumer.consumption import NEW_ONE, Consumption
from coop_consumer.errors import CoopConsumerError, MisuseError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.health import Health, HealthPhase
from coop_consumer.signals import elsewhere, in_handler

log = logging.getLogger(__name__)


class ConsumerLife:
    """A consumer's begin and end.

    What happens in between is added by `ConsumerProgress`, then `ConsumerRecords`, then
    `CooperativeConsumer`.

    Args:
        config: One dict of dotted names, librdkafka's and ours, or a `Config`.
    """

    def __init__(self, config: Settings | Mapping[str, object] | Config) -> None:
        parsed = config if isinstance(config, Config) else Config.from_dict(config)
        self.config = replace(parsed, capacity=parsed.capacity_for(1))
        self._lock = threading.Lock()  # of begin and end
        self._running: Consumption | None = None
        self._alone = False
        self._closed = False
        self._closing_elsewhere = False
        self._is_fork = False
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """In a forked child: what has begun is the parent's; what has not may begin here."""
        self._lock = threading.Lock()
        self._is_fork = self._closed = self._closed or self._running is not None

    def _refuse_if_closed(self, call: str) -> None:
        if self._is_fork:
            raise forks.misuse(call, "this consumer")
        if self._closed:
            raise MisuseError(call, "the consumer is closed", NEW_ONE)

    def _started(
        self, call: str, *, closed_too: bool = False, may_wait: bool = False
    ) -> Consumption:
        running = self._running
        if running is None or not closed_too or self._is_fork:
            self._refuse_if_closed(call)
        if running is None:
            raise MisuseError(
                call, "nothing is subscribed to or assigned", "Call subscribe or assign first"
            )
        if not closed_too:
            running.refuse_if_ended(call, may_wait=may_wait)
        return running

    def health(self) -> Health:
        """How the member is, for `coop_consumer.live` and `ready`. Any thread; never blocks.

        Raises:
            MisuseError: In a forked child.
        """
        if self._is_fork:
            raise forks.misuse("health()", "this consumer")
        running = self._running
        if running is None:
            phase = HealthPhase.ENDED if self._closed else HealthPhase.STARTING
            return Health(self.config.group_id, "", phase)
        return running.health()

    def close(self, timeout: float = 0.0) -> None:
        """Hand out nothing more, commit what is done, leave the group. May be repeated.

        Records still in hand after `timeout` are given back undone. They come again, to whoever
        owns their keys then. A thread that goes on with such a record does so beside its new owner.
        While no broker takes the last commit, this call waits, and from `shutdown.timeout.ms` on
        the log says so.

        In a handler of a signal it returns at once, and the end goes on in a thread. A record in
        hand may still be `done`; then `poll` raises, and a loop over the consumer ends. Call
        `close` there again, or leave the block. Otherwise records in hand come again after
        `shutdown.timeout.ms`.

        Args:
            timeout: How long records in hand may still be `done` by other threads, in seconds.

        Raises:
            CoopConsumerError: The error that ended the consumer, if `close` did not.
        """
        timeout = seconds("close()", timeout) or 0.0
        if in_handler():
            if not self._closing_elsewhere:
                self._closing_elsewhere = True
                elsewhere(partial(self._close_elsewhere, timeout))
            return
        running = self._begin_to_close()
        if running is not None:
            running.close(timeout)
        elif self._running is not None and self._closing_elsewhere:
            self._running.go_on_closing()

    def _begin_to_close(self) -> Consumption | None:
        """What is to be closed; None from the second call on."""
        with self._lock:
            running = None if self._closed else self._running
            self._closed = True
        return running

    def _close_elsewhere(self, timeout: float) -> None:
        running = self._begin_to_close()
        patience_s = self.config.shutdown_timeout_ms / 1_000
        try:
            if running is not None:  # the interrupted thread may have a record in hand
                running.close(max(timeout, patience_s))
        except CoopConsumerError as error:
            self._report(error)

    def __enter__(self) -> Self:
        """Nothing more to do: `subscribe` and `assign` start it."""
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        """Close; an error of the block is not hidden by an error of the end."""
        try:
            self.close()
        except CoopConsumerError as own_error:
            if error is None:
                raise
            self._report(own_error)

    def _report(self, error: CoopConsumerError) -> None:
        """Report an error that nobody gets otherwise."""
        group = self.config.group_id
        extra = LogEvent.MEMBER_ENDED.extra(group=group, error=error)
        told = "group %s: the member has ended by this error. What is not committed comes again"
        log.error(told, group, exc_info=error, extra=extra)
