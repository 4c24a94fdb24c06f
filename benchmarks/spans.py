"""What a span costs by itself: a handler that does nothing, called in spans and without, in turns.

In: whether spans are sampled. Out: microseconds of this thread's CPU time that a record takes more.
No broker and no other thread takes part, so other programs disturb it little. An exporter throws
the spans away, in batches and on a thread of its own, as an SDK does it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextvars import Context
from statistics import median
from time import thread_time

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.record import Contents, Record, copy_of
from coop_consumer.executors.traced import in_span
from coop_consumer.ops.record_spans import RecordSpans

PARENT = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
"""The header of all records."""

_RECORDS, _SHARE = 20_000, 1_000
_TP = TopicPartition("orders", 3)


class Nowhere(SpanExporter):
    """Throws spans away."""

    def export(self, _: object) -> SpanExportResult:
        """See the class."""
        return SpanExportResult.SUCCESS


def provider(*, sampled: bool) -> TracerProvider:
    """OpenTelemetry as programs set it up, with a sampler that takes all spans, or none."""
    found = TracerProvider(sampler=ALWAYS_ON if sampled else ALWAYS_OFF)
    found.add_span_processor(BatchSpanProcessor(Nowhere()))
    return found


def alone_us(runs: int, *, sampled: bool) -> float:
    """The median of so many runs."""
    config = Config.from_dict({"bootstrap.servers": "nowhere:9092", "group.id": "bench"})
    made = provider(sampled=sampled)
    traced = in_span(_nothing, RecordSpans(made.get_tracer("bench"), config, "m1"))
    more_us = [_us(traced) - _us(_nothing) for _ in range(runs)]
    made.shutdown()
    return round(median(more_us), 1)


def _us(process: Callable[[Record], object]) -> float:
    """Microseconds a record. Few records at a time: a member keeps them no longer, either."""
    took_s = 0.0
    for first in range(0, _RECORDS, _SHARE):
        records = [_record(offset) for offset in range(first, first + _SHARE)]
        gc.collect()
        took_s += Context().run(_timed, process, records)
    return 1e6 * took_s / _RECORDS


def _timed(process: Callable[[Record], object], records: list[Record]) -> float:
    begun_s = thread_time()
    for record in records:
        process(record)
    return thread_time() - begun_s


def _nothing(_: Record) -> None:
    pass


def _record(offset: int) -> Record:
    key = b"k%d" % offset
    return copy_of(Contents(_TP, offset, key, offset, 1, 100, b"", [PARENT], (0, 0), None))
