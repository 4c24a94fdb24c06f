"""The calls on a record's way: it is handed out, its outputs are sent, it is done or failed.

In: calls from any threads. Out: records, one of a key at a time; what became of each goes to the
executor. These calls take no lock of the consumer. Upholds I4 by what it passes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coop_consumer.arguments import a_record, an_error, seconds, whole
from coop_consumer.config import Tracing
from coop_consumer.consumer.block import ConsumerTransaction
from coop_consumer.consumer.progress import ConsumerProgress
from coop_consumer.core.outputs import NO_HEADERS
from coop_consumer.core.record import Record, place_of
from coop_consumer.errors import MisuseError
from coop_consumer.ops.telemetry import context_of

if TYPE_CHECKING:
    from opentelemetry.context import Context as TraceContext

    from coop_consumer.core.outputs import SentHeaders, Text


class ConsumerRecords(ConsumerProgress):
    """Hands records out, and takes them back."""

    def poll(self, timeout: float | None = None) -> Record | None:
        """The next record of a key that nobody has in hand; also calls the listener.

        Args:
            timeout: How long to wait, in seconds; None or negative: until there is one.

        Returns:
            A record that is the caller's until `done` or `failed`; None if none came in time. One
            thread gets some 60,000 records a second through `poll` and `done`, and half as many
            again by `consume` (measured on two busy cores).

        Raises:
            MisuseError: Before `subscribe` or `assign`, or if the consumer is closed.
            ProgressLogLostError: The progress topic is lost, and without a `timeout` this thread
                would wait for ever: the next run begins once it is through with what it has in
                hand. Do that, and go on polling.
            CoopConsumerError: What ended the consumer, if it was not `close`.
        """
        if timeout is not None and type(timeout) is not float:
            timeout = seconds("poll()", timeout)
        has_limit = timeout is not None and timeout >= 0
        running = self._started("poll()", may_wait=True)
        while (record := running.executor.take(timeout if has_limit else None)) is None:
            self._started("poll()", may_wait=has_limit)  # raises if the end is why
            if has_limit:
                break
        return record

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Record]:
        """Up to `num_messages` records, at most one of a key: the first that comes, and what waits.

        Unlike confluent-kafka's, it does not wait until the list is full: if every key has a record
        in hand, no more records would come.

        Args:
            num_messages: At most so many.
            timeout: How long to wait for the first, as in `poll`.

        Raises:
            MisuseError, CoopConsumerError: As `poll`.
        """
        num_messages = whole("consume()", num_messages, "number of messages")
        if num_messages > 1:
            self._started("consume()", may_wait=True).executor.expect(num_messages)
        first = self.poll(timeout) if num_messages > 0 else None
        if first is None:
            return []
        records, take = [first], self._started("consume()", may_wait=True).executor.take
        while len(records) < num_messages and (record := take(0)) is not None:
            records.append(record)
        return records

    def __iter__(self) -> Iterator[Record]:
        """Records as they come, until the consumer is closed. Each has to be `done`.

        Raises:
            CoopConsumerError: What ended the consumer, if it was not `close`.
        """
        while True:
            try:
                record = self.poll()
            except MisuseError:
                if not self._closed or self._is_fork:
                    raise
                return
            if record is not None:
                yield record

    def done(self, record: Record) -> None:
        """The record is processed: the next commit says so, and its key's next record may come.

        Send its output by `send`, or flush what you have buffered *before* this call: nothing
        flushes it later, unlike in a pool, which calls `Worker.flush`. It is fine to flush once,
        and then call `done` for many records.

        A record whose range has moved away meanwhile can be `done`, too.

        Raises:
            MisuseError: If the record is not in hand: done or failed before, given back by `close`,
                a copy (pickled, or from another process), or no record of this consumer.
        """
        a_record("done()", record)
        if not self._started("done()", closed_too=True).executor.finish(record):
            raise _not_in_hand("done()", record)

    def failed(self, record: Record, error: BaseException) -> None:
        """The record could not be processed: it comes again after its back-off, its key waits.

        After `max.attempts` failures `on.failure` decides, as in a pool: park, skip, dead letter or
        stop.

        Raises:
            MisuseError: As `done`.
        """
        a_record("failed()", record)
        an_error("failed()", error)
        if not self._started("failed()", closed_too=True).executor.fail(record, error):
            raise _not_in_hand("failed()", record)

    def send(
        self,
        record: Record,
        topic: str,
        key: Text,
        value: Text,
        headers: SentHeaders = NO_HEADERS,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Send an output of a record in hand. It goes to Kafka once the record is `done`.

        It does so before the record's progress, so nothing is lost, or with exactly once together
        with it. If the record is `failed`, its outputs are dropped. Otherwise as `Context.send`;
        the topic is named in the setting `output.topics`.

        Raises:
            MisuseError: The record is not in hand; or as `Context.send`.
            RecordTooLargeError: The topic takes no record of this size.
            CoopConsumerError: As `poll`.
        """
        a_record("send()", record)
        running = self._started("send()", closed_too=True)
        if not running.executor.has(record):
            raise _not_in_hand("send()", record)
        running.outputs.send(record, topic, key, value, headers, partition, timestamp_ms)

    def trace_context(self, record: Record) -> TraceContext:
        """OpenTelemetry's context of a record's span, for spans of the caller's own.

            with tracer.start_as_current_span("bill", consumer.trace_context(record)):
                ...

        The span begins when the record is handed out, and ends when it is `done`. It is the current
        one nowhere, because any thread may work at the record.

        Raises:
            MisuseError: With `tracing=off`; or the record was never in hand here.
        """
        a_record("trace_context()", record)
        context = context_of(record)
        if context is None:
            is_off = self.config.tracing is Tracing.OFF
            raise MisuseError(
                "trace_context()",
                "tracing is off" if is_off else f"{place_of(record)} has no span",
                "Set tracing=on" if is_off else "Call it with a record that poll has returned",
            )
        return context

    def transaction(
        self, *, wait: bool = False, timeout: float | None = None
    ) -> ConsumerTransaction:
        """A block whose outputs and records count as a whole: in one Kafka transaction, or not.

            with consumer.transaction() as t:
                t.send(first, "totals", key, value)
                t.done(first)
                t.done(second)

        If the block raises, its records stay in hand, and its outputs are dropped. If the member is
        put out of its group before the commit, all of the records come again, here or elsewhere.

        Args:
            wait: Return from the block once it is committed.
            timeout: How long to wait for that, in seconds; None: until it is.

        Raises:
            MisuseError: With `processing.guarantee=at_least_once`; or as `poll`.
            TransactionDroppedError: By a block that waits, if nothing of it is committed.
            CoopConsumerError: As `poll`.
        """
        if not self.config.exactly_once:
            raise MisuseError(
                "transaction()",
                "the group works with processing.guarantee=at_least_once",
                "Set it to exactly_once, or use send and done",
            )
        timeout = seconds("transaction()", timeout)
        running = self._started("transaction()", closed_too=True)
        committed = (lambda: self.commit(timeout)) if wait else None
        return ConsumerTransaction(running, committed, _not_in_hand)


def _not_in_hand(call: str, record: Record) -> MisuseError:
    return MisuseError(
        call,
        f"{place_of(record)} is not in hand (it was done or failed before, given back by "
        "close, or comes from another consumer)",
        "Call done or failed once for each record that poll or consume returned",
    )
