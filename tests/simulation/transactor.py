"""The transactor of a simulated member: commits as transactions, call by call.

In: commits of the real core, one at a time. Out: requests to the brokers, and at the end what has
become of each. The real `Transaction` decides what is called next. Answers get lost. A request
whose answer is lost may arrive late: one to end a transaction, even in the midst of a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coop_consumer.core import events
from coop_consumer.core.transaction import Outcome, Said, Transaction, TransactionCall
from coop_consumer.errors import TransactionAbortedError
from tests.simulation.flusher import SimLetter, of_ended
from tests.simulation.progress_log import TooLarge
from tests.simulation.transactions import Opened, id_of

if TYPE_CHECKING:
    from coop_consumer.core import actions
    from coop_consumer.core.effects import Result
    from coop_consumer.core.record import Record
    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.state.shard import Write
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

ABORTED = TransactionAbortedError("simulated", "simulated")
_LATE, _BREAKS = 0.7, 0.1
"""How often what is lost arrives after all, and a lost answer to a commit ends the client."""


class SimTransactor:
    """The transactions of one member."""

    def __init__(self, world: World, shell: MemberShell) -> None:
        self._world = world
        self._shell = shell
        self._id = id_of(shell.name, shell.incarnation)
        self._epoch = -1
        self._must_renew = True
        self._transaction = Transaction()
        self._action: actions.Commit | None = None
        self._opened: Opened | None = None
        self._refused: tuple[Record, str] | None = None
        self._error: CoopConsumerError = ABORTED
        self._offsets: list[int] = []
        self._written: list[tuple[Write, int]] = []
        self._doubtful: list[tuple[Write, int]] = []
        self._asked_ms = self._asked = 0

    def commit(self, action: actions.Commit) -> None:
        """Begin a transaction."""
        assert self._action is None, "T1: two transactions of one member"
        assert action.metadata.generation >= 0, "T4: generation -1 leaves the process"
        self._action, self._opened, self._offsets, self._written = action, None, [], []
        self._error, self._refused = ABORTED, None
        self._transaction = Transaction(renew=self._must_renew)
        self._go_on()

    def _go_on(self) -> None:
        """Make the next call, or tell the core how it has ended."""
        call = self._transaction.next
        if call is None:
            self._ended()
            return
        scheduler = self._world.scheduler
        self._asked_ms = scheduler.now_ms
        if call is TransactionCall.BEGIN:  # nothing is sent
            self._say(Said.DONE)
            return
        asked, epoch = self._calls[call], self._epoch  # a late request has the epoch of its time
        self._asked += 1
        number = self._asked
        lost = self._world.weather.lost
        if lost and call is TransactionCall.OFFSETS and not self._is_taken():
            lost = 0.8  # whatever kept its heartbeats back keeps back other answers
        if not scheduler.chance(lost):
            self._later(lambda: asked(self, epoch, self._reply))
            return
        self._world.happened("lost reply")
        if scheduler.chance(_LATE):

            def arrive() -> None:
                # Behind others on its connection; records that were under way have an old epoch.
                if call in (TransactionCall.COMMIT, TransactionCall.RENEW) or number == self._asked:
                    asked(self, epoch, _unheard)

            longest_ms = (
                10 if call is TransactionCall.COMMIT else 3
            ) * self._world.weather.append_ms
            delay_ms = scheduler.between(0, longest_ms)
            scheduler.after(self._world.brokers.reach(delay_ms), arrive)
        self._reply(self._of_silence(call))

    def _of_silence(self, call: TransactionCall) -> Said:
        if call in (TransactionCall.COMMIT, TransactionCall.ABORT) and self._world.scheduler.chance(
            _BREAKS
        ):
            return Said.BROKEN
        return (
            Said.AGAIN
            if call in (TransactionCall.COMMIT, TransactionCall.OFFSETS, TransactionCall.RENEW)
            else Said.REFUSED
        )

    def _later(self, call: Callable[[], object]) -> None:
        delay_ms = self._world.scheduler.between(1, self._world.weather.append_ms)
        self._world.scheduler.after(self._world.brokers.reach(delay_ms), call)

    def _reply(self, said: Said) -> None:
        transaction = self._transaction

        def hear() -> None:
            if transaction is self._transaction:
                self._say(said)

        self._later(lambda: self._shell.receive(hear))

    def _say(self, said: Said) -> None:
        call = self._transaction.next
        if said is not Said.DONE:
            self._world.happened(f"{call.name.lower()} {said.name.lower()}" if call else "late")
        self._world.note(self._shell.title, "is told", f"{call} {said}")
        self._transaction.said(said, self._world.scheduler.now_ms - self._asked_ms)
        if said is Said.DONE and self._transaction.next is not None:
            self._world.faults.while_open(self._shell)
        self._go_on()

    # ---- what the brokers do -------------------------------------------------------------------

    def _renew(self, epoch: int, reply: Callable[[Said], object]) -> None:
        del epoch

        def told(given: int) -> None:
            if reply is not _unheard:
                self._epoch = given
            reply(Said.DONE)

        self._world.transactions.init(self._id, told)

    def _effects(self, epoch: int, reply: Callable[[Said], object]) -> None:
        """Open the transaction by its first record, or, without effects, later."""
        action = self._action
        assert action is not None
        effects = [it for result in action.results for it in result.effects]
        if not effects:
            reply(Said.DONE)
            return
        number = self._asked
        refused = self._first_refused(action.results)

        def produced(opened: Opened) -> None:
            if opened.is_over or number != self._asked:
                reply(Said.BROKEN)
                return
            if refused is not None:
                self._refused = refused
                reply(Said.REFUSED)
                return
            if not (opened.effects or opened.letters):
                opened.effects += of_ended(effects)
                opened.letters += [it for it in effects if isinstance(it, SimLetter)]
                if self._shell.state is not None:
                    self._written = self._shell.state.produce(opened, action.results)
            reply(Said.DONE)

        def told(opened: Opened | None) -> None:
            if opened is None or opened.is_over or number != self._asked:
                reply(Said.BROKEN)
                return
            self._opened = opened
            wait_ms = self._world.wait_for_leader_ms()
            if wait_ms:
                self._world.happened("outputs wait")
                self._world.faults.while_open(self._shell, 0.5)
                wait_ms = self._world.brokers.reach(wait_ms)
                self._world.scheduler.after(wait_ms, lambda: produced(opened))
            else:
                produced(opened)

        self._world.transactions.add(self._id, epoch, told)

    def _first_refused(self, results: Sequence[Result]) -> tuple[Record, str] | None:
        """The first record of which a topic refuses something, and that topic."""
        outputs, config = self._world.outputs, self._shell.config
        for record, left in results:
            tp = record.tenure.tp
            letters = config.dead_letter_topic_for(tp.topic)
            for effect in left:
                is_letter = isinstance(effect, SimLetter)
                if outputs.refuses(tp, record.offset, is_letter=is_letter):
                    return record, letters if is_letter else "outputs"
        return None

    def _progress(self, epoch: int, reply: Callable[[Said], object]) -> None:
        action = self._action
        assert action is not None

        number, world = self._asked, self._world

        def told(opened: Opened | None) -> None:
            is_lost = self._opened is not None and opened is not self._opened
            if is_lost or opened is None or number != self._asked:
                reply(Said.BROKEN)
                return
            self._opened, self._offsets = opened, []
            if any(len(value or b"") > world.scenario.log_bytes for _, value in action.entries):
                world.happened("record refused for its size")
                self._error = TooLarge
                reply(Said.REFUSED)
                return
            for partition, entries in action.appends.items():
                offsets = self._world.transactions.append(opened, partition, entries)
                if offsets is None:
                    reply(Said.BROKEN)
                    return
                self._offsets += offsets
            reply(Said.DONE)

        self._world.transactions.add(self._id, epoch, told)

    def _fence_entry(self, epoch: int, reply: Callable[[Said], object]) -> None:
        del epoch
        reply(Said.DONE if self._is_taken() else Said.STALE)

    def _is_taken(self) -> bool:
        """Whether the group's coordinator takes the offsets of the commit under way."""
        assert self._action is not None
        metadata = self._action.metadata
        return self._world.coordinator.takes(metadata.member_id, metadata.generation)

    def _end(self, epoch: int, reply: Callable[[Said], object], *, commit: bool) -> None:
        if self._opened is None and not commit:
            reply(Said.DONE)  # nothing was sent
            return
        is_ended = self._world.transactions.end(self._id, epoch, commit=commit)
        reply(Said.DONE if is_ended else Said.BROKEN)

    _calls = {  # noqa: RUF012 - nobody changes it
        TransactionCall.RENEW: _renew,
        TransactionCall.EFFECTS: _effects,
        TransactionCall.PROGRESS: _progress,
        TransactionCall.OFFSETS: _fence_entry,
        TransactionCall.COMMIT: lambda it, *asked: it._end(*asked, commit=True),
        TransactionCall.ABORT: lambda it, *asked: it._end(*asked, commit=False),
    }

    # ---- the end -------------------------------------------------------------------------------

    def _ended(self) -> None:
        action, outcome = self._action, self._transaction.outcome
        assert action is not None
        self._must_renew, self._action = self._transaction.must_renew, None
        assert outcome is not None
        self._world.happened("transaction " + outcome.name.lower().replace("_", " "))
        error = self._error
        match outcome:
            case Outcome.COMMITTED:
                self._count(self._written)
                self._shell.handle(events.CommitDone(action.token, self._offsets))
            case Outcome.IN_DOUBT:
                self._doubtful = self._written
                self._shell.handle(events.CommitInDoubt(action.token, self._offsets))
            case _ if self._refused is not None:
                record, topic = self._refused
                self._world.happened("output refused")
                self._world.checker.handlers.output_refused(record)
                self._shell.handle(events.OutputRefused(action.token, record, topic, TooLarge))
            case Outcome.STALE:
                why = events.Refusal.STALE
                self._shell.handle(events.CommitRefused(action.token, error, why))
            case _:
                why = events.Refusal.RETRY
                self._shell.handle(events.CommitRefused(action.token, error, why))

    def doubt_ended(self, action: actions.DoubtEnded) -> None:
        """The log has told what became of the last commit."""
        written, self._doubtful = self._doubtful, []
        self._count(written if action.is_committed else [])

    def _count(self, written: list[tuple[Write, int]]) -> None:
        """Writes of keyed state are committed."""
        if self._shell.state is not None:
            self._shell.state.committed(written)


def _unheard(said: Said) -> None:
    """Nobody hears the answer to a late request."""
