"""The manual executor while `tracing` is on: a record has a span while it is in hand.

In: calls as of `ManualExecutor`. Out: the same, and spans. Nobody knows which of the user's threads
works at a record. So its span is the current one nowhere; the user asks for its context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.trace import TraceOutcome, tell_end
from coop_consumer.executors.manual import ManualExecutor

if TYPE_CHECKING:
    from coop_consumer.core.effects import Output
    from coop_consumer.core.record import Record
    from coop_consumer.ops.record_spans import RecordSpans


@dataclass(eq=False, repr=False, kw_only=True)
class TracedManualExecutor(ManualExecutor):
    """Hands out records in spans.

    Args:
        spans: Makes the spans.
    """

    spans: RecordSpans

    def take(self, timeout_s: float | None) -> Record | None:
        """As of `ManualExecutor`; the record's span begins."""
        record = super().take(timeout_s)
        if record is not None:
            self.spans.start(record)
        return record

    def finish(self, record: Record) -> bool:
        """As of `ManualExecutor`; the record's span ends."""
        is_done = super().finish(record)
        if is_done:
            self.spans.finish(record)
        return is_done

    def finish_together(self, outputs: Mapping[Record, Sequence[Output]]) -> Record | None:
        """As of `ManualExecutor`; the spans end."""
        refused = super().finish_together(outputs)
        if refused is None:
            for record in outputs:
                self.spans.finish(record)
        return refused

    def give_back(self) -> int:
        """As of `ManualExecutor`; the spans say that their records come again."""
        in_hand = list(self._in_hand)
        count = super().give_back()
        for record in in_hand:
            tell_end(record, TraceOutcome.MOVED)
        return count
