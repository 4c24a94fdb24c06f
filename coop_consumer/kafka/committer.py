"""The committer: makes a commit durable, and first all that the commit depends on.

In: appends and commits, as the core decides them. Out: one event for each, which says whether all
of it is durable. Two ways, by the group's guarantee:

`AtLeastOnce`: the user's code flushes its buffers, then effects are made durable, and only then the
commit is appended to the log. A crash in between repeats records, and loses none.

`ExactlyOnce`: the user's code flushes, and then effects and entries become visible together, in one
transaction (`kafka.transactor`). Entries that depend on nothing are appended outside of it: what
holds up an output must not hold up these.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coop_consumer.core import actions, events
from coop_consumer.core.dead_letter import letter_of
from coop_consumer.core.events import Refusal
from coop_consumer.core.failure import describe
from coop_consumer.errors import (
    CoopConsumerError,
    MemberLostError,
    ProgressLogLostError,
    SetupError,
    Told,
    WorkerFlushError,
)
from coop_consumer.kafka.log_writer import LogWriter
from coop_consumer.kafka.output_writer import NotWrittenError
from coop_consumer.log_events import LogEvent
from coop_consumer.log_filter import whatever_a_log_does

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.effects import Result
    from coop_consumer.kafka.transactor import Transactor

log = logging.getLogger(__name__)


class EffectsWriter(Protocol):
    """Writes effects of one kind."""

    def what(self) -> str:
        """What it writes, and where to; for people."""

    def write(self, results: Sequence[Result]) -> None:
        """Make its effects durable, those of a key in their order; blocks.

        Raises:
            NotWrittenError: A topic has refused one. Later ones may succeed.
            CoopConsumerError: They are not durable. Nothing that depends on them may be committed.
        """


class Committer(Protocol):
    """How a commit leaves. Only `close` blocks."""

    def append(self, action: actions.Append) -> None:
        """Append entries that depend on nothing; answered by `Appended` or `AppendFailed`."""

    def commit(self, action: actions.Commit) -> None:
        """Commit; answered by `CommitDone` or `CommitRefused`."""

    def when_durable(self, results: Sequence[Result], told: Told) -> None:
        """Make durable these, and what the user's code has buffered; `told` gets the outcome."""

    def dead_letter(self, action: actions.DeadLetter) -> None:
        """Produce the record to its dead-letter topic; answered by `DeadLettered`."""

    def doubt_ended(self, action: actions.DoubtEnded) -> None:
        """Take in what became of a commit in doubt, which only the log tells."""

    def waits_for(self, token: int) -> str:
        """What a commit under way waits for, and where to look; for people, without a full stop."""

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """Wait for pending work, up to the time-out; `lost`: drop what waits for the log."""


class _Call(NamedTuple):
    """A call that waits for a flush, and for what results have left behind.

    Attributes:
        results: These have to be durable.
        told: Gets the outcome.
        commit: The token, if it is a commit.
    """

    results: Sequence[Result]
    told: Told
    commit: int = 0


