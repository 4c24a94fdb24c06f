"""Threads that run batches.

In: a batch of one record of each of several lanes. Out: what became of each record. Upholds I4 with
`KeyLanes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coop_consumer.core.record import Record
from coop_consumer.executors.batches import Batch, Errors, errors_by, errors_of, take_batch
from coop_consumer.executors.threads import COST_FADES, QUICK_S, Runner, ThreadedExecutor
from coop_consumer.executors.traced import in_batch_span
from coop_consumer.executors.workplace import Workplace


class BatchThreadExecutor(ThreadedExecutor):
    """Runs batches of one record of each of several lanes.

    Args:
        place: What it works with; as many threads as workers.
        process: The handler of a batch.
        records_max: How large a batch may be.
    """

    def __init__(
        self, place: Workplace, process: Callable[[Sequence[Record]], object], records_max: int
    ) -> None:
        super().__init__(place)
        self._process = process
        self._outcome = in_batch_span(self._processed, place.spans)
        self._records_max = records_max

    def _share_of_one(self) -> float:
        return self._records_max

    def _is_quick(self) -> bool:
        return self._cost_s < QUICK_S

    def _take(self, runner: Runner) -> bool:
        runner.batch = take_batch(self._lanes, self._records_max)
        return bool(runner.batch.entries)

    def _work_off(self, runner: Runner) -> None:
        lanes, batch, started = self._lanes, runner.batch, self._clock()
        errors = self._new_context().run(self._outcome, batch.records)
        spent_s = self._clock() - started
        lanes.work.spent.append((spent_s, len(batch.records), batch.topic))
        batch.conclude(lanes, errors)
        runner.batch = Batch()
        self._cost_s = max(spent_s, self._cost_s * COST_FADES)

    def _processed(self, records: Sequence[Record]) -> Errors:
        """Which records have failed, once the handler was called."""
        given = list(records)
        try:
            return errors_of(records, given, self._process(given))
        except BaseException as error:  # noqa: BLE001 - as with single records
            self._end_fork(error)
            return errors_by(records, error)
