"""Batches: one record of each of several lanes, and what became of them.

In: ready lanes (under their lock), what a handler of a batch returned or raised. Out: records
finished, lanes ended or failed. If a batch fails as a whole and names no record, it counts as an
attempt of none of them. Each record is tried by itself, and only a record that fails then has
failed. So no record is parked because it was in a batch with a poisonous one. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from coop_consumer.core.failure import Failure, drop_tracebacks, failure_of, failure_told, is_a
from coop_consumer.core.lane import Entry, Lane
from coop_consumer.core.record import Record
from coop_consumer.executors.results import refuse_unfinished
from coop_consumer.plain_text import counted
from coop_consumer.worker import BatchFailure

if TYPE_CHECKING:
    from coop_consumer.core.lanes import KeyLanes

Errors = Mapping[Record, Failure] | None
"""Which records failed, and why; None: something failed, and nobody knows what."""


class Batch:
    """Lanes and singles as begun, with the first record of each.

    Attributes:
        entries: The lanes and singles.
        records: Their records, in the same order; of as many keys.
    """

    __slots__ = ("entries", "records")

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.entries = entries
        self.records = [it if isinstance(it, Record) else it.records[it.done] for it in entries]

    @property
    def topic(self) -> str:
        """The topic of its last record."""
        return self.records[-1]._tenure.tp.topic

    def conclude(self, lanes: KeyLanes, errors: Errors) -> None:
        """Report to the lanes what became of each record."""
        if self.entries == self.records and errors is not None and not (errors or lanes.abandoned):
            lanes.finished.extend(self.records)
            lanes.ended.extend(self.records)
            return
        for entry, record in zip(self.entries, self.records, strict=True):
            if entry is record:
                if entry in lanes.abandoned:
                    pass
                elif errors is None or record in errors:
                    lanes.errors[record] = None if errors is None else errors[record]
                else:
                    lanes.finished.append(record)
            else:
                assert isinstance(entry, Lane)
                entry.in_company = False
                if entry.abandoned:
                    pass
                elif errors is None:
                    entry.alone = True
                elif record in errors:
                    entry.failure = (record, errors[record])
                else:
                    lanes.finished.append(record)
                    entry.done, entry.alone = entry.done + 1, False
            lanes.ended.append(entry)


def take_batch(lanes: KeyLanes, records_max: int) -> Batch:
    """Take the next batch: one entry that has to run alone, or many others. Needs the lock.

    The entry of a batch of one becomes a lane, because a lane says whether its record is alone.
    """
    lanes.in_batches = True
    pop = lanes.ready.pop_many
    taken: list[Entry] = []
    while len(taken) < records_max:
        try:
            entry = pop()
        except IndexError:
            break
        if isinstance(entry, Record):
            taken.append(entry)
            continue
        goes_alone = entry.alone
        if goes_alone and taken:
            lanes.ready.put_back((entry,))
            break
        taken.append(lanes.begun(entry))
        if goes_alone:
            break
    if len(taken) == 1:
        taken[0] = lanes.tables.lane_of(taken[0])
    for entry in taken:
        if isinstance(entry, Lane):
            entry.in_company = len(taken) > 1
    return Batch(taken)


def errors_of(records: Sequence[Record], given: Sequence[Record], result: object) -> Errors:
    """Which records have failed, by the result of a handler.

    Args:
        records: The batch.
        given: The handler's own list of it. The handler may have sorted or emptied the list.
        result: What the handler returned.

    Raises:
        TypeError: The result does not say which records have failed.
    """
    if result is None:
        return {}
    refuse_unfinished(result)
    if not isinstance(result, Sequence) or len(result) != len(records):
        # What is returned may be a value of a record, or hold one: its type alone is shown.
        kind = type(result).__name__
        said = counted(len(result), "result") if isinstance(result, Sequence) else kind
        raise TypeError(
            f"process_batch returned {said} for {counted(len(records), 'record')}: return None, if "
            "all are done, or a list with None or an exception for each"
        )
    for one in result:
        if not (one is None or isinstance(one, BaseException)):
            raise TypeError(
                f"process_batch returned {type(one).__name__} for a record: None says done, an "
                "exception says why not"
            )
    errors = {record: one for record, one in zip(records, result, strict=True) if one is not None}
    if errors and len(records) > 1 and list(given) != records:
        # The results may follow the old order or the new one. A guess could lose a record.
        raise TypeError("process_batch changed its list, so its results name no records")
    return _failures(errors)


def errors_by(records: Sequence[Record], raised: BaseException) -> Errors:
    """Which records have failed, by an exception of the handler."""
    if is_a(raised, BatchFailure):
        try:
            return _failures(_errors_named(records, cast("BatchFailure", raised)), raised)
        except BaseException as error:  # noqa: BLE001 - `failed` may be anything, or missing
            drop_tracebacks(raised)
            raised = error
    if len(records) == 1:
        return {records[0]: failure_of(raised)}
    drop_tracebacks(raised)
    return None


def _failures(
    errors: Mapping[Record, BaseException], within: BaseException | None = None
) -> dict[Record, Failure]:
    """Errors as text; an error that many records share is converted once."""
    known: dict[int, Failure] = {}
    for error in errors.values():
        if id(error) not in known:
            known[id(error)] = failure_told(error, within)
    told = {record: known[id(error)] for record, error in errors.items()}
    drop_tracebacks(*errors.values(), *([] if within is None else [within]))
    return told


def _errors_named(records: Sequence[Record], failure: BatchFailure) -> dict[Record, BaseException]:
    """The errors that a failure names, in a new dict: the handler may change its own later.

    Raises:
        TypeError: It names no record, or one that is not in the batch.
    """
    named: dict[Record, object] = dict(failure.failed)
    strange = named.keys() - set(records)
    if strange or not named:
        whom = f"{strange.pop()}, which is not in the batch" if strange else "no record"
        raise TypeError(f"BatchFailure names {whom}")
    return {
        record: error if isinstance(error, BaseException) else failure
        for record, error in named.items()
    }
