"""The flusher: has the user's code make its output durable before anything rests on it. No Kafka.

In: calls that wait for a flush. Out: those calls, in order, once a flush that *began* after they
came has ended. One thread of its own, so a slow flush holds up neither the member nor its workers;
what comes while it runs shares the next one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from coop_consumer.core.failure import describe
from coop_consumer.errors import CoopConsumerError, MemberLostError, WorkerFlushError
from coop_consumer.log_filter import whatever_a_log_does

log = logging.getLogger(__name__)

Waiting = Callable[[CoopConsumerError | None], None]


class Flusher:
    """Runs `flush`, and then what waited for it.

    Args:
        flush: The user's; an exception is final.
        group: Whose it is, for the error.
        name: Names the thread.
    """

    def __init__(self, flush: Callable[[], object], group: str, name: str) -> None:
        self._flush = flush
        self._group = group
        self._waiting: SimpleQueue[Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def after(self, call: Waiting) -> None:
        """Flush, then call with None; with the error if this flush, or one before it, failed."""
        self._waiting.put(call)

    def close(self) -> None:
        """End the thread; returns once a flush that runs, and what waits already, has ended."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        error: CoopConsumerError | None = None
        while calls := self._next():
            # After a failure never again: a producer that has lost a message once says so once, and
            # its next flush ends well. To commit after that would be to lose what was in it.
            error = error or self._flushed()
            for call in calls:
                call(error)

    def _next(self) -> list[Waiting]:
        """All that waits, as soon as something does; nothing: the end."""
        calls = []
        call = self._waiting.get()
        while call is not None:
            calls.append(call)
            try:
                call = self._waiting.get_nowait()
            except Empty:
                return calls
        if calls:
            self._waiting.put(None)  # the end comes behind them
        return calls

    def _flushed(self) -> CoopConsumerError | None:
        try:
            self._flush()
        except MemberLostError as lost:  # what it was to make safe is others' to do
            return lost
        # Whatever it is, sys.exit() too: this thread must not end while commits wait for it.
        except BaseException as cause:
            with whatever_a_log_does():
                log.exception("group %s: flush failed", self._group)
            return WorkerFlushError(self._group, describe(cause))
        return None