@dataclass(eq=False, repr=False)
class AtLeastOnce:
    """Flush, then effects, then the log.

    A thread of its own ("coop-flush") makes the first two steps, if they are needed. So a slow
    flush delays neither the member nor its workers. Calls that come during a flush share the next
    one: a commit waits for a flush that *began* after it came.

    Args:
        config: The member's.
        settings: Of the Producer that writes the log.
        tell: Takes an event; any thread.
        died: Takes the error that ended a thread unexpectedly: nothing is committed any more.
        flush: Makes durable what the user's code has buffered; None: it buffers nothing.
        effects: Write effects, each its own kind; none: handlers have none.
        flushed: Takes how many seconds each flush took.
    """

    config: Config
    settings: dict[str, Any]
    tell: Callable[[events.Event], None]
    died: Callable[[Exception], None]
    _: KW_ONLY
    flush: Callable[[], object] | None = None
    effects: Sequence[EffectsWriter] = ()
    flushed: Callable[[float], None] = lambda _: None

    def __post_init__(self) -> None:
        self._group = self.config.group_id
        self._commits: set[int] = set()  # tokens under way
        self._step = ""  # what the thread waits for
        self._waiting: SimpleQueue[_Call | None] = SimpleQueue()
        self._writer = LogWriter(
            self.settings,
            self.config.progress_log,
            self._answered,
            name=f"coop-commit-{self._group}",
            died=self.died,
        )
        self._thread: threading.Thread | None = None
        if self.flush is not None or self.effects:
            name = f"coop-flush-{self._group}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    # ---- what leaves ---------------------------------------------------------------------------

    def append(self, action: actions.Append) -> None:
        """See `Committer`; it need not wait for a flush."""
        self._writer.append(action.log_partition, action.entries, action.token)

    def commit(self, action: actions.Commit) -> None:
        """See `Committer`."""
        token = action.token
        ((log_partition, entries),) = action.appends.items()

        def told(error: CoopConsumerError | None) -> None:
            if error is None:
                self._commits.add(token)
                self._writer.append(log_partition, entries, token)
            else:
                why = Refusal.FENCED if isinstance(error, MemberLostError) else Refusal.FINAL
                self.tell(events.CommitRefused(token, error, why))

        self._flush_first(_Call(action.results, told, token))

    def when_durable(self, results: Sequence[Result], told: Told) -> None:
        """See `Committer`."""
        self._flush_first(_Call(results, told))

    def _flush_first(self, call: _Call) -> None:
        if self._thread is None:
            call.told(None)
        else:
            self._waiting.put(call)

    def _answered(self, event: events.Appended | events.AppendFailed) -> None:
        """On the writer's thread."""
        if event.token not in self._commits:
            self.tell(event)
            return
        self._commits.discard(event.token)
        if isinstance(event, events.Appended):
            self.tell(events.CommitDone(event.token, event.offsets))
            return
        why = Refusal.FINAL if event.is_final else Refusal.RETRY
        if event.is_final and isinstance(event.error, ProgressLogLostError):
            why = Refusal.LOST
        self.tell(events.CommitRefused(event.token, event.error, why))

    def dead_letter(self, action: actions.DeadLetter) -> None:
        """See `Committer`."""
        record = action.record
        letter = letter_of(record, action.error, action.attempts, self.config, action.trace)
        self._writer.produce(
            letter.topic,
            letter.key,
            letter.value,
            list(letter.headers),
            lambda error: self.tell(events.DeadLettered(record, error)),
        )

    def doubt_ended(self, action: actions.DoubtEnded) -> None:
        """See `Committer`."""
        raise AssertionError(f"no commit is ever in doubt here: {action}")

    def waits_for(self, token: int) -> str:
        """See `Committer`."""
        step = "" if token in self._commits else self._step
        return step or _brokers(f"the progress log {self.config.progress_log}")

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """See `Committer`; a running flush, and calls that wait for one, come first."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        self._writer.close(timeout_s, lost=lost)

    # ---- the thread that flushes ---------------------------------------------------------------

    def _run(self) -> None:
        error: CoopConsumerError | None = None
        while calls := self._next():
            # Never commit after a failure: a producer reports a lost message once, and its next
            # flush succeeds. A later commit would lose the records of that message.
            try:
                error = error or self._made_durable([it for of in calls for it in of.results])
            except NotWrittenError as what:
                self._refuse(calls, what)
                continue
            for call in calls:
                call.told(error)

    def _refuse(self, calls: Sequence[_Call], what: NotWrittenError) -> None:
        """A topic has refused an output: its record fails, and all of these go again.

        The output may belong to an earlier commit, so the first commit tells of it.
        """
        first = next((call for call in calls if call.commit), None)
        for call in calls:
            if call is first:
                refused = events.OutputRefused(call.commit, what.record, what.topic, what.reason)
                self.tell(refused)
            elif call.commit:
                self.tell(events.CommitRefused(call.commit, what.reason, Refusal.RETRY))
            else:  # user code is about to load what may not be there
                call.told(what.reason)

    def _next(self) -> list[_Call]:
        """All waiting calls, as soon as there is one; an empty list at the end."""
        calls = []
        call = self._waiting.get()
        while call is not None:
            calls.append(call)
            try:
                call = self._waiting.get_nowait()
            except Empty:
                return calls
        if calls:
            self._waiting.put(None)  # the end mark stays behind them
        return calls

    def _made_durable(self, results: Sequence[Result]) -> CoopConsumerError | None:
        try:
            if self.flush is not None:
                self._step = "the worker's flush(). Look what that waits for"
                began_s = monotonic()
                try:
                    self.flush()
                finally:
                    self.flushed(monotonic() - began_s)
            for writer in self.effects:
                self._step = _brokers(writer.what())
                writer.write(results)
        # It says itself what to do; the next owners repeat these records.
        except (MemberLostError, SetupError) as refused:
            return refused
        except NotWrittenError:
            raise
        # Catch everything, sys.exit() too: this thread must not end while commits wait for it.
        except BaseException as cause:
            failed = WorkerFlushError(self._group, describe(cause))
            with whatever_a_log_does():
                extra = LogEvent.FLUSH_FAILED.extra(group=self._group, error=cause)
                log.exception("%s", failed, extra=extra)
            return failed
        return None


@dataclass(eq=False, repr=False)
class ExactlyOnce:
    """Flush, then one transaction of effects and log.

    Args:
        config: The member's.
        settings: Of the Producer that appends what depends on nothing.
        transactor: Makes the transactions.
        tell: Takes an event; any thread.
        died: Takes the error that ended a thread unexpectedly.
    """

    config: Config
    settings: dict[str, Any]
    transactor: Transactor
    tell: Callable[[events.Event], None]
    died: Callable[[Exception], None]

    def __post_init__(self) -> None:
        self._writer = LogWriter(
            self.settings,
            self.config.progress_log,
            self.tell,
            name=f"coop-commit-{self.config.group_id}",
            died=self.died,
        )

    def append(self, action: actions.Append) -> None:
        """See `Committer`."""
        self._writer.append(action.log_partition, action.entries, action.token)

    def commit(self, action: actions.Commit) -> None:
        """See `Committer`; it may also be answered by `CommitInDoubt`."""
        self.transactor.commit(action)

    def when_durable(self, results: Sequence[Result], told: Told) -> None:
        """See `Committer`; there are no results that could be durable before their progress."""
        assert not results, "I9: results leave outside of a transaction"
        self.transactor.when_flushed(told)

    def dead_letter(self, action: actions.DeadLetter) -> None:
        """See `Committer`."""
        raise AssertionError(f"I9: a dead letter outside of a transaction: {action}")

    def doubt_ended(self, action: actions.DoubtEnded) -> None:
        """See `Committer`."""
        self.transactor.doubt_ended(action)

    def waits_for(self, token: int) -> str:
        """See `Committer`."""
        del token  # there is one at a time
        return self.transactor.waits_for()

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """See `Committer`."""
        self.transactor.close(timeout_s, lost=lost)
        self._writer.close(timeout_s, lost=lost)


def _brokers(what: str) -> str:
    return f"{what}. Look whether the brokers run, and at min.insync.replicas there"
