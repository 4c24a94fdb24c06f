"""The thread of a commit log: callers' appends are gathered, questions answered between them.

In: appends and questions, from any thread. Out: their answers. One conditional append is made at a
time, and all callers that wait share it. All calls of the replica, and so of the log's clients and
of the user's state machine, are made on this thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from coop_consumer.errors import (
    AppendInDoubtError,
    RecordRefusedError,
    RecordTooLargeError,
    StateMachineError,
)
from coop_consumer.logs.records import Conflict, LogToken, NewRecord
from coop_consumer.logs.replica import Replica

Check = Callable[[], object | None]
"""Whether records may be appended, by the state as it is; anything but None says why not."""

SHARED_MAX = 10_000
"""Records of one append that several callers share."""
SHARED_MAX_BYTES = 4 << 20
"""Bytes of the same. An append has to end within transaction.timeout.ms, and larger ones are no
quicker. A caller's own append may be larger: it goes alone."""
_GATHER_S = 0.001


@dataclass(frozen=True, slots=True)
class Applied:
    """Records are in the log, and applied.

    Attributes:
        token: Of the last record of the append, which other callers may share.
        results: What `StateMachine.apply` has returned for the caller's records.
    """

    token: LogToken
    results: Sequence[object]


@dataclass(frozen=True, slots=True)
class Denied:
    """A caller's check has said no, by the newest state. Nothing was appended.

    Attributes:
        reason: What the check has returned.
    """

    reason: object


@dataclass(slots=True, eq=False)
class AskedAppend:
    """Records to append, of `size` bytes.

    The answer is `Applied`, `Conflict` or `Denied`, or an error.
    """

    records: Sequence[NewRecord]
    check: Check | None
    size: int
    answer: Future[Any] = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class AskedLook:
    """A call between two appends; if `is_synced`, when all that is in the log now is applied."""

    look: Callable[[], object]
    is_synced: bool
    answer: Future[Any] = field(default_factory=Future)


class _End:
    """The last thing that the thread is asked for."""


