"""Spans of records, by OpenTelemetry's conventions for messaging (extra `otel`).

In: records as their handlers are called, and what becomes of them. Out: a span `process TOPIC` for
each record, over all of its attempts, or for each batch; contexts in which handlers run. A span is
made by whatever tracer the program has set up: here is only OpenTelemetry's API. If a record is not
sampled, its span records nothing, and nothing is made that only a recording span would show.

Whatever a tracer, a sampler or an exporter raises, the record is processed, and the log says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Token
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.propagate import get_global_textmap
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from coop_consumer.config import LogKeys
from coop_consumer.core.key_names import key_text
from coop_consumer.core.record import Record, headers_of, is_sealed
from coop_consumer.core.trace import TraceOutcome, trace_of
from coop_consumer.ops.carriers import Carried, sent_headers, to_child
from coop_consumer.ops.otel_trouble import report
from coop_consumer.plain_text import counted
from coop_consumer.tracebacks import traceback_of

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.core.failure import Failure

Headers = Sequence[tuple[str, bytes | None]]
RecordErrors = Mapping[Record, "Failure"] | None
"""Which records of a batch have failed, and why; None: something has, and nobody knows what."""
_NONE = Carried({}, is_recording=False)
_PARTITIONS_MAX = 10_000
"""So many objects of partitions are known, before all of them are looked up anew."""

SYSTEM, OPERATION_NAME = "messaging.system", "messaging.operation.name"
OPERATION_TYPE, GROUP = "messaging.operation.type", "messaging.consumer.group.name"
CLIENT, TOPIC = "messaging.client.id", "messaging.destination.name"
PARTITION, OFFSET = "messaging.destination.partition.id", "messaging.kafka.offset"
KEY, TOMBSTONE = "messaging.kafka.message.key", "messaging.kafka.message.tombstone"
COUNT, ERROR_TYPE = "messaging.batch.message_count", "error.type"
"""Names of the conventions for messaging."""
KEY_HASH, ATTEMPT, RETRY_MS = "coop.key_hash", "coop.attempt", "coop.retry_ms"
OUTAGE, OUTCOME, FAILED_COUNT = "coop.outage", "coop.outcome", "coop.failed_count"
"""Names of our own."""
BEGUN = "attempt"
"""The event of an attempt that is not the first, or that begins later than its span."""


PARENT = "traceparent"
_W3C = {PARENT, "tracestate", "baggage"}
"""Who reads these headers, and no others, reads them as the W3C says."""
_traceparent = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})").fullmatch


class _HeaderGetter(Getter[Headers]):
    """Reads a record's headers; of several of a name the last one, as Kafka's own clients do."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        found = next((value for name, value in reversed(carrier) if name == key), None)
        return None if found is None else [found.decode("utf-8", "replace")]

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


_GETTER = _HeaderGetter()


class SpanOfRecord:
    """The span of one record; see `RecordTrace`.

    Attributes:
        span: The span.
        context: Where handlers and what they call find it.
        is_over: It has ended: a later attempt has a span of its own.
        failed_ns: When the present attempt failed; None: it has not, or nobody noted it.
    """

    __slots__ = ("_spans", "_trace_id", "context", "failed_ns", "is_over", "span")

    def __init__(self, spans: RecordSpans, span: Span, context: Context) -> None:
        self._spans = spans
        self.span = span
        self.context = context
        self.is_over = False
        self.failed_ns: int | None = None

    @property
    def trace_id(self) -> str | None:
        """See `RecordTrace`."""
        context = self.span.get_span_context()
        return f"{context.trace_id:032x}" if context.is_valid else None

    def headers(self) -> Sequence[tuple[str, bytes]]:
        """See `RecordTrace`."""
        return sent_headers(self.context)

    def failed(self, failure: Failure, attempt: int, again_ms: int | None) -> None:
        """See `RecordTrace`."""
        at_ns, self.failed_ns = self.failed_ns, None
        if self.is_over or not self.span.is_recording():
            return
        facts: dict[str, str | int | bool] = dict(self._spans.about(failure))
        facts |= {ATTEMPT: attempt} if attempt else {OUTAGE: True}
        if again_ms is not None:
            facts[RETRY_MS] = again_ms
        try:
            self.span.add_event("exception", facts, at_ns)
            self.span.set_attribute(ERROR_TYPE, failure.kind)
            self.span.set_status(Status(StatusCode.ERROR, failure.line))
        except Exception as error:  # noqa: BLE001 - whatever a tracer raises
            report(error)

    def ended(self, outcome: TraceOutcome) -> None:
        """See `RecordTrace`."""
        if not self.is_over:
            try:
                self.span.set_attribute(OUTCOME, outcome.value)
            except Exception as error:  # noqa: BLE001 - as above
                report(error)
            self.end()

    def begun_again(self, attempt: int, at_ns: int | None = None) -> None:
        """Another attempt begins, or the first one: later than the span."""
        self.failed_ns = None
        if self.span.is_recording():
            self.span.add_event(BEGUN, {ATTEMPT: attempt}, at_ns)

    def end(self, at_ns: int | None = None) -> None:
        """End the span."""
        self.is_over = True
        try:
            self.span.end(at_ns)
        except Exception as error:  # noqa: BLE001 - whatever an exporter raises
            report(error)


