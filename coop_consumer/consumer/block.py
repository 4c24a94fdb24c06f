"""A block of calls that counts as a whole: `CooperativeConsumer.transaction`.

In: outputs and records that are done, while the block runs. Out: all of it in one Kafka
transaction, or none. Nothing is handed to the member before the block ends, so an error in it has
nothing to take back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from coop_consumer.arguments import a_record
from coop_consumer.core.effects import file
from coop_consumer.core.outputs import NO_HEADERS
from coop_consumer.core.record import Record, place_of
from coop_consumer.errors import MemberLostError, MisuseError, TransactionDroppedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coop_consumer.consumer.consumption import Consumption
    from coop_consumer.core.effects import Output
    from coop_consumer.core.outputs import SentHeaders, Text

_CALL = "transaction()"


class _Fate:
    """Goes along with the records of a block, and hears if they are dropped. Any thread."""

    size = 0
    is_dropped = False

    def undo(self) -> None:
        """See `Effect`."""
        self.is_dropped = True


class ConsumerTransaction:
    """Outputs and records of one transaction; made by `CooperativeConsumer.transaction`.

    Args:
        running: The member at work.
        committed: Waits until all that is done is committed; None: nobody waits.
        not_in_hand: The error of a call with a record that is not in hand.
    """

    def __init__(
        self,
        running: Consumption,
        committed: Callable[[], object] | None,
        not_in_hand: Callable[[str, Record], MisuseError],
    ) -> None:
        self._running = running
        self._committed = committed
        self._not_in_hand = not_in_hand
        self._outputs: dict[Record, list[Output]] = {}
        self._done: dict[Record, None] = {}
        self._is_over = False

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
        """Send an output of a record that is done in this block; see `CooperativeConsumer.send`.

        Raises:
            MisuseError, RecordTooLargeError: As there; or the block is over.
        """
        self._check("send()", record)
        outputs, sent = self._running.outputs, self._outputs.setdefault(record, [])
        carrying = outputs.carrying(record, headers)
        output = outputs.checked(topic, key, value, carrying, partition, timestamp_ms)
        outputs.refuse_too_much(record, [*sent, output])
        sent.append(output)

    def done(self, record: Record) -> None:
        """The record is processed, if the block ends well.

        Raises:
            MisuseError: It is not in hand, or was done in this block before; or the block is over.
        """
        self._check("done()", record)
        if record in self._done:
            raise self._not_in_hand("done()", record)
        self._done[record] = None

    def _check(self, call: str, record: Record) -> None:
        a_record(call, record)
        if self._is_over:
            raise MisuseError(call, "the block of this transaction is over", "Begin another one")
        if not self._running.executor.has(record):
            raise self._not_in_hand(call, record)

    def __enter__(self) -> Self:
        """Begin; nothing is sent anywhere yet."""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Hand everything over at once; after an error nothing: its records stay in hand.

        Raises:
            MisuseError: An output belongs to a record that was not done in the block, or a record
                is not in hand any more. Nothing was taken.
            MemberLostError: Others may have a record's key by now. Nothing was taken.
            TransactionDroppedError: The block has waited, and nothing of it is committed.
            CoopConsumerError, TimeoutError: As `commit`, if the block waits for that.
        """
        self._is_over = True
        if error is not None:
            return
        for record in self._outputs.keys() - self._done.keys():
            raise MisuseError(
                _CALL,
                f"{place_of(record)} has outputs in the block and is not done in it",
                "Call done for each record whose outputs the block sends",
                "Nothing was sent",
            )
        fate = _Fate()
        for record in self._done if self._committed is not None else ():
            file(record, fate)
        refused = self._running.executor.finish_together(
            {record: self._outputs.get(record, []) for record in self._done}
        )
        if refused is not None and refused._tenure.is_void:
            raise MemberLostError(
                self._running.member.config.group_id,
                self._running.member.name,
                f"others may have the key of {place_of(refused)} by now, so nothing was sent",
            )
        if refused is not None:
            raise self._not_in_hand(_CALL, refused)
        if self._committed is not None:
            self._committed()
            if fate.is_dropped:
                member = self._running.member
                raise TransactionDroppedError(member.config.group_id, member.name)
