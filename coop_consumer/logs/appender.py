"""Carries out conditional appends: the rules on one side, a client of a log on the other.

In: records, the offset that is expected to be the last visible one, a deadline. Out: how the append
has ended, or an error that says whether it can still be in the log. One thread uses an appender.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from time import monotonic

from coop_consumer.config.setting import shown
from coop_consumer.core.transaction import Said
from coop_consumer.errors import (
    AppendAbortedError,
    AppendInDoubtError,
    AppendTooLargeError,
    CoopConsumerError,
    MisuseError,
    RetriableError,
)
from coop_consumer.logs.conditional import AppendCall, AppendEnd, ConditionalAppend
from coop_consumer.logs.port import StableRead, TransactionalLog
from coop_consumer.logs.records import (
    APPEND_HEADER,
    APPEND_ID_BYTES,
    ID_HEADER,
    NewRecord,
    size_of,
)

APPEND_MAX_RECORDS = 100_000
APPEND_MAX_BYTES = 64 << 20
"""An append is one transaction, which has to end within transaction.timeout.ms."""
TIMEOUT_S = 60.0

_AGAIN_S = 0.1
_SERVED = float("inf")
_SERVED_WITHIN_S = 30.0
"""A cluster makes its transaction log with the first transaction: that takes seconds."""


def new_append_id() -> bytes:
    """The id of an append that nobody sends again."""
    return os.urandom(APPEND_ID_BYTES)


def check_size(records: Sequence[NewRecord], place: tuple[str, int]) -> int:
    """The bytes of records, which are no more than one transaction takes.

    Raises:
        MisuseError: There are none, or one is no record.
        AppendTooLargeError: They are too many, or too large together.
    """
    given: object = records
    if isinstance(given, NewRecord | str | bytes) or not isinstance(given, Sequence | None):
        raise MisuseError(
            "append()", f"{shown(given)} is no list of records", "Give a list of NewRecord"
        )
    if not records:
        raise MisuseError("append()", "there are no records", "Give one at least")
    size = sum(map(size_of, records))
    if len(records) > APPEND_MAX_RECORDS or size > APPEND_MAX_BYTES:
        raise AppendTooLargeError(*place, len(records), size, APPEND_MAX_RECORDS, APPEND_MAX_BYTES)
    return size


class Appender:
    """Appends of one client.

    Args:
        log: The client; nobody else uses it.
        chance: A number from 0 to below 1, for the length of pauses.
    """

    def __init__(
        self, log: TransactionalLog, *, chance: Callable[[], float] = random.random
    ) -> None:
        self._log = log
        self._rule = ConditionalAppend(chance)
        self._pause = threading.Event()  # never set
        self._unserved_since_s: float | None = None  # the first time is special
        self._trouble: CoopConsumerError | None = None
        self._ended_s = monotonic()  # when the last append has ended

    @property
    def found(self) -> int:
        """Offset of the last visible record that the last append has seen."""
        return self._rule.found

    @property
    def appended(self) -> int:
        """Offset of the last record of the last append that is in the log."""
        return self._rule.appended

    def take_over(self, timeout_s: float = TIMEOUT_S) -> None:
        """End what a predecessor of the name has open, or wait until it is committed.

        Raises:
            NoTransactionsError, AuthorizationError, ConfigError: As they say.
            AppendAbortedError: Brokers do not answer.
        """
        until_s = monotonic() + timeout_s
        self._log.final = None
        while self._renewed() is not Said.DONE:
            if self._log.final is not None:
                raise self._log.final
            if monotonic() >= until_s:
                raise AppendAbortedError(*self._log.place, self._log.why)
        self._rule.take_over()

    def append(
        self,
        records: Sequence[NewRecord],
        expected: int,
        append_id: bytes,
        *,
        timeout_s: float = TIMEOUT_S,
        look: Callable[[StableRead], None] = lambda _: None,
    ) -> AppendEnd:
        """Append records, if no visible record lies beyond the expected one.

        Args:
            records: At least one; see `check_size`.
            expected: Offset of the last visible record, as the caller knows it.
            append_id: See `ConditionalAppend.begin`.
            timeout_s: When it is given up.
            look: Takes each read that is made meanwhile: of records beyond `expected`.

        Returns:
            APPENDED, CONFLICT or AHEAD.

        Raises:
            AppendInDoubtError: It was given up, and may be in the log or not.
            CoopConsumerError: Anything else: it is not in the log, and never will be.
        """
        log, rule = self._log, self._rule
        (key, value, headers), *rest = records
        # Ours come first, so that none of the caller's is taken for them.
        first = ((APPEND_HEADER, append_id), (ID_HEADER, log.writer.encode()), *headers)
        records = [NewRecord(key, value, first), *rest]
        log.final, log.why, self._trouble = None, "", None
        began_s = monotonic()
        rested_ms = (began_s - self._ended_s) * 1_000
        rule.begin(expected, len(records), append_id, rested_ms=rested_ms)
        try:
            while rule.next is not None and monotonic() - began_s < timeout_s:
                self._do(rule.next, records, look)
                if log.final is not None and rule.next is not AppendCall.ABORT:
                    rule.stop()
        finally:  # also if `look` raises
            rule.stop()
            self._ended_s = monotonic()
        return self._ended(append_id, monotonic() - began_s)

    def _do(
        self, call: AppendCall, records: Sequence[NewRecord], look: Callable[[StableRead], None]
    ) -> None:
        log, rule = self._log, self._rule
        match call:
            case AppendCall.READ:
                try:
                    seen = log.read(rule.expected)
                except RetriableError as error:
                    self._trouble = error
                    self._pause.wait(_AGAIN_S)
                    return
                except CoopConsumerError as error:
                    log.final = error
                    return
                self._trouble = None
                look(seen)
                rule.read(seen)
            case AppendCall.PRODUCE:
                asked_s = monotonic()
                landed = log.produce(records)
                rule.produced(landed, (monotonic() - asked_s) * 1_000)
            case AppendCall.COMMIT:
                asked_s = monotonic()
                said = log.commit()
                rule.committed(said, (monotonic() - asked_s) * 1_000)
            case AppendCall.ABORT:
                rule.aborted(log.abort())
            case AppendCall.RENEW:
                rule.renewed(self._renewed())
            case AppendCall.FENCE:
                rule.fenced(log.end_blocker(rule.blocked_at))
            case AppendCall.PAUSE:
                self._pause.wait(rule.pause_ms / 1_000)
                rule.paused()

    def _renewed(self) -> Said:
        """Ask for a new epoch, once."""
        log, now_s = self._log, monotonic()
        said = log.renew()
        if said is Said.DONE:
            self._unserved_since_s = _SERVED
        elif self._unserved_since_s is None:
            self._unserved_since_s = now_s
        elif monotonic() - self._unserved_since_s >= _SERVED_WITHIN_S and log.final is None:
            log.final = log.not_served()
        if said is not Said.DONE and log.final is None:
            self._pause.wait(_AGAIN_S)
        return said

    def _ended(self, append_id: bytes, took_s: float) -> AppendEnd:
        log, rule = self._log, self._rule
        assert rule.end is not None, "the append has not ended"
        late = f"it was not made within {took_s:.1f} s: others append, or brokers are slow"
        why = str(self._trouble or log.why or late)
        match rule.end:
            case AppendEnd.IN_DOUBT:
                raise AppendInDoubtError(*log.place, append_id, why)
            case AppendEnd.STOPPED if log.final is not None:
                raise log.final
            case AppendEnd.STOPPED if rule.is_blocked:
                raise log.blocked(rule.blocked_at, took_s)
            case AppendEnd.STOPPED:
                raise AppendAbortedError(*log.place, why)
            case _:
                return rule.end
