"""The transactor: a commit as one Kafka transaction, which counts once or not at all.

In: commits, as the core decides them, one at a time. Out: for each what has become of it:
`CommitDone`, `CommitRefused`, or `CommitInDoubt`, of which only the log tells. `Transaction`
decides what is asked of the Producer next; this asks.

One thread ("coop-transact") goes from call to call. The calls are made on another one, because
some of them ignore their time-out: one that does not return is left behind, with its thread and its
Producer. The next Producer of the same transactional.id ends what that one had open.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from coop_consumer.core import events
from coop_consumer.core.actions import Commit, DoubtEnded
from coop_consumer.core.effects import Output
from coop_consumer.core.failure import describe
from coop_consumer.core.record import Record
from coop_consumer.core.transaction import Outcome, Said, Transaction, TransactionCall
from coop_consumer.errors import (
    CoopConsumerError,
    ProgressLogLostError,
    RecordTooLargeError,
    Told,
    TransactionAbortedError,
    WorkerFlushError,
)
from coop_consumer.kafka.transaction_client import TransactedState, TransactionClient
from coop_consumer.log_events import LogEvent
from coop_consumer.log_filter import whatever_a_log_does
from coop_consumer.plain_text import command

log = logging.getLogger(__name__)

_AGAIN_S = 0.1
_CHECK_S = 5.0
"""librdkafka's `send_offsets_to_transaction` ignores its time-out, and waits for ever for a broker
that it has dropped, as it does once all connections were lost. Nothing was asked to be committed by
then, so it can be left behind."""
_LAST_WORDS_S = _SERVED_S = 1.0
_PATIENCE_S = 30.0
"""So long a topic of outputs may be gone, or a right to it, before the member ends."""


_WAITED_FOR = {
    TransactionCall.RENEW: "the brokers to serve its transactional.id",
    TransactionCall.BEGIN: "a transaction to begin",
    TransactionCall.EFFECTS: "the brokers to take outputs and state",
    TransactionCall.PROGRESS: "the brokers to take records of the progress log",
    TransactionCall.OFFSETS: "the group's coordinator to check this member",
    TransactionCall.COMMIT: "the brokers to commit its transaction",
    TransactionCall.ABORT: "the brokers to abort its transaction",
}


def _waited_for(call: TransactionCall, action: Commit) -> str:
    """What a call of a transaction waits for, for people. O(outputs)."""
    if call is not TransactionCall.EFFECTS:
        return _WAITED_FOR[call]
    topics = {it.topic for _, left in action.results for it in left if isinstance(it, Output)}
    return f"{_WAITED_FOR[call]} ({', '.join(sorted(topics)) or 'state alone'})"


def transactional_id(prefix: str, group: str, member: str, incarnation: int) -> str:
    """The id of a run of a member. Whoever reads its progress can tell it from the key."""
    return f"{prefix}{group}-{member}-{incarnation:x}"


class _Caller:
    """A thread that makes calls; one that does not return keeps it, and the next thread goes on."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, call: Callable[[], Said], timeout_s: float) -> Said | None:
        """What a call has returned; None: it has not returned in time.

        Raises:
            BaseException: What it has raised.
        """
        answer: SimpleQueue[Said | BaseException] = SimpleQueue()

        def run() -> None:
            try:
                answer.put(call())
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
                answer.put(error)

        self._calls.put(run)
        try:
            said = answer.get(timeout=timeout_s)
        except Empty:
            return None
        if isinstance(said, BaseException):
            raise said
        return said

    def end(self) -> None:
        """End the thread, once its calls have returned."""
        self._calls.put(None)

    def _run(self) -> None:
        while call := self._calls.get():
            call()


