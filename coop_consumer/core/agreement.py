"""The agreement: which epoch of a partition counts, by Kafka's committed offset and the log. Pure.

In: what the group has committed, complete reads of the log, answers to what was sent. Out: the next
act towards an epoch that both tell of. Nobody starts before they do. `offsets.history` says what
an offset and a log mean together; this says how far a member is with it. One object a partition.
Only its own methods write its fields. Upholds I2, I3.

    OPEN -they differ-> DOUBTED -still-> CONFIRMING -still-> BASING -answered-> OPEN
    OPEN -nothing is known-> RESOLVING -answered-> OPEN -the first epoch begins-> BASING
    OPEN, DOUBTED, CONFIRMING -they agree-> AGREED -a new assignment, or the log lost it-> OPEN
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from offsets import Meaning, Newest, newest_epoch

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignors import TopicPartition
    from offsets import Committed, PartitionStore

_ASK_AGAIN_MS = 100
_ANSWER_MS = 30_000


class AgreementState(Enum):
    """How far a member is with the epoch of a partition."""

    OPEN = auto()
    """Nobody has compared committed offset and log, or they do not agree."""
    DOUBTED = auto()
    """They seem to say that an epoch begins: the log is read once more."""
    CONFIRMING = auto()
    """The log said the same again: the committed offset is read once more."""
    RESOLVING = auto()
    """Nothing is known of the partition: the end where its first epoch begins is asked for."""
    BASING = auto()
    """The beginning of an epoch is on its way to the log."""
    AGREED = auto()
    """Committed offset and log tell of one epoch."""


class _AgreementEvent(Enum):
    """What changes the state."""

    REOPEN = auto()  # a new assignment, a new lead, a newer epoch in the log, another topic
    FORGET = auto()  # records of the log are gone
    AGREE = auto()
    LOSE = auto()  # a complete log does not know the epoch that was agreed on
    DOUBT = auto()
    CONFIRM = auto()
    RESOLVE = auto()
    BASE = auto()
    RESOLVED = auto()
    BASED = auto()


_S, _E = AgreementState, _AgreementEvent
_MOVES = {
    (_S.OPEN, _E.REOPEN): _S.OPEN,
    (_S.OPEN, _E.FORGET): _S.OPEN,
    (_S.OPEN, _E.AGREE): _S.AGREED,
    (_S.OPEN, _E.DOUBT): _S.DOUBTED,
    (_S.OPEN, _E.RESOLVE): _S.RESOLVING,
    (_S.OPEN, _E.BASE): _S.BASING,  # behind a cut-off
    (_S.DOUBTED, _E.REOPEN): _S.OPEN,
    (_S.DOUBTED, _E.FORGET): _S.OPEN,
    (_S.DOUBTED, _E.AGREE): _S.AGREED,
    (_S.DOUBTED, _E.DOUBT): _S.DOUBTED,
    (_S.DOUBTED, _E.CONFIRM): _S.CONFIRMING,
    (_S.DOUBTED, _E.RESOLVE): _S.RESOLVING,
    (_S.DOUBTED, _E.BASE): _S.BASING,  # behind a cut-off
    (_S.CONFIRMING, _E.REOPEN): _S.OPEN,
    (_S.CONFIRMING, _E.FORGET): _S.OPEN,
    (_S.CONFIRMING, _E.AGREE): _S.AGREED,
    (_S.CONFIRMING, _E.DOUBT): _S.DOUBTED,
    (_S.CONFIRMING, _E.RESOLVE): _S.RESOLVING,
    (_S.CONFIRMING, _E.BASE): _S.BASING,
    # What is under way is answered, whatever happens meanwhile.
    (_S.RESOLVING, _E.REOPEN): _S.RESOLVING,
    (_S.RESOLVING, _E.FORGET): _S.RESOLVING,
    (_S.RESOLVING, _E.RESOLVED): _S.OPEN,
    (_S.BASING, _E.REOPEN): _S.BASING,
    (_S.BASING, _E.FORGET): _S.BASING,
    (_S.BASING, _E.BASED): _S.OPEN,
    (_S.AGREED, _E.REOPEN): _S.OPEN,
    (_S.AGREED, _E.FORGET): _S.AGREED,  # the log may still know the epoch
    (_S.AGREED, _E.AGREE): _S.AGREED,
    (_S.AGREED, _E.LOSE): _S.OPEN,
    (_S.AGREED, _E.BASE): _S.BASING,  # behind a cut-off
}
"""Every move. No other pair of state and event may happen."""


class Next(Enum):
    """What to do next towards an epoch that committed offset and log agree on."""

    NOTHING = auto()
    """They agree, or an answer is awaited."""
    ASK = auto()
    """Ask for the committed offset."""
    READ = auto()
    """Read the log once more."""
    TAG = auto()
    """Commit the newest epoch's tag."""
    RESOLVE = auto()
    """Ask for the end of the partition where the first epoch begins."""
    BASE = auto()
    """Append the beginning of the newest epoch."""


