"""The styles of `def process`: on threads, or on the one thread that waits for the member's end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from coop_consumer.executors.batch_threads import BatchThreadExecutor
from coop_consumer.executors.inline import InlineBatchExecutor, InlineExecutor
from coop_consumer.executors.record_threads import ThreadExecutor
from coop_consumer.executors.workplace import PoolExecutor, Workplace
from coop_consumer.styles.style import Style
from coop_consumer.worker import takes_batches


class ThreadStyle(Style):
    """`def process` or `def process_batch`: on as many threads as there are workers."""

    def _executor(self, place: Workplace) -> PoolExecutor:
        if takes_batches(self.worker):
            records_max = self._config.batch_max_records
            return BatchThreadExecutor(place, self.worker.process_batch, records_max)
        return ThreadExecutor(place, self.worker.process)


class OneThread(ThreadStyle):
    """The same on the thread that waits for the member's end; so is everything else."""

    _inline: InlineExecutor | InlineBatchExecutor | None = None
    _is_heard = False

    def _call(self, method: Callable[..., Any], *arguments: object) -> None:
        """Call it on that thread; before there is an executor, on the one that calls."""
        if self._inline is None:
            method(*arguments)
        else:
            self._inline.call(method, *arguments)

    def await_end(self, ended: Future[Any], timeout_s: float | None) -> None:
        """Process records meanwhile."""
        assert self._inline is not None, "a pool waits once it has started"
        inline = self._inline
        if not self._is_heard:
            self._is_heard = True
            ended.add_done_callback(lambda _: inline.stop())
        inline.drive(timeout_s)

    def _executor(self, place: Workplace) -> PoolExecutor:
        if takes_batches(self.worker):
            records_max = self._config.batch_max_records
            self._inline = InlineBatchExecutor(place, self.worker.process_batch, records_max)
        else:
            self._inline = InlineExecutor(place, self.worker.process)
        return self._inline
