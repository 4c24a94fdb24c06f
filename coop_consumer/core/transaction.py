"""A transaction, call by call: what a transactional Producer is asked next. Pure; one thread.

In: what the Producer has said to each call. Out: the next call, and at the end an outcome. What a
client says decides what is called next; it never decides what has happened. So where a commit was
asked for and no clear answer has come, the outcome is a doubt, which only the log can end.

    BEGIN -> EFFECTS -> PROGRESS -> OFFSETS -> COMMIT -> COMMITTED
    any trouble before COMMIT -> ABORT -> ABORTED, or STALE
    the Producer is of no use any more -> RENEW -> ABORTED; behind a COMMIT: IN_DOUBT

Effects come before progress: an output partition without a leader then holds nobody up, because
the log has no open transaction meanwhile. Progress comes before the offsets, by which the group's
coordinator checks the generation: else a member that was put out behind that check would write
progress behind the end to which its successor reads.
"""

from __future__ import annotations

from enum import Enum, auto

_SLOW_MS = 1_000


class TransactionCall(Enum):
    """What is asked of the Producer.

    RENEW: leave it, make another one of the same transactional.id, and wait until that has its
    epoch: whatever was open is over then. EFFECTS, PROGRESS: produce them, and wait for all
    acknowledgements. OFFSETS: send the entry that is checked by the generation. BEGIN, COMMIT,
    ABORT: as they are called.
    """

    RENEW = auto()
    BEGIN = auto()
    EFFECTS = auto()
    PROGRESS = auto()
    OFFSETS = auto()
    COMMIT = auto()
    ABORT = auto()


class Said(Enum):
    """What it has said to a call.

    DONE: it is done. AGAIN: it may be done or not, and the same call may be made again. STALE: the
    group is in another generation, or does not know the member. REFUSED: it is not done, and the
    transaction can be aborted. BROKEN: nothing more can be done with this Producer: a fatal error,
    a rival of the same transactional.id, or a call that does not return.
    """

    DONE = auto()
    AGAIN = auto()
    STALE = auto()
    REFUSED = auto()
    BROKEN = auto()


class Outcome(Enum):
    """How a transaction has ended.

    COMMITTED, ABORTED: for certain. STALE: aborted, as the group is in another generation.
    IN_DOUBT: it was committed or aborted, and nothing of it is open any more.
    """

    COMMITTED = auto()
    ABORTED = auto()
    STALE = auto()
    IN_DOUBT = auto()


_FOLLOWING = {
    TransactionCall.RENEW: TransactionCall.BEGIN,
    TransactionCall.BEGIN: TransactionCall.EFFECTS,
    TransactionCall.EFFECTS: TransactionCall.PROGRESS,
    TransactionCall.PROGRESS: TransactionCall.OFFSETS,
    TransactionCall.OFFSETS: TransactionCall.COMMIT,
}


class Transaction:
    """One transaction.

    Args:
        renew: The Producer is to be renewed first, see `must_renew`.

    Attributes:
        next: The next call; None: it has ended.
        outcome: How it has ended; None: not yet.
        must_renew: The next transaction must have a new Producer. A request to commit this one may
            have been sent twice. The late one would commit whatever is open by then.
    """

    def __init__(self, *, renew: bool = False) -> None:
        self.next: TransactionCall | None = (
            TransactionCall.RENEW if renew else TransactionCall.BEGIN
        )
        self.outcome: Outcome | None = None
        self.must_renew = False
        self._fallen = Outcome.ABORTED  # what it is once it is over, if it is not committed
        self._has_begun = False
        self._commits = self._commit_ms = 0

    @property
    def is_in_doubt(self) -> bool:
        """Whether a commit was asked for, and nobody knows yet what became of it."""
        return self.outcome is None and self._commits > 0

    def said(self, said: Said, took_ms: int = 0) -> None:
        """Take in what the Producer has said to `next`."""
        call = self.next
        assert call is not None, f"I9: {said.name} behind the end of a transaction"
        match call:
            case TransactionCall.RENEW:
                self._renewed(said)
            case TransactionCall.ABORT:
                self._end(self._fallen) if said is Said.DONE else self._renew()
            case TransactionCall.COMMIT:
                self._committed(said, took_ms)
            case _ if said is Said.DONE:
                self._has_begun = True
                self.next = _FOLLOWING[call]
            case _ if said is Said.BROKEN:
                self._renew()
            case _:
                self._fallen = Outcome.STALE if said is Said.STALE else Outcome.ABORTED
                self.next = TransactionCall.ABORT

    def _renewed(self, said: Said) -> None:
        if said is not Said.DONE:
            return  # once more
        self.must_renew = False
        if self._has_begun or self._fallen is Outcome.IN_DOUBT:
            self._end(self._fallen)
        else:
            self.next = TransactionCall.BEGIN

    def _committed(self, said: Said, took_ms: int) -> None:
        self._commits += 1
        self._commit_ms += took_ms
        if said is Said.DONE:
            self.must_renew = self._commits > 1 or self._commit_ms > _SLOW_MS
            self._end(Outcome.COMMITTED)
        elif said is not Said.AGAIN:
            self._fallen = Outcome.IN_DOUBT
            self._renew()

    def _renew(self) -> None:
        self.must_renew, self.next = True, TransactionCall.RENEW

    def _end(self, outcome: Outcome) -> None:
        self.outcome, self.next = outcome, None