@dataclass(slots=True, eq=False)
class Agreement:
    """The epoch of one partition.

    Args:
        tp: The partition.
        log: Its part of the progress log, as far as it is read.

    Attributes:
        state: How far it is.
        epoch: What committed offset and log agreed on last; 0: nothing since the assignment. The
            log may have lost it, see `is_lost`.
        committed: What the group has committed, as last seen; None: nothing, or never asked.
        is_known: Whether `committed` is fresh enough to decide by.
        is_asked: Whether an answer to `FetchCommitted` is awaited.
        leads: Whether the assignment names this member as the lead of the partition.
    """

    tp: TopicPartition
    log: Callable[[], PartitionStore]
    state: AgreementState = AgreementState.OPEN
    epoch: int = 0
    committed: Committed | None = None
    is_known: bool = False
    is_asked: bool = False
    leads: bool = False
    _ask_again_ms: int = 0
    _is_committing: bool = False
    _seen: tuple[Committed | None, int] = (None, 0)  # what is doubted
    _cut: tuple[int, int] | None = None  # in which epoch, at which offset
    _begun_epoch: int = 0  # the newest one in which a tenure of ours has begun
    _loss_epoch: int = 0  # the newest one that we began because the log had lost its last

    def _move(self, event: _AgreementEvent) -> None:
        following = _MOVES.get((self.state, event))
        assert following is not None, (
            f"I2: {self.tp}: {event.name} in state {self.state.name}; epoch {self.epoch}, "
            f"committed {self.committed}, log epoch {self._log_epoch}"
        )
        self.state = following

    @property
    def _log_epoch(self) -> int:
        return self.log().epoch or 0

    # ---- what is true --------------------------------------------------------------------------

    @property
    def is_lost(self) -> bool:
        """Whether the log, as far as it is read, does not know the epoch that was agreed on."""
        return self.epoch > self._log_epoch

    @property
    def is_behind(self) -> bool:
        """Whether the log tells of a newer epoch than the one that was agreed on."""
        return 0 < self.epoch < self._log_epoch

    @property
    def is_wanting(self) -> bool:
        """Whether we lead, and no epoch counts yet."""
        return self.leads and not self.epoch

    @property
    def is_basing(self) -> bool:
        """Whether the beginning of an epoch is on its way to the log."""
        return self.state is AgreementState.BASING

    @property
    def is_answered(self) -> bool:
        """Whether nothing that was sent for its sake awaits an answer."""
        waits = self.state in (AgreementState.RESOLVING, AgreementState.BASING)
        return not (waits or self._is_committing)

    def check(self) -> None:
        """Assert that an epoch is known where one is agreed on (I2)."""
        assert self.epoch or self.state is not AgreementState.AGREED, (
            f"I2: {self.tp}: agreed on no epoch, committed {self.committed}"
        )

    def newest(self) -> Newest:
        """The epoch that counts, or the one that begins next. O(tenures)."""
        return newest_epoch(self.log(), self.committed, self.epoch)

    # ---- something happened --------------------------------------------------------------------

    def lead(self, *, leads: bool, afresh: bool = False) -> None:
        """Be the lead from now on, or no more. A new lead compares for itself; `afresh`: any."""
        if leads and (afresh or not self.leads):
            self.reopen()
        self.leads = leads

    def reopen(self) -> None:
        """Compare committed offset and log once more: somebody may have rewound."""
        self._move(_AgreementEvent.REOPEN)
        self.epoch, self.is_known = 0, False

    def forget_log(self) -> None:
        """Records of the log are gone: what is left may be older than what was compared."""
        self._move(_AgreementEvent.FORGET)
        self.is_known = False

    def forget_topic(self) -> None:
        """The topic was made again under its name: nothing of the old one counts."""
        self.reopen()
        self.committed = self._cut = None
        self._begun_epoch = self._loss_epoch = 0

    def cut_off(self, epoch: int, offset: int) -> None:
        """The partition was cut off at `offset`, below what was done in `epoch`."""
        self._cut = epoch, offset

    def forget_cut(self) -> None:
        """Leave a cut-off to the next owner to notice."""
        self._cut = None

    def begun(self) -> bool:
        """A tenure of ours has begun. True: it is the first one in the epoch."""
        is_first = self.epoch > self._begun_epoch
        self._begun_epoch = max(self._begun_epoch, self.epoch)
        return is_first

    @property
    def follows_a_loss(self) -> bool:
        """Whether we began the epoch because the log had lost the one before."""
        return 0 < self.epoch == self._loss_epoch

    # ---- the committed offset ------------------------------------------------------------------

    def ask(self, now_ms: int) -> bool:
        """Whether to ask for the committed offset now, which counts as asked.

        At most every 100 ms, and again if nobody answers for 30 s.
        """
        if now_ms < self._ask_again_ms + (_ANSWER_MS if self.is_asked else 0):
            return False
        self.is_asked, self._ask_again_ms = True, now_ms + _ASK_AGAIN_MS
        return True

    def asked(self) -> None:
        """Somebody asks for it who need not wait as `ask` does."""
        self.is_asked = True

    def ask_afresh(self) -> None:
        """Do not decide by what was seen so far; `ask` may ask at once."""
        self.is_known, self._ask_again_ms = False, 0

    def committed_read(self, committed: Committed | None) -> None:
        """This is what the group has committed of the topic."""
        self.is_asked, self.is_known, self.committed = False, True, committed

    def committed_unknown(self) -> None:
        """The committed offset could not be read."""
        self.is_asked = False

    def committing(self) -> None:
        """A committed offset is on its way to Kafka."""
        assert self.is_answered, f"I2: {self.tp}: commits while {self.state.name}"
        self._is_committing = True

    def committed_as(self, committed: Committed | None) -> None:
        """Kafka has taken it."""
        self._is_committing, self.committed, self.is_known = False, committed, True

    def not_committed(self) -> None:
        """Kafka has refused it, or may have: only a look tells what is committed."""
        self._is_committing = self.is_known = False

    # ---- towards an epoch ----------------------------------------------------------------------

    def adopt(self) -> bool:
        """Take the epoch that committed offset and log agree on, if they do."""
        meaning, epoch, _ = newest_epoch(self.log(), self.committed)
        if meaning is Meaning.AGREED:
            self._move(_AgreementEvent.AGREE)
            self.epoch = epoch
        return meaning is Meaning.AGREED

    def next_act(self, now_ms: int) -> Next:
        """What to do next. Call it when the log is read to its end."""
        if self.is_basing:
            return Next.NOTHING
        if self.state is AgreementState.RESOLVING:  # the group may begin it meanwhile
            return self._ask(now_ms)
        if self.epoch and not self.is_lost:
            if self.state is not AgreementState.AGREED:  # the log has it again
                self._move(_AgreementEvent.AGREE)
            return Next.NOTHING
        if self.state is AgreementState.AGREED:
            self._move(_AgreementEvent.LOSE)
        if not self.is_known:
            return self._ask(now_ms)
        return Next.NOTHING if self.adopt() else self._towards_newest(now_ms)

    def _towards_newest(self, now_ms: int) -> Next:
        meaning, _, base = self.newest()
        if self._is_committing or not (self.leads or meaning is Meaning.LOST):
            return self._ask(now_ms)
        if meaning is Meaning.UNTAGGED:
            return Next.TAG
        return Next.RESOLVE if base is None else self._certain(now_ms)

    def _ask(self, now_ms: int) -> Next:
        return Next.ASK if self.ask(now_ms) else Next.NOTHING

    def _certain(self, now_ms: int) -> Next:
        """Base only if committed offset and log were so at one moment; if not, look again.

        They are read one after the other, and a zombie may have slept in between: an old offset
        beside a new log, or a new tag beside an old log, looks like a foreign decision. So the log
        is read once more, and then the offset: if neither has changed, both were so in between.
        """
        seen = self.committed, self._log_epoch
        is_doubted = self.state in (AgreementState.DOUBTED, AgreementState.CONFIRMING)
        if not is_doubted or seen != self._seen:
            self._seen = seen
            self._move(_AgreementEvent.DOUBT)
            return Next.READ
        if self.is_asked:  # the answer under way may be older than the log that was read
            return Next.NOTHING
        if self.state is AgreementState.CONFIRMING:
            return Next.BASE
        self._move(_AgreementEvent.CONFIRM)
        self.ask_afresh()
        return self._ask(now_ms)

    def resolving(self) -> None:
        """The end of the partition is asked for."""
        self._move(_AgreementEvent.RESOLVE)

    def resolved(self) -> bool:
        """The end of the partition has come, or will not. True: the first epoch begins there.

        Others, or a try of ours that seemed to have failed, may have begun it meanwhile. And who
        slept since it asked may have heard since then what the group has committed.
        """
        self._move(_AgreementEvent.RESOLVED)
        is_new = self.is_lost or self.log().epoch is None
        return self.leads and is_new and self.is_known and self.committed is None

    def take_cut(self) -> int | None:
        """Where the next epoch begins at the latest, if the partition was cut off in this one.

        None, too, if others have begun the next one already. A cut-off is told once.
        """
        if self._cut is None or self.state in (AgreementState.RESOLVING, AgreementState.BASING):
            return None
        (epoch, offset), self._cut = self._cut, None
        return offset if self.log().epoch == epoch else None

    def basing(self, epoch: int, *, is_lost: bool = False) -> None:
        """The beginning of `epoch` is on its way; `is_lost`: as the log has lost its last one."""
        self._move(_AgreementEvent.BASE)
        if is_lost:
            self._loss_epoch = epoch

    def based(self) -> None:
        """The log has the beginning of an epoch, or may have it: a read shows which one counts."""
        self._move(_AgreementEvent.BASED)
