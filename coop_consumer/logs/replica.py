"""A state machine beside its log: what it has applied, and how it gets at what is new.

In: a client of the log, the user's state machine. Out: the state is as of an offset. One thread
uses a replica. It reads, applies, appends and applies again; it decides nothing about callers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TypeVar

from assignors import TopicPartition
from coop_consumer.errors import (
    LogTokenError,
    RetriableError,
    SnapshotError,
    StateMachineError,
)
from coop_consumer.log_events import LogEvent
from coop_consumer.logs.appender import Appender, new_append_id
from coop_consumer.logs.conditional import (
    BLOCKED_PAUSE_MS,
    FENCE_AFTER_MAX_MS,
    FENCE_AFTER_MS,
    AppendEnd,
)
from coop_consumer.logs.port import StableRead, TransactionalLog
from coop_consumer.logs.records import Conflict, LogToken, NewRecord, VisibleRecord
from coop_consumer.logs.snapshots import BrokenSnapshot, SnapshotStore
from coop_consumer.logs.state_machine import StateMachine
from coop_consumer.plain_text import counted

_log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_S = 50.0
"""Callers wait for longer by default (`TIMEOUT_S`), so they are told what held them up."""
_AGAIN_S = 0.1


class Replica:
    """One state machine and its log.

    Args:
        log: The client; nobody else uses it.
        machine: The user's.
        snapshots: Where its snapshots are; None: it has none.

    Attributes:
        patience_s: How long it waits for brokers, and for others' transactions.
        broken: What a method of the machine has raised; None: nothing.
    """

    def __init__(
        self, log: TransactionalLog, machine: StateMachine, snapshots: SnapshotStore | None
    ) -> None:
        self._log, self._machine, self._snapshots = log, machine, snapshots
        self._appender = Appender(log)
        self._pause = threading.Event()  # never set
        self._applied = -1  # offset of the last record that is applied
        self._position = 0  # all below it is decided, and applied
        self._own: dict[int, object] | None = (
            None  # results by offset, while an append is under way
        )
        self.patience_s = PATIENCE_S
        self.broken: StateMachineError | None = None

    @property
    def token(self) -> LogToken:
        """The last record that is applied."""
        return self._log.empty().at(self._applied)

    # ---- reading -------------------------------------------------------------------------------

    def bootstrap(self) -> None:
        """Restore the newest snapshot, and apply the log from there to its end.

        Raises:
            SnapshotError: The snapshot does not fit, or one is needed and there is none.
            StateMachineError: The machine raised.
            CoopConsumerError: As the log's `read`.
        """
        first = self._log.read(self._log.end()).first_offset
        kept = None if self._snapshots is None else self._snapshots.read()
        if kept is None or isinstance(kept, BrokenSnapshot):
            if first > 0:
                raise self._needed(first, kept)
            if kept is not None:
                self._report(kept)
        else:
            self._check_snapshot(kept.token, first)
            self._asked("restore", lambda: self._machine.restore(kept.parts))
            self._applied, self._position = kept.token.offset, kept.token.offset + 1
        self.sync()

    def _needed(self, first: int, kept: BrokenSnapshot | None) -> SnapshotError:
        problem, remedy = "is missing", "Restore the snapshot or the beginning of the log"
        if kept is not None:
            problem = kept.problem
            remedy = "Update this program" if kept.is_newer else remedy
        return self._unfit(
            f"{problem}, and the log begins at offset {first}, so it cannot do without", remedy
        )

    def _report(self, kept: BrokenSnapshot) -> None:
        """Report a snapshot without which the log can do."""
        assert self._snapshots is not None, "somebody has read it"
        tp = TopicPartition(self._snapshots.name, self._log.place[1])
        _log.warning(
            "%s: the snapshot %s. It is passed over: the log is read from its beginning. %s",
            tp, kept.problem,
            "Update this program" if kept.is_newer else "Call snapshot() again to replace it",
            extra=LogEvent.SNAPSHOT_BROKEN.extra(tp=tp),
        )  # fmt: skip

    def _check_snapshot(self, token: LogToken, first: int) -> None:
        known, end = self._log.empty(), self._log.end()
        if (token.topic_id, token.partition) != (known.topic_id, known.partition):
            topic = self._log.place[0]
            raise self._unfit(
                f"is of another topic or partition ({token})",
                f"If {topic} was made again, delete the old snapshots with it",
            )
        if token.offset >= end:
            raise self._unfit(
                f"is newer than the log: it has offset {token.offset}, and the log ends at {end}",
                "Find out why the log has lost its end, or delete the snapshot to go on without",
            )
        if token.offset + 1 < first:
            raise self._unfit(
                f"is as of offset {token.offset}, and the log begins at offset {first}",
                "Restore the log from there on, or a newer snapshot",
            )

    def _unfit(self, problem: str, remedy: str) -> SnapshotError:
        name = self._log.place[0] if self._snapshots is None else self._snapshots.name
        return SnapshotError(name, self._log.place[1], problem, remedy)

    def catch_up(self) -> bool:
        """Apply what is decided now; whether anything was new.

        Raises:
            CoopConsumerError: As the log's `read`, and of the machine.
        """
        before, seen = self._applied, self._read()
        while not seen.is_complete:
            seen = self._read()
        return self._applied > before

    def sync(self) -> None:
        """Apply all that is in the log now.

        That is up to its end, not only to the last stable offset: an append of somebody else may
        have been answered already, and its marker is still on the way.

        Raises:
            LogBlockedError: Somebody's transaction is undecided for that long.
            CoopConsumerError: As the log's `read`, and of the machine.
        """
        began_s, timeout_s = monotonic(), self.patience_s
        end = self._patiently(self._log.end, began_s + timeout_s)
        self._check_end(end)
        since_s, stands_at, fence_after_s = began_s, -1, FENCE_AFTER_MS / 1_000
        is_whole = True  # a read of a part may end in the midst of a transaction
        while self._position < end or not is_whole:
            seen = self._patiently(self._read, began_s + timeout_s)
            is_whole = seen.is_complete
            if seen.position >= end or not is_whole:
                continue
            now_s = monotonic()
            if seen.position != stands_at:
                since_s, stands_at = now_s, seen.position
            if now_s - began_s >= timeout_s:
                raise self._log.blocked(seen.position, now_s - began_s)
            if now_s - since_s >= fence_after_s:
                self._log.end_blocker(seen.position)
                fence_after_s, since_s = min(2 * fence_after_s, FENCE_AFTER_MAX_MS / 1_000), now_s
            self._pause.wait(BLOCKED_PAUSE_MS / 1_000)

    def _patiently(self, ask: Callable[[], T], until_s: float) -> T:
        while True:
            try:
                return ask()
            except RetriableError:
                if monotonic() >= until_s:
                    raise
            self._pause.wait(_AGAIN_S)

    def _read(self) -> StableRead:
        seen = self._log.read(self._applied)
        self._take_in(seen)
        return seen

    def _take_in(self, seen: StableRead) -> None:
        self._check_end(seen.end)
        if seen.first_offset > self._position:
            raise self._unfit(
                f"is needed: this state is as of offset {self._position - 1}, and the log begins "
                f"at offset {seen.first_offset} now",
                "Close this log and open it again, so that it begins with the newest snapshot",
            )
        if seen.records:
            self._apply(seen.records)
        self._position = max(self._position, seen.position)

    def _check_end(self, end: int) -> None:
        if end <= self._applied:
            self._log.check_topic()
            raise LogTokenError(
                *self._log.place,
                f"names offset {self._applied}, which is applied here, and the log ends at {end}",
            )

    def _apply(self, records: Sequence[VisibleRecord]) -> Sequence[object]:
        results = self._asked("apply", lambda: self._machine.apply(records))
        given: object = results
        if not isinstance(given, Sequence) or len(given) != len(records):
            what = (
                counted(len(given), "result")
                if isinstance(given, Sequence)
                else type(given).__name__
            )
            text = f"nothing, and returned {what} for {counted(len(records), 'record')}"
            self.broken = StateMachineError(*self._log.place, "apply", text)
            raise self.broken
        if self._own is not None:
            self._own.update(zip((it.offset for it in records), results, strict=True))
        self._applied = records[-1].offset
        self._position = max(self._position, self._applied + 1)
        return results

    def _asked(self, method: str, call: Callable[[], T]) -> T:
        if self.broken is not None:
            raise self.broken
        try:
            return call()
        except BaseException as error:  # also sys.exit(): the log's thread has to go on
            self.broken = self._raised(method, error)
            raise self.broken from error

    def _raised(self, method: str, error: BaseException) -> StateMachineError:
        return StateMachineError(*self._log.place, method, f"{type(error).__name__}: {error}")

    # ---- appending -----------------------------------------------------------------------------

    def append(self, records: Sequence[NewRecord]) -> Sequence[object] | Conflict:
        """Append records behind what is applied, and apply them; their results.

        `Conflict`: others have appended, and what is new is applied.

        Raises:
            AppendInDoubtError: Whether they are in the log is not known; what is visible tells.
            CoopConsumerError: They are not in the log, and never will be.
        """
        if self.broken is not None:
            raise self.broken
        expected, self._own = self.token, {}
        try:
            end = self._appender.append(
                records,
                expected.offset,
                new_append_id(),
                timeout_s=self.patience_s,
                look=self._take_in,
            )
            if end is AppendEnd.CONFLICT:
                self.catch_up()
                return Conflict(expected, self.token)
            assert end is AppendEnd.APPENDED, "a read has found the end behind what is applied"
            first = self._appender.appended - len(records) + 1
            if first in self._own:  # read back, behind a doubt
                return [self._own[first + i] for i in range(len(records))]
            return self._apply(
                [VisibleRecord(first + i, it.key, it.value) for i, it in enumerate(records)]
            )
        finally:
            self._own = None

    def snapshot(self) -> LogToken:
        """Keep the state as a snapshot; what it stands for.

        Raises:
            SnapshotError: It has no store.
            CoopConsumerError: As the store's `write`, and of the machine.
        """
        if self._snapshots is None:
            raise self._unfit("has nowhere to go", "Open the log with a store of snapshots")
        if self.broken is not None:
            raise self.broken
        try:
            parts = list(self._machine.snapshot())
        except BaseException as error:
            raise self._raised("snapshot", error) from error
        self._snapshots.write(self.token, parts)
        return self.token
