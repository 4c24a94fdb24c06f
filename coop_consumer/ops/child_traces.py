"""Traces in a child process: handlers run in the contexts of spans that the parent has.

In: the trace contexts that a chunk came with. Out: handlers in these contexts, and for spans that
record anything when they ran. The spans themselves are the parent's, which outlives a child. Needs
the extra `otel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time_ns
from typing import TYPE_CHECKING, TypeVar

from opentelemetry.context import attach, detach

from coop_consumer.ops.carriers import from_parent

if TYPE_CHECKING:
    from coop_consumer.core.record import Record
    from coop_consumer.ops.carriers import Carried

T = TypeVar("T")


class ChildTraces:
    """The contexts of one chunk.

    Args:
        carried: Of each of its records; of a batch that of the batch.

    Attributes:
        times: When the handler of the last record began and ended; None: it is not to be told.
    """

    def __init__(self, carried: Sequence[Carried]) -> None:
        self._carried = carried
        self.times: tuple[int, int] | None = None

    def one_by_one(
        self, process: Callable[[Record], object], number: Callable[[], int]
    ) -> Callable[[Record], object]:
        """A handler of records; `number` says which of the chunk is next."""

        def traced(record: Record) -> object:
            self.times, carried = None, self._carried[number()]
            token = attach(from_parent(carried))
            begun_ns = time_ns()
            try:
                result = process(record)
            finally:
                detach(token)
            if carried.is_recording:
                self.times = begun_ns, time_ns()
            return result

        return traced

    def together(self, process: Callable[[T], object]) -> Callable[[T], object]:
        """A handler of batches."""

        def traced(records: T) -> object:
            token = attach(from_parent(self._carried[0]))
            try:
                return process(records)
            finally:
                detach(token)

        return traced