@dataclass(eq=False, repr=False)
class Transactor:
    """Makes commits as transactions.

    Args:
        settings: Of the Producer, with its `transactional.id`.
        group: The group's id.
        topic: The group's progress topic.
        tell: Takes an event; any thread.
        died: Takes the error that ended the thread unexpectedly: nothing is committed any more.
        batch_limit: How many bytes of a topic may be gathered, see `own_topics.batch_limit`.
        is_letter: Whether a topic is the dead-letter topic of a record's.
        is_unfit: Whether brokers say that a topic is missing, or may not be written to.
        flush: Makes durable what the user's code has buffered; None: it buffers nothing.
        state: Keyed state; None: handlers keep none.
        flushed: Takes how many seconds each flush took.
    """

    settings: dict[str, Any]
    group: str
    topic: str
    tell: Callable[[events.Event], None]
    died: Callable[[Exception], None]
    _: KW_ONLY
    batch_limit: Callable[[str], int | None] = lambda _: None
    is_letter: Callable[[Record, str], bool] = lambda *_: False
    is_unfit: Callable[[str], bool] = lambda _: False
    flush: Callable[[], object] | None = None
    state: TransactedState | None = None
    flushed: Callable[[float], None] = lambda _: None

    def __post_init__(self) -> None:
        self._name = f"coop-transact-{self.group}"
        self._hangs_s = 2 * float(self.settings["transaction.timeout.ms"]) / 1_000
        self._waiting: SimpleQueue[Commit | DoubtEnded | Told | None] = SimpleQueue()
        self._client, self._caller = self._new_client(), _Caller(f"{self._name}-calls")
        self._must_renew = True
        self._ends_at_s: float | None = None
        self._broken: CoopConsumerError | None = None  # a flush has failed, the last one
        self._unfit_since_s: float | None = None
        self._step: Callable[[], str] = str  # what is waited for, for people
        self._steps_ms: dict[TransactionCall, float] = {}
        self._doubtful: dict[int, list[tuple[Any, int]]] = {}  # writes by commit
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _new_client(self) -> TransactionClient:
        return TransactionClient(
            self.settings,
            self.group,
            self.topic,
            self.state,
            is_letter=self.is_letter,
            is_unfit=self.is_unfit,
        )

    # ---- what is asked of it -------------------------------------------------------------------

    def commit(self, action: Commit) -> None:
        """Make a transaction; answered by `CommitDone`, `CommitRefused` or `CommitInDoubt`."""
        self._waiting.put(action)

    def when_flushed(self, told: Told) -> None:
        """Let the user's code flush; `told` gets the outcome."""
        if self.flush is None:
            told(None)
        else:
            self._waiting.put(told)

    def doubt_ended(self, action: DoubtEnded) -> None:
        """Take in what became of a commit in doubt, before the next one is made."""
        self._waiting.put(action)

    def waits_for(self) -> str:
        """What the transaction under way waits for; for people."""
        return self._step()

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """Wait for what is under way, up to the time-out; `lost`: no longer than its next call."""
        self._ends_at_s = monotonic() + (0 if lost else timeout_s)
        self._waiting.put(None)
        self._thread.join()

    # ---- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (asked := self._next()) is not None:
                if isinstance(asked, DoubtEnded):
                    written = self._doubtful.pop(asked.token)
                    self._count(written if asked.is_committed else [])
                    continue
                failure = self._flushed()
                if not isinstance(asked, Commit):
                    asked(failure)
                elif failure is not None:
                    refused = events.CommitRefused(asked.token, failure, events.Refusal.FINAL)
                    self.tell(refused)
                else:
                    self.tell(self._transact(asked))
            self._caller.call(self._left, _LAST_WORDS_S)
            self._caller.end()
        except Exception as error:  # noqa: BLE001 - the member ends by it
            self.died(error)

    def _next(self) -> Commit | DoubtEnded | Told | None:
        while True:
            if self.state is not None:
                self.state.served()
            with suppress(Empty):
                return self._waiting.get(timeout=_SERVED_S)

    def _left(self) -> Said:
        self._client.leave()
        return Said.DONE

    def _count(self, written: list[tuple[Any, int]]) -> None:
        """Writes of keyed state are committed."""
        if self.state is not None and written:
            self.state.committed(written)

    def _flushed(self) -> CoopConsumerError | None:
        if self.flush is None or self._broken is not None:
            return self._broken
        self._step = lambda: "the worker's flush(). Look what that waits for"
        began_s = monotonic()
        try:
            self.flush()
        # Catch everything, sys.exit() too: this thread must not end while commits wait for it.
        except BaseException as cause:
            self._broken = WorkerFlushError(self.group, describe(cause))
            with whatever_a_log_does():
                extra = LogEvent.FLUSH_FAILED.extra(group=self.group, error=cause)
                log.exception("%s", self._broken, extra=extra)
        self.flushed(monotonic() - began_s)
        return self._broken

    def _transact(self, action: Commit) -> events.Event:
        transaction = Transaction(renew=self._must_renew)
        self._client.forget()
        self._steps_ms = {}
        while (call := transaction.next) is not None:
            self._step = partial(_waited_for, call, action)
            began_s = monotonic()
            said = self._asked(call, action)
            took_ms = (monotonic() - began_s) * 1_000
            self._steps_ms[call] = self._steps_ms.get(call, 0.0) + took_ms
            transaction.said(said, int(took_ms))
            if transaction.next is call:  # the same call again
                is_vain = call is TransactionCall.RENEW and self._client.final is not None
                if is_vain or self._is_over:
                    break
                threading.Event().wait(_AGAIN_S)
        self._must_renew = transaction.must_renew or transaction.next is not None
        self._look_at_batches()
        outcome = transaction.outcome
        if transaction.is_in_doubt:
            outcome = Outcome.IN_DOUBT  # the member ends: whoever comes next reads the log
        return self._told(action, outcome)

    @property
    def _is_over(self) -> bool:
        return self._ends_at_s is not None and monotonic() >= self._ends_at_s

    def _asked(self, call: TransactionCall, action: Commit) -> Said:
        client = self._client
        calls: dict[TransactionCall, Callable[[], Said]] = {
            TransactionCall.RENEW: client.renew,
            TransactionCall.BEGIN: client.begin,
            TransactionCall.EFFECTS: lambda: client.effects(action),
            TransactionCall.PROGRESS: lambda: client.progress(action),
            TransactionCall.OFFSETS: lambda: client.fence_entry(action),
            TransactionCall.COMMIT: client.commit,
            TransactionCall.ABORT: client.abort,
        }
        is_check = call is TransactionCall.OFFSETS
        hangs_s = min(self._hangs_s, _CHECK_S) if is_check else self._hangs_s
        said = self._caller.call(calls[call], hangs_s)
        if said is not None:
            return said
        check = command("doctor", "--group", self.group)
        log.error(
            "group %s: %s of a transaction has not returned for %.0f s: it is left behind, with "
            "its Producer; a new one goes on. Nothing is lost. Look at the brokers: `%s`",
            self.group, call.name.lower(), hangs_s, check,
            extra=LogEvent.TRANSACTION_CALL_HANGS.extra(group=self.group),
        )  # fmt: skip
        left, self._client = self._client, self._new_client()
        self._caller = _Caller(f"{self._name}-calls")
        self._client.offsets, self._client.written = left.offsets, left.written
        self._client.why = f"{call.name.lower()} hangs"
        return Said.BROKEN

    def _look_at_batches(self) -> None:
        """If it was a batch that is too large for a topic, gather less from now on."""
        client = self._client
        topic = self.topic
        error: CoopConsumerError | None = client.too_large
        if client.refused is not None:
            _, topic, error = client.refused
        if not isinstance(error, RecordTooLargeError):
            return
        try:
            limit = self.batch_limit(topic)
        except CoopConsumerError as unknown:
            extra = LogEvent.TRANSACTION_BATCH_UNKNOWN.extra(group=self.group, error=unknown)
            log.info("group %s: asked again later: %s", self.group, unknown, extra=extra)
            client.refused = client.too_large = None  # the next transaction ends here, too
            return
        if limit is not None and limit < self.settings["batch.size"]:
            self.settings = {**self.settings, "batch.size": limit}
            self._caller.call(self._left, _LAST_WORDS_S)
            self._client, self._must_renew = self._new_client(), True
            self._client.why = client.why

    def _is_unfit_for_long(self) -> bool:
        now_s = monotonic()
        self._unfit_since_s = self._unfit_since_s or now_s
        return now_s - self._unfit_since_s >= _PATIENCE_S

    def _told(self, action: Commit, outcome: Outcome | None) -> events.Event:
        client, token = self._client, action.token
        if outcome is Outcome.COMMITTED:
            self._unfit_since_s = None
            self._count(client.written)
            return events.CommitDone(token, client.offsets, self._steps_ms)
        if outcome is Outcome.IN_DOUBT:
            self._doubtful[token] = client.written
            return events.CommitInDoubt(token, client.offsets)
        if client.refused is not None:
            return events.OutputRefused(token, *client.refused)
        return events.CommitRefused(token, *self._refusal(outcome))

    def _refusal(self, outcome: Outcome | None) -> tuple[CoopConsumerError, events.Refusal]:
        """Why nothing of a transaction is visible."""
        client, why = self._client, events.Refusal.RETRY
        error: CoopConsumerError | None = client.too_large
        if client.unfit is not None and self._is_unfit_for_long():
            error, why = client.unfit, events.Refusal.FINAL
        elif outcome is Outcome.STALE:
            why = events.Refusal.STALE
        elif client.final is not None:
            is_lost = isinstance(client.final, ProgressLogLostError)
            error, why = client.final, events.Refusal.LOST if is_lost else events.Refusal.FINAL
        return error or TransactionAbortedError(self.group, client.why), why
