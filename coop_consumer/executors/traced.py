"""Handlers in spans: what executors call in the place of a handler while `tracing` is on.

In: a handler, the spans of records. Out: a handler that runs in the span of its record or batch.
While `tracing` is off an executor has the handler itself, so that no record pays for this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from coop_consumer.executors.results import refuse_unfinished

if TYPE_CHECKING:
    from coop_consumer.core.record import Record
    from coop_consumer.executors.batches import Errors
    from coop_consumer.ops.record_spans import RecordSpans

RecordCall = Callable[["Record"], object]
AsyncRecordCall = Callable[["Record"], Awaitable[object]]
BatchCall = Callable[[Sequence["Record"]], "Errors"]
"""Has a batch processed; returns which of its records have failed, and raises nothing."""
AsyncBatchCall = Callable[[Sequence["Record"]], Awaitable["Errors"]]


def in_span(process: RecordCall, spans: RecordSpans | None) -> RecordCall:
    """A handler of records, each in its span; without `spans` the handler itself."""
    if spans is None:
        return process
    begin, done, failed = spans.begin, spans.done, spans.failed

    def traced(record: Record) -> None:
        token = begin(record)
        try:
            result = process(record)
            if result is not None:
                refuse_unfinished(result)
        except BaseException:
            failed(record, token)
            raise
        done(record, token)

    return traced


def in_async_span(process: AsyncRecordCall, spans: RecordSpans | None) -> AsyncRecordCall:
    """The same of a coroutine function."""
    if spans is None:
        return process
    begin, done, failed = spans.begin, spans.done, spans.failed

    async def traced(record: Record) -> None:
        token = begin(record)
        try:
            result = await process(record)
            if result is not None:
                refuse_unfinished(result)
        except GeneratorExit:  # the loop is gone: this runs in somebody else's context
            failed(record, None)
            raise
        except BaseException:
            failed(record, token)
            raise
        done(record, token)

    return traced


def in_batch_span(outcome: BatchCall, spans: RecordSpans | None) -> BatchCall:
    """A handler of batches, each in its span; a batch of one record is in that record's."""
    if spans is None:
        return outcome

    def traced(records: Sequence[Record]) -> Errors:
        if len(records) == 1:
            token = spans.begin(records[0])
            errors = outcome(records)
            (spans.failed if errors else spans.done)(records[0], token)
            return errors
        batch = spans.start_batch(records)
        token = spans.enter(batch)
        errors = outcome(records)
        spans.leave(token)
        spans.conclude(batch, errors)
        return errors

    return traced


def in_async_batch_span(outcome: AsyncBatchCall, spans: RecordSpans | None) -> AsyncBatchCall:
    """The same of a coroutine function."""
    if spans is None:
        return outcome

    async def traced(records: Sequence[Record]) -> Errors:
        if len(records) == 1:
            token = spans.begin(records[0])
            errors = await outcome(records)
            (spans.failed if errors else spans.done)(records[0], token)
            return errors
        batch = spans.start_batch(records)
        token = spans.enter(batch)
        errors = await outcome(records)
        spans.leave(token)
        spans.conclude(batch, errors)
        return errors

    return traced
