"""The rules of a conditional append, as a state machine: calls go out, answers come in. Pure.

In: the expected last visible record, and what a client of the log has said to each call. Out: the
next call, and at the end how the append has ended. It works on any log with transactions:

    READ -> PRODUCE -> the records lie at E, without a gap -> COMMIT -> APPENDED
                    -> elsewhere -> ABORT -> PAUSE -> READ
    READ finds a visible record beyond the expected one -> CONFLICT
    READ finds something undecided -> PAUSE -> READ, and after a while FENCE -> READ

Who has lost an attempt pauses before the next one, also if that belongs to another append: the
winner is mostly at it again, and both would lose.

E is the offset up to which all was decided and read. An offset is given once, so nothing lies
between what was read and a record that lies at E: nothing visible, and nothing undecided that could
become visible. The end of the log would not do for E: what is undecided below it may be committed.

After an own append E is its last record + 2, without a read: brokers begin the next transaction of
an id only when the last one's marker is written. If anything but the marker lay between, the next
record would lie higher.

What a client says decides what is called next. Whether an append is in the log is never concluded
from an error: behind a commit without a clear answer stands a doubt. It ends with a new epoch of
the id, by which nothing is open any more, and a read: its first record is there, or it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from coop_consumer.core.transaction import Said
from coop_consumer.logs.port import Landed, StableRead

SLOW_COMMIT_MS = 1_000
"""A commit that took longer may have been sent twice."""
BACKOFF_MS, BACKOFF_MAX_MS = 4.0, 512.0
"""A pause behind a lost attempt is random, below twice the first, or twice as long as producing has
taken: whoever comes back too early disturbs others. Each further loss doubles it, up to the second.
"""
BLOCKED_PAUSE_MS, BLOCKED_PAUSE_MAX_MS = 1.0, 16.0
FENCE_AFTER_MS, FENCE_AFTER_MAX_MS = 250.0, 8_000.0
"""So long others' undecided transaction is waited for, before it is ended.

