"""Outputs that carry the trace of the handler that sends them (extra `otel`).

In: calls of `send`. Out: the same outputs, with headers of the current span's context. What a
caller has put into such a header stays. `tracing` chooses these in the place of plain outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.trace import get_current_span

from coop_consumer.core.outputs import NO_HEADERS, ChildOutputs, Outputs
from coop_consumer.core.trace import trace_headers
from coop_consumer.ops.carriers import sent_headers

if TYPE_CHECKING:
    from coop_consumer.core.outputs import OutputTopic, SentHeaders, Text
    from coop_consumer.core.record import Record


class TracedOutputs(Outputs):
    """Outputs of this process.

    Args:
        topics, bytes_max, file, owner: See `Outputs`.
    """

    def __reduce__(self) -> tuple[Callable[..., Outputs], tuple[Mapping[str, OutputTopic], int]]:
        """As of `Outputs`; a child's are traced, too."""
        return TracedChildOutputs, (self._topics, self._bytes_max)

    def send(  # noqa: PLR0917 - as of `Outputs`
        self,
        record: Record,
        topic: str,
        key: Text,
        value: Text,
        headers: SentHeaders = NO_HEADERS,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """See `Context.send`."""
        headers = self.carrying(record, headers)
        super().send(record, topic, key, value, headers, partition, timestamp_ms)

    def carrying(self, record: Record, headers: SentHeaders) -> SentHeaders:
        """See `Outputs`."""
        carried = _carried(record)
        if not carried:
            return headers
        own = headers
        try:
            own = list(headers)
            names = {name for name, _ in own}
        except (TypeError, ValueError):  # `checked` says what is wrong with them
            return own
        return [*own, *(it for it in carried if it[0] not in names)]


class TracedChildOutputs(TracedOutputs, ChildOutputs):
    """Outputs of a child process."""


def _carried(record: Record) -> Sequence[tuple[str, bytes]]:
    if get_current_span().get_span_context().is_valid:
        return sent_headers(None)
    return trace_headers(record)  # a thread of the handler's calls: nothing is current there
