"""Records that somebody waits for: each is produced until Kafka has it.

In: items, from one thread at a time. Out: what became of them, on the Producer's thread; `wait`
returns when all are acknowledged, or raises the error that none will be any more. An item that was
withdrawn from a Producer that no longer works is produced again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coop_consumer.errors import CoopConsumerError
from coop_consumer.kafka.producing import PURGED, Producing

T = TypeVar("T")

Delivered = Callable[["KafkaError | None", Message], None]

_FULL_AGAIN_S = 0.01
_AT_ONCE = 500
"""So many are handed over with the locks held: each on its own would take three times as long."""
_LAST_WORDS_S = 1.0


class Acked(Generic[T]):
    """Produces items and waits for their acknowledgements.

    Args:
        settings: Of the Producer.
        name: Names the thread.
        topic: The topic to ask for when checking the brokers.
        produce: Hands an item to a Producer, with the callback for its report.
        acknowledged: Takes items that Kafka has, each with its offset; on the thread.
        reason: The error for an item that Kafka refuses; after it nothing is produced any more.
        check: Called before an item is produced; what it raises goes to the caller of `send`.
        served: Called after each round of reports; on the thread.
        failed: Takes what ended the thread unexpectedly; returns the error for those that wait.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        name: str,
        topic: Callable[[], str],
        produce: Callable[[Producer, T, Delivered], None],
        *,
        acknowledged: Callable[[Sequence[tuple[T, int]]], None],
        reason: Callable[[T, KafkaError], CoopConsumerError],
        failed: Callable[[Exception], CoopConsumerError],
        check: Callable[[T], None] = lambda _: None,
        served: Callable[[], None] = lambda: None,
    ) -> None:
        self._hand_over = produce
        self._acknowledged = acknowledged
        self._reason = reason
        self._check = check
        self._served = served
        self._news = threading.Condition()  # guards the next four fields
        self._number = 0  # of the next item
        self._under_way = 0  # sent, and not settled yet
        self._used: Producer | None = None  # has all that is under way
        self._error: CoopConsumerError | None = None
        self._settled: list[tuple[T, int]] = []  # only for the thread, as the next one
        self._withdrawn: dict[int, T] = {}  # by number
        self._producing = Producing(
            settings,
            topic,
            name,
            served=self._serve,
            failed=lambda error: self.fail(failed(error)),
        )

    def start(self) -> None:
        """Start the thread."""
        self._producing.start()

    def close(self) -> None:
        """End; what is not acknowledged by now is withdrawn."""
        self._producing.close(_LAST_WORDS_S, lost=True)

    def look_up(self, topic: str, timeout_s: float) -> None:
        """Make the Producer look up a topic's leaders, if a broker answers in time."""
        self._producing.look_up(topic, timeout_s)

    def send(self, items: Sequence[T]) -> None:
        """Hand these to the Producer, in their order; while its queue is full, wait for room.

        Raises:
            CoopConsumerError: Kafka refuses one, or has refused one before.
        """
        at = 0
        while at < len(items):
            with self._news:
                count = self._handed_over(items[at : at + _AT_ONCE])
                if not count:
                    self._news.wait(_FULL_AGAIN_S)
                at += count

    def _handed_over(self, items: Sequence[T]) -> int:
        """How many of these the Producer has taken."""
        if self._error is not None:
            raise self._error
        first, refusal = self._number, None
        with self._producing.producer() as producer:
            # Withdrawn items go on before others: those of a key must stay in their order.
            if self._under_way and producer is not self._used:
                return 0
            self._used = producer
            try:
                for item in items:
                    self._check(item)
                    self._hand_over(producer, item, self._report_to(self._number, item))
                    self._number += 1
            except BufferError:
                pass
            except KafkaException as error:
                refusal = error
            finally:
                self._under_way += self._number - first
        if refusal is not None:
            raise self._refused(item, refusal.args[0]) from refusal
        return self._number - first

    def _refused(self, item: T, error: KafkaError) -> CoopConsumerError:
        """Why the Producer has not taken this item, or any other from now on."""
        if error.code() == KafkaError._FATAL:
            # A record before it has broken the Producer, and its report may not be read yet.
            self._news.wait_for(self._is_settled)
        return self._error or self._reason(item, self._producing.broken or error)

    def _is_settled(self) -> bool:
        return self._error is not None or not self._under_way

    def wait(self) -> None:
        """Wait until all sent items are settled.

        Raises:
            CoopConsumerError: They will never be.
        """
        with self._news:
            self._news.wait_for(self._is_settled)
            if self._error is not None:
                raise self._error

    def fail(self, error: CoopConsumerError) -> None:
        """Nothing will be acknowledged any more."""
        with self._news:
            self._error = self._error or error
            self._news.notify_all()

    # ---- the thread ----------------------------------------------------------------------------

    def _report_to(self, number: int, item: T) -> Delivered:
        """What hears what has become of an item."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._settled.append((item, message.offset() or 0))
            elif error.code() in PURGED:
                self._withdrawn[number] = item
            else:
                is_broken = error.code() in (KafkaError._FATAL, KafkaError._GAPLESS_GUARANTEE)
                self.fail(self._reason(item, (is_broken and self._producing.broken) or error))

        return delivered

    def _serve(self) -> None:
        settled, self._settled = self._settled, []
        if settled:
            self._acknowledged(settled)
        if settled or self._withdrawn:
            with self._news:
                self._under_way -= len(settled)
                if self._withdrawn and self._error is None:
                    self._go_on()
                self._news.notify_all()
        self._served()

    def _go_on(self) -> None:
        """Hand to the next Producer what was withdrawn from the one before, if there is a next."""
        withdrawn = sorted(self._withdrawn.items(), key=itemgetter(0))
        broken = self._producing.broken
        if broken is not None:
            # What broke it comes with the report of a record in flight, if one is left.
            if len(withdrawn) == self._under_way:
                self.fail(self._reason(withdrawn[0][1], broken))
            return
        self._withdrawn.clear()
        with self._producing.producer() as producer:
            self._used = producer
            for number, item in withdrawn:
                self._hand_over(producer, item, self._report_to(number, item))