class SpanOfBatch(NamedTuple):
    """A batch that is under way.

    Attributes:
        records: Its records.
        span: The batch's span.
        context: Where its handler and what that calls find the span.
        begun_ns: When it began.
    """

    records: Sequence[Record]
    span: Span
    context: Context
    begun_ns: int


class RecordSpans:
    """Makes the spans of one member's records. Any thread may call.

    Args:
        tracer: Of OpenTelemetry.
        config: The member's.
        member: Its name.
    """

    def __init__(self, tracer: Tracer, config: Config, member: str) -> None:
        self._tracer = tracer
        self._keys = config.log_keys
        self._traceback_lines = config.failure_traceback_lines
        self._all: dict[str, str] = {
            SYSTEM: "kafka",
            OPERATION_NAME: "process",
            OPERATION_TYPE: "process",
            GROUP: config.group_id,
            CLIENT: member,
        }
        self._of: dict[int, tuple[TopicPartition, str, dict[str, str]]] = {}
        self._propagator = get_global_textmap()
        self._fields = frozenset(self._propagator.fields)
        self._is_w3c = self._fields == _W3C

    # ---- one record ----------------------------------------------------------------------------

    def begin(self, record: Record) -> Token[Context] | None:
        """A record's handler is about to be called here: make its span the current one.

        Returns:
            For `done` or `failed`; None: it has no span.
        """
        try:
            return attach(self._span_of(record).context)
        except Exception as error:  # noqa: BLE001 - whatever a tracer raises
            report(error)
            return None

    def done(self, record: Record, token: Token[Context] | None) -> None:
        """The handler has returned, on the same thread or task."""
        if token is not None:
            detach(token)
        self.finish(record)

    def failed(self, record: Record, token: Token[Context] | None) -> None:
        """The handler has raised. The member says more, see `RecordTrace.failed`.

        Args:
            record: The record.
            token: Of `begin`; None if the context is not the handler's any more.
        """
        if token is not None:
            detach(token)
        trace = trace_of(record)
        if isinstance(trace, SpanOfRecord) and not is_sealed(record):
            trace.failed_ns = time_ns()

    def start(self, record: Record) -> SpanOfRecord | None:
        """As `begin`, where the record is processed elsewhere: nothing is current here."""
        try:
            return self._span_of(record)
        except Exception as error:  # noqa: BLE001 - whatever a tracer raises
            report(error)
            return None

    def finish(self, record: Record, times: tuple[int, int] | None = None) -> None:
        """A record is processed.

        Args:
            record: The record.
            times: When its handler began and ended, if that was elsewhere; Unix time in ns.
        """
        trace = trace_of(record)
        # An attempt that was abandoned says nothing about the record: its next one goes on.
        if not isinstance(trace, SpanOfRecord) or trace.is_over or is_sealed(record):
            return
        if times is None:
            trace.end()
            return
        if record._attempt == 1:  # a later one has its event, of when it was sent there
            try:
                trace.begun_again(1, times[0])
            except Exception as error:  # noqa: BLE001 - as above
                report(error)
        trace.end(times[1])

    def _span_of(self, record: Record) -> SpanOfRecord:
        """The record's span: that of an earlier attempt, or a new one."""
        known: SpanOfRecord | None = getattr(record, "_trace", None)
        if known is None:
            return self._new_span(record)
        if not known.is_over:
            known.begun_again(int(record._attempt))
            return known
        # It was parked, or its range has come back: the earlier span has told its end.
        return self._new_span(record, [Link(known.span.get_span_context())])

    def _new_span(
        self, record: Record, links: Sequence[Link] = (), begun_ns: int | None = None
    ) -> SpanOfRecord:
        name, about = self._about(record._tenure.tp)
        parent = self._parent_of(record)
        span = self._tracer.start_span(
            name, parent, SpanKind.CONSUMER, about, links, begun_ns, record_exception=False
        )
        if span.is_recording():
            span.set_attributes(self._shown(record))
        record._trace = trace = SpanOfRecord(self, span, set_span_in_context(span, parent))
        return trace

    def _about(self, tp: TopicPartition) -> tuple[str, Mapping[str, str]]:
        """Name and attributes of what all records of a partition have in common.

        By the partition's object: its hash would take as long as all else here.
        """
        known = self._of.get(id(tp))
        if known is None:
            if len(self._of) >= _PARTITIONS_MAX:
                self._of = {}
            about = {**self._all, TOPIC: tp.topic, PARTITION: str(tp.partition)}
            known = self._of[id(tp)] = tp, f"process {tp.topic}", about
        return known[1], known[2]

    def _parent_of(self, record: Record) -> Context | None:
        """The context that a record's headers carry; None: none, and the current one counts."""
        headers, found = headers_of(record._message), None
        for name, value in headers:
            if name in self._fields:
                if name != PARENT or not self._is_w3c:
                    return self._propagator.extract(headers, get_current(), _GETTER)
                found = value
        if found is None:
            return None
        # Nearly all records carry this alone. To read it by itself takes a third of the time.
        if (match := _traceparent(found)) is None:
            return self._propagator.extract(headers, get_current(), _GETTER)
        trace_id, span_id, flags = (int(digits, 16) for digits in match.groups())
        parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
        return set_span_in_context(NonRecordingSpan(parent)) if parent.is_valid else None

    def _shown(self, record: Record) -> dict[str, str | int | bool]:
        shown: dict[str, str | int | bool] = {OFFSET: record._offset}
        if record._key is not None and self._keys is LogKeys.TEXT:
            shown[KEY] = key_text(record._key)
        elif self._keys is LogKeys.HASH:
            shown[KEY_HASH] = record._key_hash
        if record._attempt > 1:
            shown[ATTEMPT] = int(record._attempt)
        if record._message.value() is None:
            shown[TOMBSTONE] = True
        return shown

    # ---- a batch -------------------------------------------------------------------------------

    def start_batch(self, records: Sequence[Record]) -> SpanOfBatch | None:
        """A batch of several records begins; see `conclude`."""
        try:
            return self._new_batch(records)
        except Exception as error:  # noqa: BLE001 - as above
            report(error)
            return None

    def enter(self, batch: SpanOfBatch | None) -> Token[Context] | None:
        """Make the batch's span the current one here."""
        return None if batch is None else attach(batch.context)

    def leave(self, token: Token[Context] | None) -> None:
        """Make current again what was before."""
        if token is not None:
            detach(token)

    def conclude(self, batch: SpanOfBatch | None, errors: RecordErrors) -> None:
        """A batch has ended.

        Args:
            batch: The batch.
            errors: Why some of its records have failed; None: something failed, and nobody knows
                what. Each of those has a span of its own from now on.
        """
        if batch is None:
            return
        try:
            self._conclude(batch, errors)
        except Exception as error:  # noqa: BLE001 - as above
            report(error)

    def _new_batch(self, records: Sequence[Record]) -> SpanOfBatch:
        begun_ns = time_ns()
        tps = {id(record._tenure.tp): record._tenure.tp for record in records}.values()
        topics = {tp.topic for tp in tps}
        about: dict[str, str | int] = {**self._all, COUNT: len(records)}
        name = "process"
        if len(topics) == 1:
            (about[TOPIC],) = topics
            name = f"process {about[TOPIC]}"
            if len(numbers := {tp.partition for tp in tps}) == 1:
                about[PARTITION] = str(numbers.pop())
        span = self._tracer.start_span(
            name, None, SpanKind.CONSUMER, about, (), begun_ns, record_exception=False
        )
        # To read what a record carries costs more than all else: it is done once it is of use.
        is_recording = span.is_recording()
        for record in records:
            trace = trace_of(record)
            if isinstance(trace, SpanOfRecord) and not trace.is_over:
                trace.begun_again(int(record._attempt))
                linked: Context | None = trace.context
            else:
                linked = self._parent_of(record) if is_recording else None
            if is_recording and linked is not None:
                place: dict[str, str | int] = {
                    PARTITION: str(record._tenure.tp.partition),
                    OFFSET: record._offset,
                }
                of = get_current_span(linked).get_span_context()
                if of.is_valid:
                    span.add_link(of, place)
        return SpanOfBatch(records, span, set_span_in_context(span), begun_ns)

    def _conclude(self, batch: SpanOfBatch, errors: RecordErrors) -> None:
        span = batch.span
        if errors is None:
            span.set_status(Status(StatusCode.ERROR, "each record is tried by itself"))
        elif errors:
            span.set_attribute(FAILED_COUNT, len(errors))
            told = f"{len(errors)} of {counted(len(batch.records), 'record')}"
            span.set_status(Status(StatusCode.ERROR, told))
        if errors is not None:
            for record in batch.records:
                if record not in errors:
                    self.finish(record)
        for record in errors or ():
            if not is_sealed(record):  # the next attempt may be over already
                self._failed_in(batch, record)
        span.end()

    def _failed_in(self, batch: SpanOfBatch, record: Record) -> None:
        """A record of a batch has failed: it has a span of its own, over its attempts."""
        trace = trace_of(record)
        if not isinstance(trace, SpanOfRecord) or trace.is_over:
            links = [Link(batch.span.get_span_context())]
            trace = self._new_span(record, links, batch.begun_ns)
        trace.failed_ns = time_ns()

    # ---- for all -------------------------------------------------------------------------------

    def carried(self, it: SpanOfRecord | SpanOfBatch | None) -> Carried:
        """What a child process needs to have the same span current."""
        try:
            return _NONE if it is None else to_child(it.span, it.context)
        except Exception as error:  # noqa: BLE001 - whatever a propagator raises
            report(error)
            return _NONE

    def about(self, failure: Failure) -> Iterable[tuple[str, str]]:
        """A failure by the conventions for exceptions."""
        yield "exception.type", failure.kind
        yield "exception.message", failure.line.partition(": ")[2]
        if text := traceback_of(failure, self._traceback_lines):
            yield "exception.stacktrace", text