class LogThread:
    """The thread of one log.

    Args:
        replica: Bootstrapped; nobody else uses it from now on.
        name: Of the thread.
        ended: Called at the end, on the thread.
    """

    def __init__(self, replica: Replica, name: str, ended: Callable[[], None]) -> None:
        self._replica, self._ended = replica, ended
        self._asked: SimpleQueue[AskedAppend | AskedLook | _End] = SimpleQueue()
        self._appends: deque[AskedAppend] = deque()
        self._follow_s: float | None = None
        self._due_s = 0.0
        self._company = 1  # how many callers have shared the last append
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the caller is this thread."""
        return threading.current_thread() is self._thread

    def ask(self, asked: AskedAppend | AskedLook) -> None:
        """Take this in; its future gets the answer."""
        self._asked.put(asked)

    def follow(self, interval_s: float) -> None:
        """Apply what others append so often. Only on the thread."""
        self._follow_s, self._due_s = interval_s, monotonic()

    def close(self) -> None:
        """End, once everything that was asked is answered. Nothing may be asked any more."""
        self._asked.put(_End())
        self._thread.join()

    # ---- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        is_over = False
        while not is_over or self._appends:
            looks, is_over = self._next(is_over=is_over)
            self._answer(looks)
            if self._appends:
                self._append(self._shared())
            if self._follow_s is not None and monotonic() >= self._due_s:
                self._failure_of(self._replica.catch_up)  # whoever asks next gets the error
                self._due_s = monotonic() + self._follow_s
        self._ended()

    def _next(self, *, is_over: bool) -> tuple[list[AskedLook], bool]:
        """All that was asked meanwhile; waits, if there is nothing to do."""
        looks: list[AskedLook] = []
        wait_s = None if self._follow_s is None else max(0.0, self._due_s - monotonic())
        if self._appends or is_over:
            wait_s = 0.0
        with suppress(Empty):
            while True:
                asked = self._asked.get(block=wait_s != 0.0, timeout=wait_s)
                if isinstance(asked, _End):
                    is_over = True
                elif asked.answer.set_running_or_notify_cancel():  # else nobody waits for it
                    self._take(asked, looks)
                # Who was answered just now may ask again at once: wait a moment for all of them.
                is_waiting = 0 < len(self._appends) < self._company and not looks and not is_over
                wait_s = _GATHER_S if is_waiting else 0.0
        return looks, is_over

    def _take(self, asked: AskedAppend | AskedLook, looks: list[AskedLook]) -> None:
        if isinstance(asked, AskedAppend):
            self._appends.append(asked)
        else:
            looks.append(asked)

    def _answer(self, looks: Sequence[AskedLook]) -> None:
        failure: BaseException | None = self._replica.broken
        if any(it.is_synced for it in looks) and failure is None:
            failure = self._failure_of(self._replica.sync)
        for it in looks:
            if failure is not None and (it.is_synced or isinstance(failure, StateMachineError)):
                it.answer.set_exception(failure)
                continue
            try:
                found = it.look()
            except BaseException as error:  # noqa: BLE001 - it goes to whoever has asked
                it.answer.set_exception(error)
            else:
                it.answer.set_result(found)

    def _failure_of(self, call: Callable[[], object]) -> BaseException | None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - it goes to whoever has asked
            return error
        return None

    def _shared(self) -> list[AskedAppend]:
        """The appends that share the next one. One with a check comes first: it sees all before."""
        found = [self._appends.popleft()]
        count, size = len(found[0].records), found[0].size
        while self._appends and self._appends[0].check is None:
            count += len(self._appends[0].records)
            size += self._appends[0].size
            if count > SHARED_MAX or size > SHARED_MAX_BYTES:
                break
            found.append(self._appends.popleft())
        self._company = len(found)
        return found

    def _append(self, shared: list[AskedAppend]) -> None:
        if shared[0].check is not None and not self._is_allowed(shared[0], shared[0].check):
            del shared[0]
        if not shared:
            return
        records = [record for it in shared for record in it.records]
        try:
            found = self._replica.append(records)
        except (RecordTooLargeError, RecordRefusedError) as error:
            if len(shared) == 1:
                shared[0].answer.set_exception(error)
                return
        except Exception as error:  # noqa: BLE001 - it goes to whoever has asked
            for it in shared:
                it.answer.set_exception(_without_id(error))
            return
        else:
            self._answer_appends(shared, found)
            return
        # It is the fault of one of them. Not in the handler above: confluent-kafka never lets go of
        # an exception that is being handled while a call of a transaction fails.
        for it in shared:
            self._append([AskedAppend(it.records, None, it.size, it.answer)])

    def _is_allowed(self, asked: AskedAppend, check: Check) -> bool:
        """Ask the check; answers for it, unless its records may be appended."""
        try:
            reason = self._checked(check)
        except BaseException as error:  # noqa: BLE001 - it goes to whoever has asked
            asked.answer.set_exception(error)
            return False
        if reason is not None:
            asked.answer.set_result(Denied(reason))
        return reason is None

    def _answer_appends(
        self, shared: Sequence[AskedAppend], found: Sequence[object] | Conflict
    ) -> None:
        if isinstance(found, Conflict):
            for it in shared:
                it.answer.set_result(found)
            return
        token, first = self._replica.token, 0
        for it in shared:
            end = first + len(it.records)
            it.answer.set_result(Applied(token, found[first:end]))
            first = end

    def _checked(self, check: Check) -> object | None:
        """What the check says; a no only by the newest state."""
        if self._replica.broken is not None:
            raise self._replica.broken
        reason = check()
        if reason is not None:
            self._replica.sync()
            reason = check()
        return reason


def _without_id(error: Exception) -> Exception:
    """The error for a caller, who cannot send a shared append again."""
    if isinstance(error, AppendInDoubtError):
        return AppendInDoubtError(error.topic, error.partition, b"", error.why)
    return error