A writer that lives takes some milliseconds. After each time the next one gets twice as long: maybe
all writers are slow.
"""

_LOSSES_MAX = 6
_UNKNOWN = -2


class AppendCall(Enum):
    """What is asked for next.

    RENEW, READ, PRODUCE, COMMIT, ABORT: as the port has them. PAUSE: wait `pause_ms`. FENCE: end
    the transaction that stands at `blocked_at`.
    """

    RENEW = auto()
    READ = auto()
    PRODUCE = auto()
    COMMIT = auto()
    ABORT = auto()
    PAUSE = auto()
    FENCE = auto()


class AppendEnd(Enum):
    """How an append has ended.

    APPENDED: it is in the log, once. CONFLICT: another record than the expected one is the last; it
    is not in the log. AHEAD: the expected record lies beyond the end of the log. STOPPED: it is not
    in the log, because its caller has stopped it. IN_DOUBT: it was stopped, and nobody knows.
    """

    APPENDED = auto()
    CONFLICT = auto()
    AHEAD = auto()
    STOPPED = auto()
    IN_DOUBT = auto()


class ConditionalAppend:
    """Appends by one client, one after the other.

    Args:
        chance: A number from 0 to below 1, for the length of pauses.
        fence_after_ms: See `FENCE_AFTER_MS`.

    Attributes:
        next: The next call; None: the append has ended.
        end: How it has ended; None: it has not.
        pause_ms: How long to wait, for PAUSE.
        expected: Offset of what the append takes for the last visible record.
        found: Offset of the last visible record that was seen.
        appended: Offset of the last record of the last append that is in the log.
        position: Below it all is decided and known: where the append has to lie.
        blocked_at: Where somebody's undecided transaction begins, for FENCE.
    """

    __slots__ = (
        "_append_id",
        "_blocked_ms",
        "_chance",
        "_commit_ms",
        "_commits",
        "_count",
        "_doubts",
        "_fence_after_ms",
        "_fence_at_ms",
        "_fresh_end",
        "_losses",
        "_must_renew",
        "_produce_ms",
        "appended",
        "blocked_at",
        "end",
        "expected",
        "found",
        "next",
        "pause_ms",
        "position",
    )

    def __init__(
        self, chance: Callable[[], float], *, fence_after_ms: float = FENCE_AFTER_MS
    ) -> None:
        self._chance = chance
        self._fence_after_ms = self._fence_at_ms = fence_after_ms
        self._must_renew = True
        self._fresh_end = self.appended = self.blocked_at = _UNKNOWN
        self._losses, self._produce_ms = 0, 0.0
        self.next: AppendCall | None = None
        self.end: AppendEnd | None = None
        self._set_up(_UNKNOWN, 0, b"")

    def _set_up(self, expected: int, count: int, append_id: bytes) -> None:
        self.expected = self.found = expected
        self._count, self._append_id = count, append_id
        self.position = 0
        self._doubts = False
        self._commits = 0
        self._commit_ms = self._blocked_ms = self.pause_ms = 0.0

    def begin(self, expected: int, count: int, append_id: bytes, *, rested_ms: float = 0.0) -> None:
        """Begin an append.

        Args:
            expected: Offset of the last visible record, as its caller knows it.
            count: How many records.
            append_id: The header of its first record. Whoever sends an append again sends the same
                id again; then it is found, and not appended twice.
            rested_ms: How long ago the last append has ended: so much of a pause is over.
        """
        assert self.next is None, "an append is under way"
        assert count > 0, "an append without records"
        is_fresh = self._fresh_end != _UNKNOWN and expected == self.appended
        self._set_up(expected, count, append_id)
        self.end = None
        if self._must_renew:
            self._renew()
        elif is_fresh:
            self.position = self._fresh_end
            self.next = AppendCall.PRODUCE
        elif self._losses:  # its attempt before was lost to somebody who may be at it still
            self._back_off(rested_ms)
        else:
            self.next = AppendCall.READ

    def take_over(self) -> None:
        """A new epoch was begun between two appends."""
        assert self.next is None, "an append is under way"
        self._must_renew, self._fresh_end = False, _UNKNOWN

    @property
    def is_blocked(self) -> bool:
        """Whether the append waits for somebody's undecided transaction."""
        return self._blocked_ms > 0

    def stop(self) -> None:
        """End the append now: it is not in the log and never will be, or it is in doubt."""
        if self.next is None:
            return
        if self._commits:
            self._must_renew = True
            self._ended(AppendEnd.IN_DOUBT)
            return
        # What this epoch may have open is over with the next one.
        may_be_open = self.next in (AppendCall.COMMIT, AppendCall.ABORT)
        self._must_renew = self._must_renew or may_be_open
        self._ended(AppendEnd.STOPPED)

    # ---- answers -------------------------------------------------------------------------------

    def renewed(self, said: Said) -> None:
        """RENEW is answered; anything but DONE: it is asked for once more."""
        self._check(AppendCall.RENEW)
        if said is Said.DONE:
            self._must_renew = False
            self.next = AppendCall.READ

    def read(self, seen: StableRead) -> None:
        """READ is answered: what is visible beyond `expected`."""
        self._check(AppendCall.READ)
        if seen.records:
            # If this append is in the log, nothing visible lies between the expected record and it.
            self.found = seen.records[-1].offset
            if seen.append_id == self._append_id:
                self._append_ended(seen.records[0].offset)
            else:
                self._ended(AppendEnd.CONFLICT)
        elif self.expected < seen.first_offset - 1:
            self.found = seen.first_offset - 1
            self._ended(AppendEnd.CONFLICT)
        elif not seen.is_complete:
            return  # once more
        elif self.expected >= seen.end:
            self._ended(AppendEnd.AHEAD)
        elif self._doubts and seen.position < self._end_wanted:
            self._wait_at(seen.position)  # its marker is on the way
        else:
            self._doubts, self._commits = False, 0
            self.position = seen.position
            if seen.is_undecided:
                self._wait_at(seen.position)
            else:
                self._blocked_ms = 0.0
                self.next = AppendCall.PRODUCE

    def produced(self, landed: Landed, took_ms: float = 0.0) -> None:
        """PRODUCE is answered, after so many milliseconds."""
        self._check(AppendCall.PRODUCE)
        self._produce_ms = took_ms
        self._fresh_end = _UNKNOWN
        is_in_place = (landed.first, landed.last) == (self.position, self._end_wanted - 1)
        if landed.said is Said.BROKEN:
            self._lost()
            self._renew()
        elif landed.said is Said.DONE and is_in_place:
            self.next = AppendCall.COMMIT
        else:
            self.next = AppendCall.ABORT

    def committed(self, said: Said, took_ms: float = 0.0) -> None:
        """COMMIT is answered, after so many milliseconds."""
        self._check(AppendCall.COMMIT)
        self._commits += 1
        self._commit_ms += took_ms
        if said is Said.DONE:
            # The request may have been sent twice. The late one would commit whatever is open.
            self._must_renew = self._commits > 1 or self._commit_ms > SLOW_COMMIT_MS
            self._append_ended(self.position)
            if not self._must_renew:
                self._fresh_end = self.appended + 2
        elif said is not Said.AGAIN:
            self._doubts = True
            self._renew()

    def aborted(self, said: Said) -> None:
        """ABORT is answered; no commit was asked for, so nothing of it becomes visible."""
        self._check(AppendCall.ABORT)
        self._lost()
        if said is not Said.DONE:
            self._renew()

    def paused(self) -> None:
        """PAUSE is over."""
        self._check(AppendCall.PAUSE)
        self.next = AppendCall.READ

    def fenced(self, is_over: bool) -> None:
        """FENCE is answered; see `TransactionalLog.end_blocker`."""
        self._check(AppendCall.FENCE)
        self._blocked_ms = 0.0 if is_over else BLOCKED_PAUSE_MS  # it waits on, for somebody else's
        if is_over:
            self._fence_at_ms = min(2 * self._fence_at_ms, FENCE_AFTER_MAX_MS)
        self.next = AppendCall.READ

    # ---- inside --------------------------------------------------------------------------------

    @property
    def _end_wanted(self) -> int:
        """The offset behind the last record of the append, if it lies at `position`."""
        return self.position + self._count

    def _check(self, call: AppendCall) -> None:
        assert self.next is call, f"an answer to {call.name}, but {self.next} was asked"

    def _lost(self) -> None:
        """Others were in between: look again, some time later."""
        self._losses = min(self._losses + 1, _LOSSES_MAX)
        self._back_off()

    def _back_off(self, rested_ms: float = 0.0) -> None:
        most_ms = min(max(BACKOFF_MS, self._produce_ms) * 2.0**self._losses, BACKOFF_MAX_MS)
        self._pause(max(self._chance() * most_ms - rested_ms, 0.0))

    def _wait_at(self, offset: int) -> None:
        """Somebody's transaction is undecided: a record would not lie at its end."""
        if offset != self.blocked_at:
            self.blocked_at, self._blocked_ms = offset, 0.0
        if self._blocked_ms >= self._fence_at_ms:
            self.next = AppendCall.FENCE
        else:
            # Each look costs the brokers and the machine time that the other writer needs.
            pause_ms = min(BLOCKED_PAUSE_MS + self._blocked_ms, BLOCKED_PAUSE_MAX_MS)
            pause_ms *= 1.0 + self._chance()
            self._blocked_ms += pause_ms
            self._pause(pause_ms)

    def _pause(self, pause_ms: float) -> None:
        self.next, self.pause_ms = AppendCall.PAUSE, pause_ms

    def _renew(self) -> None:
        self._must_renew, self._fresh_end = True, _UNKNOWN
        self.next = AppendCall.RENEW

    def _append_ended(self, first: int) -> None:
        self.appended = first + self._count - 1
        self.found = max(self.found, self.appended)
        self._losses, self._fence_at_ms = 0, self._fence_after_ms
        self._ended(AppendEnd.APPENDED)

    def _ended(self, end: AppendEnd) -> None:
        self.end, self.next = end, None
