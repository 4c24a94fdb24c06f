"""The calls of a transactional Producer, and what it says to them.

In: settings with a `transactional.id`. Out: for each call a `Said`, and what went wrong last. It
decides nothing: `core.transaction` and `logs.conditional` do. One thread makes the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from coop_consumer.core.transaction import Said
from coop_consumer.errors import CoopConsumerError, SetupError
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.producing import PURGED
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.translate import translated

CALL_S = 10.0
_ANSWERS_S, _POLL_S = 1.0, 0.005
_MEETING_S = 2.0
_STALE = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
)
"""The group's coordinator does not take the offsets of this member, or of this generation."""
WITHDRAWN = (*PURGED, KafkaError._STATE, KafkaError._FATAL)
"""Errors that a record gets because something else has broken the transaction, or the Producer."""


def meet_brokers(producer: Producer, patience_s: float = 2 * _MEETING_S) -> None:
    """Wait until a new Producer has a connection that stays. Blocks; 60 ms.

    librdkafka drops its first connection once it has heard there who the brokers are. A question
    for the coordinator of a transactional.id is lost then, and comes again 500 ms later. The answer
    to a second question comes over a connection that stays.

    Args:
        producer: The new one.
        patience_s: So long both questions wait together, where brokers are away.
    """
    with suppress(KafkaException):  # brokers are away: the next call says so
        for _ in range(2):
            producer.list_topics("__transaction_state", min(_MEETING_S, patience_s / 2))


class TransactionCalls:
    """One Producer after another, of one transactional.id.

    Attributes:
        call_s: So long a call waits for brokers.
        why: What went wrong last, for people.
        final: What makes each further transaction fail as well.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        # Who calls leaves a call behind after twice the transaction's time-out. Sooner, it ends.
        self.call_s = min(CALL_S, int(settings["transaction.timeout.ms"]) / 1_000)
        self._user = str(settings.get("sasl.username", ""))
        self._producer: Producer | None = None
        self._is_ready = False
        self.why = ""
        self.final: CoopConsumerError | None = None

    def renew(self) -> Said:
        """Make a new Producer, unless one is being made, and get its epoch."""
        if self._is_ready:
            self.leave()
        if self._producer is None:
            self._producer = Producer(logged_in(self._settings), logger=client_log)
            meet_brokers(self._producer, self.call_s / 2)
        said = self._said(lambda: self._at_work.init_transactions(self.call_s))
        self._is_ready = said is Said.DONE
        if said is Said.BROKEN:
            self.leave()
        return said

    def begin(self) -> Said:
        """Open a transaction; nothing is sent."""
        return self._said(self._at_work.begin_transaction)

    def commit(self) -> Said:
        """Ask for the commit."""
        return self._said(lambda: self._at_work.commit_transaction(self.call_s), Said.BROKEN)

    def abort(self) -> Said:
        """Abort: what was produced is never visible.

        If a record was refused, others may be on their way. librdkafka's abort then waits in vain,
        for all of its time-out, unless their answers are taken in before.
        """
        until_s = monotonic() + _ANSWERS_S
        with suppress(KafkaException):  # of a Producer that is fenced: the abort says so
            while len(self._at_work) and monotonic() < until_s:
                self._at_work.poll(_POLL_S)
        return self._said(lambda: self._at_work.abort_transaction(self.call_s), Said.BROKEN)

    def leave(self) -> None:
        """Use this Producer no more."""
        producer, self._producer, self._is_ready = self._producer, None, False
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                producer.poll(0)  # not flush(): see `Publisher.send`

    @property
    def _at_work(self) -> Producer:
        assert self._producer is not None, "I9: no Producer has its epoch"
        return self._producer

    def _said(
        self, call: Callable[[], object], otherwise: Said = Said.REFUSED, where: str = ""
    ) -> Said:
        try:
            call()
        except KafkaException as error:
            return self._of(error.args[0], where or f"transactional.id {self._id}", otherwise)
        return Said.DONE

    @property
    def _id(self) -> str:
        return str(self._settings["transactional.id"])

    def _cause_of(self, error: KafkaError) -> KafkaError:
        """What has broken the transaction, if a record's error only follows from that."""
        if error.code() not in WITHDRAWN:
            return error
        try:
            self._at_work.begin_transaction()
        except KafkaException as cause:
            found: KafkaError = cause.args[0]
            return error if found.code() == KafkaError._STATE else found
        return error

    def _of(self, error: KafkaError, where: str, otherwise: Said) -> Said:
        self.why = f"{where}: {error.str()}"
        if error.code() in _STALE:
            return Said.STALE
        self._judge(error, where, translated(error, where, self._user, "write"))
        if error.fatal():
            return Said.BROKEN
        if error.txn_requires_abort():
            return Said.REFUSED
        return Said.AGAIN if error.retriable() else otherwise

    def _judge(self, error: KafkaError, where: str, reason: CoopConsumerError) -> None:
        """Note what makes each further transaction fail."""
        del error, where
        if isinstance(reason, SetupError):
            self.final = reason
