"""Calls into the user's code about ranges: one at a time, in order, never on the member's thread.

In: ranges that come and go. Out: calls of `on_ranges_…`, and the outcome of those that the core
waits for. A slow call delays neither commits nor heartbeats. By default a thread of their own makes
the calls ("coop-callbacks"); a `CooperativeConsumer` makes them while it polls.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from assignors import KeyRange, TopicPartition
from coop_consumer.core.failure import describe
from coop_consumer.errors import CoopConsumerError, Told, WorkerCallbackError
from coop_consumer.log_events import LogEvent
from coop_consumer.log_filter import whatever_a_log_does

if TYPE_CHECKING:
    from coop_consumer.core.effects import Result
    from coop_consumer.kafka.committer import Committer

log = logging.getLogger(__name__)

Call = Callable[[], None]


class RangeCallbacks(Protocol):
    """The user's code about ranges; called one at a time."""

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """These ranges are ours; their records come once this call has returned."""

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """These ranges move to another member."""

    def on_ranges_lost(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """These ranges may already run elsewhere."""


class RangeWatch(Protocol):
    """Notified about ranges at once, on the member's thread, before the callbacks.

    It hears that a range leaves before the old owner's release is sent.
    """

    def coming(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """A call of `on_ranges_assigned` follows, unless the member ends."""

    def leaving(
        self, tp: TopicPartition, ranges: tuple[KeyRange, ...], *, lost: bool = False
    ) -> None:
        """These ranges are no longer ours; if not lost, running handlers keep their hashes."""

    def about_to_leave(self) -> None:
        """The member has nothing left to do, and is about to end. On another thread."""


class RangeCalls:
    """Makes the calls of one member.

    Args:
        group: The group's id, for messages.
        callbacks: Notified about ranges; may be replaced at any time.
        call_user: Takes a call, to make soon and one at a time; None: a thread of this object's own
            makes the calls.
        ended: Done when the member has ended: then nobody waits for a flush.
        watch: Notified about ranges at once; None: nobody.
    """

    def __init__(
        self,
        group: str,
        callbacks: RangeCallbacks,
        call_user: Callable[[Call], None] | None,
        ended: Future[CoopConsumerError | None],
        watch: RangeWatch | None = None,
    ) -> None:
        self._watch = watch
        self.callbacks = callbacks
        self._group = group
        self._ended = ended
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._call_user = call_user or self._calls.put
        self._is_in_poll = call_user is not None
        self._committer: Committer | None = None
        name = f"coop-callbacks-{group}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, committer: Committer) -> None:
        """Start; the committer makes durable what a call has to wait for."""
        self._committer = committer
        self._thread.start()

    def end(self) -> None:
        """Accept no more calls."""
        self._calls.put(None)

    def join(self) -> None:
        """Wait until the last call has returned."""
        self._thread.join()

    def assigned(
        self,
        tp: TopicPartition,
        ranges: tuple[KeyRange, ...],
        *,
        after: Sequence[Result] | None,
        told: Told,
    ) -> None:
        """Call `on_ranges_assigned`; `told` gets the outcome.

        Args:
            tp: The partition.
            ranges: The ranges.
            after: Results that must be durable first, with what the user's code has buffered; None:
                the call waits for neither.
            told: Gets None, or the error.
        """
        method = "on_ranges_assigned"
        if self._watch is not None:
            self._watch.coming(tp, ranges)

        def call() -> None:
            flushed = self._flushed(after)
            wait([flushed, self._ended], return_when=FIRST_COMPLETED)  # here: calls stay in order
            if not flushed.done():
                return
            error: CoopConsumerError | None
            error = WorkerCallbackError(method, tp.topic, tp.partition, "KeyboardInterrupt")
            try:
                error = flushed.result() or self._called(method, tp, ranges)
            finally:  # if Ctrl-C comes inside a poll, the core must still get an answer
                told(error)

        self._call_user(call)

    def revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Call `on_ranges_revoked`."""
        self._leaving(tp, ranges)
        self._call_user(lambda: self._call_for_gone_ranges("on_ranges_revoked", tp, ranges))

    def lost(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Call `on_ranges_lost`."""
        self._leaving(tp, ranges, lost=True)
        self._call_user(lambda: self._call_for_gone_ranges("on_ranges_lost", tp, ranges))

    def about_to_leave(self) -> None:
        """Note that the member has nothing left to do, and will end; takes at most two seconds."""
        if self._watch is not None:
            self._watch.about_to_leave()

    def _leaving(
        self, tp: TopicPartition, ranges: tuple[KeyRange, ...], *, lost: bool = False
    ) -> None:
        if self._watch is not None:
            self._watch.leaving(tp, ranges, lost=lost)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _flushed(self, results: Sequence[Result] | None) -> Future[CoopConsumerError | None]:
        """Done once these are durable; holds the error if they are not."""
        flushed: Future[CoopConsumerError | None] = Future()
        if results is not None and self._committer is not None:
            self._committer.when_durable(results, flushed.set_result)
        else:
            flushed.set_result(None)
        return flushed

    def _call_for_gone_ranges(
        self, method: str, tp: TopicPartition, ranges: tuple[KeyRange, ...]
    ) -> None:
        self._called(method, tp, ranges)

    def _called(
        self, method: str, tp: TopicPartition, ranges: tuple[KeyRange, ...]
    ) -> WorkerCallbackError | None:
        try:
            getattr(self.callbacks, method)(tp, ranges)
        # sys.exit() would end only the callbacks' thread, and nobody would notice.
        except BaseException as error:
            if self._is_in_poll and isinstance(error, KeyboardInterrupt):
                raise  # Ctrl-C, for the code that polls
            with whatever_a_log_does():
                extra = LogEvent.CALLBACK_FAILED.extra(group=self._group, tp=tp, error=error)
                ends = method == "on_ranges_assigned"
                log.exception(
                    "group %s: %s of %s has raised, and the member %s. Nothing is lost. Correct "
                    "the method",
                    self._group,
                    method,
                    tp,
                    "ends" if ends else "goes on",
                    extra=extra,
                )
            return WorkerCallbackError(method, tp.topic, tp.partition, describe(error))
        return None
