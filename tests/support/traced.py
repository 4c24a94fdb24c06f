"""Records that carry traces, workers that say in which span they are, and the spans in memory.

In: keys that say how often their record fails. Out: outputs that name the span that was current in
the handler, also in a child process; the spans that have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler

from coop_consumer import Context, Record, Worker
from coop_consumer.config import Config
from coop_consumer.ops.record_spans import RecordSpans
from coop_consumer.ops.traced_outputs import TracedOutputs
from coop_consumer.worker import BatchResult
from tests.simulation.data_log import SimMessage
from tests.support.crew import Crew, Script

TRACE, PARENT = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
SAMPLED, UNSAMPLED = b"01", b"00"


def traceparent(trace_id: int = TRACE, span_id: int = PARENT, flags: bytes = SAMPLED) -> bytes:
    """The header of a producer's span."""
    return b"00-%032x-%016x-%s" % (trace_id, span_id, flags)


class HeaderMessage(SimMessage):
    """A message with headers."""

    __slots__ = ("_headers",)

    def __init__(self, offset: int, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]):
        super().__init__(0, offset, key)
        self._headers = headers

    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Of the message."""
        return self._headers


class SpansInMemory:
    """A tracer, and the spans that have ended."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        sampler = sampler or ParentBased(ALWAYS_ON)
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def tracer(self) -> trace.Tracer:
        """The tracer."""
        return self.provider.get_tracer("test")

    @property
    def ended(self) -> list[ReadableSpan]:
        """The spans that have ended, in this order."""
        return list(self._exporter.get_finished_spans())

    @property
    def only(self) -> ReadableSpan:
        """The one span that has ended."""
        (span,) = self.ended
        return span


def traced_crew(
    worker: Worker,
    spans: SpansInMemory,
    *,
    workers: int = 1,
    executor: str = "thread",
    **settings: Any,
) -> Crew:
    """A crew whose records are processed in spans."""
    config = Config.from_dict(
        {
            "bootstrap.servers": "table:9092",
            "group.id": "billing",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    record_spans = RecordSpans(spans.tracer, config, "m1")
    given = {"spans": record_spans, "outputs": TracedOutputs, **settings}
    return Crew(worker, Script(), workers, executor=executor, **given)


def produce(crew: Crew, *keys: bytes | None, header: bytes | None = None) -> None:
    """Produce records whose headers have this `traceparent`."""
    messages = crew.member.messages
    headers = [] if header is None else [("traceparent", header), ("mine", b"1")]
    for key in keys:
        messages.append(HeaderMessage(len(messages), key, headers))
    crew.member.fetch()
    crew.executor.offered()


def facts(of: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span."""
    return dict(of.attributes or {})


def events(of: ReadableSpan) -> list[tuple[str, Any]]:
    """The events of a span: which, and of which attempt."""
    return [(event.name, (event.attributes or {}).get("coop.attempt")) for event in of.events]


def place(of: ReadableSpan) -> tuple[int, int]:
    """Trace and number of a span."""
    context = of.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def carried(headers: Iterable[tuple[str, str | bytes | None]]) -> tuple[int, int, bool]:
    """Trace and span that headers carry, and whether the span is sampled."""
    (value,) = (value for name, value in headers if name == "traceparent")
    assert isinstance(value, bytes)
    _, trace_id, span_id, flags = value.split(b"-")
    return int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & 1)


def fail(record: Record) -> ValueError | None:
    """A record fails as often as its key ends with: b"bad-2" twice."""
    times = int((record.key or b"0").rpartition(b"-")[2] or 0)
    return ValueError(f"attempt {record.attempt}") if record.attempt <= times else None


class Noting(Worker):
    """Sends the current span of each attempt."""

    def setup(self, context: Context) -> None:
        """Keep what it sends by."""
        self._context = context

    def note(self, record: Record) -> None:
        """Send the current span, as text."""
        span = trace.get_current_span().get_span_context()
        self._context.send(record, "totals", record.key, f"{span.trace_id} {span.span_id}")


class NotingWorker(Noting):
    """On a thread, or in a child process."""

    def process(self, record: Record) -> None:
        """Note, and perhaps fail."""
        self.note(record)
        if (error := fail(record)) is not None:
            raise error


class NotingOnLoop(Noting):
    """On an event loop; it notes in a task of its own."""

    async def process(self, record: Record) -> None:
        """Note, and perhaps fail."""
        await asyncio.gather(asyncio.sleep(0), self._noted(record))
        if (error := fail(record)) is not None:
            raise error

    async def _noted(self, record: Record) -> None:
        self.note(record)


class NotingBatches(Noting):
    """In batches, on a thread or in a child process."""

    def process_batch(self, records: Sequence[Record]) -> BatchResult:
        """Note each, and say which have failed."""
        for record in records:
            self.note(record)
        return list(map(fail, records))


class NotingBatchesOnLoop(Noting):
    """In batches, on an event loop."""

    async def process_batch(self, records: Sequence[Record]) -> BatchResult:
        """Note each, and say which have failed."""
        await asyncio.sleep(0)
        for record in records:
            self.note(record)
        return list(map(fail, records))
