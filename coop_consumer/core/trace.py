"""Traces: what a record's span hears of what becomes of the record. Pure.

In: failures, and how a record ends that its handler could not process. Out: headers for what is
sent in the record's place, and its trace's id for lines of the log. Whoever calls handlers gives a
record its trace (`coop_consumer.ops.record_spans`). Here nobody knows what a span is. A record that
is not traced has none, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from coop_consumer.core.failure import Failure
    from coop_consumer.core.record import Record


class TraceOutcome(StrEnum):
    """How a record ends, or leaves this member, that its handler has not processed."""

    PARKED = "parked"
    SKIPPED = "skipped"
    DEAD_LETTERED = "dead_lettered"
    STOPPED = "stopped"
    MOVED = "moved"


class RecordTrace(Protocol):
    """The span of one record, over all of its attempts. Its methods raise nothing.

    Attributes:
        trace_id: Of its trace, 32 hexadecimal digits; None: it belongs to no trace.
    """

    @property
    def trace_id(self) -> str | None:
        """See the class."""

    def failed(self, failure: Failure, attempt: int, again_ms: int | None) -> None:
        """An attempt has failed.

        Args:
            failure: Why.
            attempt: Which one; 0: it counts as none, because most records fail alike.
            again_ms: When the next one begins, in milliseconds from now; None: there is none.
        """

    def ended(self, outcome: TraceOutcome) -> None:
        """There is no further attempt, or not here; a second call changes nothing."""

    def headers(self) -> Sequence[tuple[str, bytes]]:
        """What a record carries that is sent in the place of this one."""
        ...


def trace_of(record: Record) -> RecordTrace | None:
    """The record's trace, if it has one."""
    return getattr(record, "_trace", None)


def tell_failure(
    record: Record, failure: Failure, again_ms: int | None = None, *, is_attempt: bool = True
) -> None:
    """An attempt at a record has failed: tell its trace; see `RecordTrace.failed`."""
    if (trace := trace_of(record)) is not None:
        trace.failed(failure, int(record._attempt) if is_attempt else 0, again_ms)


def tell_end(record: Record, outcome: TraceOutcome) -> None:
    """There is no further attempt at a record, or not here: tell its trace."""
    if (trace := trace_of(record)) is not None:
        trace.ended(outcome)


def trace_headers(record: Record) -> Sequence[tuple[str, bytes]]:
    """What a record carries that is sent in the place of this one; empty without a trace."""
    trace = trace_of(record)
    return () if trace is None else trace.headers()
