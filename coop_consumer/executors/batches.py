"""Batches: one record of each of several lanes, and what became of them.

In: ready lanes (under their lock), what a handler of a batch returned or raised. Out: records
finished, lanes ended or failed. A batch that fails as a whole, without a word on which records, is
no attempt of any of them: each is tried by itself, and only who fails then has failed. So nobody is
parked for having been in a batch with a poisonous record. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coop_consumer.core.record import Record
from coop_consumer.executors.results import refuse_unfinished
from coop_consumer.worker import BatchFailure

if TYPE_CHECKING:
    from coop_consumer.core.lanes import KeyLanes, Lane

Errors = Mapping[Record, BaseException] | None
"""What failed, and why; None: something, nobody knows what."""


class Batch:
    """Lanes as begun, with the first record of each.

    Attributes:
        lanes: The lanes.
        records: Their records, in the same order; of as many keys.
    """

    __slots__ = ("lanes", "records")

    def __init__(self, lanes: Sequence[Lane] = ()) -> None:
        self.lanes = lanes
        self.records = [lane.records[0] for lane in lanes]

    def conclude(self, all_lanes: KeyLanes, errors: Errors) -> None:
        """Say of each lane what became of its record."""
        for lane, record in zip(self.lanes, self.records, strict=True):
            lane.in_company = False
            if lane.abandoned:
                pass
            elif errors is None:
                lane.alone = True
            elif record in errors:
                lane.failure = (record, errors[record])
            else:
                all_lanes.finished.append(record)
                lane.done, lane.alone = 1, False
            all_lanes.ended.append(lane)


def take_batch(lanes: KeyLanes, records_max: int) -> Batch:
    """The oldest ready lanes: one that has to go alone, or many others. Needs the lanes' lock."""
    taken: deque[Lane] = deque()
    while lanes.ready and len(taken) < records_max and not (taken and lanes.ready[0].alone):
        lanes.take(1, taken)
        if taken[-1].alone:
            break
    for lane in taken:
        lane.chunk, lane.in_company = None, len(taken) > 1
    return Batch(list(taken))


def errors_of(records: Sequence[Record], result: object) -> Errors:
    """What a handler's result says has failed.

    Raises:
        TypeError: For a result that says nothing of some records.
    """
    if result is None:
        return {}
    refuse_unfinished(result)
    if not isinstance(result, Sequence) or len(result) != len(records):
        said = f"{len(result)} results" if isinstance(result, Sequence) else f"{result!r:.80}"
        raise TypeError(
            f"process_batch returned {said} for {len(records)} records: return None, if all are "
            "done, or a list with None or an exception for each"
        )
    for one in result:
        if not (one is None or isinstance(one, BaseException)):
            raise TypeError(
                f"process_batch returned {one!r:.80} for a record: None says done, an exception "
                "says why not"
            )
    return {record: one for record, one in zip(records, result, strict=True) if one is not None}


def errors_by(records: Sequence[Record], raised: BaseException) -> Errors:
    """What an exception of the handler says has failed."""
    if isinstance(raised, BatchFailure):
        strange = raised.failed.keys() - set(records)
        if not strange:
            return raised.failed
        raised = TypeError(f"BatchFailure names {strange.pop()}, which is not in the batch")
    return {records[0]: raised} if len(records) == 1 else None
