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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from coop_consumer.core import events
from coop_consumer.core.actions import Commit, DoubtEnded
from coop_consumer.core.effects import Output, Result
from coop_consumer.core.failure import describe
from coop_consumer.core.transaction import Outcome, Said, Transaction, TransactionCall
from coop_consumer.errors import (
    CoopConsumerError,
    ProgressLogLostError,
    RecordTooLargeError,
    SetupError,
    Told,
    TransactionAbortedError,
    WorkerFlushError,
)
from coop_consumer.kafka.acked import Delivered
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.group_metadata import encoded
from coop_consumer.kafka.output_writer import produce_output
from coop_consumer.kafka.translate import translated
from coop_consumer.log_filter import whatever_a_log_does

log = logging.getLogger(__name__)

_CALL_S = 10.0
_POLL_S = 0.1
_AGAIN_S = 0.1
_LAST_WORDS_S = _SERVED_S = 1.0
_STALE = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
)
"""The group's coordinator does not take the offsets of this member, or of this generation."""


def transactional_id(prefix: str, group: str, member: str, incarnation: int) -> str:
    """The id of a run of a member. Whoever reads its progress can tell it from the key."""
    return f"{prefix}{group}-{member}-{incarnation:x}"


class TransactedState(Protocol):
    """Keyed state, as a transaction takes it along."""

    def last_of(self, results: Sequence[Result]) -> Sequence[Any]:
        """Of each key the last write among these."""

    def produce(self, producer: Producer, write: Any, delivered: Delivered) -> None:
        """Hand a write to a Producer, with what hears its report."""

    def committed(self, written: Sequence[tuple[Any, int]]) -> None:
        """These count from now on, each at its offset."""

    def served(self) -> None:
        """Time has passed; called once a second and more often."""


@dataclass(slots=True)
class _Waited:
    """Records that were handed to a Producer, until each is acknowledged."""

    missing: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    failure: tuple[KafkaError, str] | None = None

    def report_to(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        """What hears what has become of a record."""
        self.missing += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            self.missing -= 1
            if error is None:
                self.offsets[number] = message.offset() or 0
            elif self.failure is None:
                self.failure = error, message.topic() or ""

        return delivered


class _Client:
    """A Producer, and the calls that a transaction makes of it. Used by one thread.

    Attributes:
        offsets: Where the entries of the last `progress` lie.
        written: The writes of keyed state in the last `effects`, and where they lie.
        why: What went wrong last, for people.
        final: What makes each further transaction fail as well.
        too_large: The log refuses a record of this size; a smaller one may pass.
    """

    def __init__(
        self, settings: dict[str, Any], group: str, topic: str, state: TransactedState | None
    ) -> None:
        self._settings = settings
        self._group, self._topic = group, topic
        self._state = state
        self._user = str(settings.get("sasl.username", ""))
        self._producer: Producer | None = None
        self._is_ready = False
        self.offsets: list[int] = []
        self.written: list[tuple[Any, int]] = []
        self.why = ""
        self.final: CoopConsumerError | None = None
        self.too_large: RecordTooLargeError | None = None

    def forget(self) -> None:
        """Another transaction begins: it may succeed."""
        self.offsets, self.written = [], []
        self.why, self.final, self.too_large = "", None, None

    # ---- the calls -----------------------------------------------------------------------------

    def renew(self) -> Said:
        """Make a new Producer, unless one is being made, and get its epoch."""
        if self._is_ready:
            self.leave()
        if self._producer is None:
            self._producer = Producer(self._settings, logger=client_log)
        said = self._said(lambda: self._at_work.init_transactions(_CALL_S))
        self._is_ready = said is Said.DONE
        if said is Said.BROKEN:
            self.leave()
        return said

    def begin(self) -> Said:
        """Open a transaction; nothing is sent."""
        return self._said(self._at_work.begin_transaction)

    def effects(self, action: Commit) -> Said:
        """Produce what handlers have sent and put, and wait until brokers have it."""
        sent = [it for result in action.results for it in result.effects]
        outputs = [it for it in sent if isinstance(it, Output)]
        state = self._state
        writes = [] if state is None else state.last_of(action.results)

        def produce(effect: Any, delivered: Delivered) -> None:
            if isinstance(effect, Output):
                produce_output(self._at_work, effect, delivered)
            elif state is not None:
                state.produce(self._at_work, effect, delivered)

        waited = _Waited()
        said = self._produced(waited, iter([*outputs, *writes]), produce)
        if said is Said.DONE:
            first = len(outputs)
            self.written = [(it, waited.offsets[first + n]) for n, it in enumerate(writes)]
        return said

    def progress(self, action: Commit) -> Said:
        """Produce the entries of the log, and wait until brokers have them."""
        entries = (
            (number, key, value) for number, of in action.appends.items() for key, value in of
        )

        def produce(entry: tuple[int, bytes, bytes | None], delivered: Delivered) -> None:
            number, key, value = entry
            self._at_work.produce(self._topic, value, key, number, on_delivery=delivered)

        waited = _Waited()
        said = self._produced(waited, entries, produce)
        self.offsets = [offset for _, offset in sorted(waited.offsets.items())]
        return said

    def fence_entry(self, action: Commit) -> Said:
        """Send one offset, by which the coordinator checks member and generation.

        It lies in the progress topic: offsets of data partitions are mirrored by their leads.
        """
        assert action.metadata.generation >= 0, "I9: a transaction of no member"
        member = encoded(self._group, action.metadata)
        number, entries = next(iter(action.appends.items()))
        at = Place(self._topic, number, self.offsets[len(entries) - 1] + 1)
        return self._said(lambda: self._at_work.send_offsets_to_transaction([at], member, _CALL_S))

    def commit(self) -> Said:
        """Ask for the commit."""
        return self._said(lambda: self._at_work.commit_transaction(_CALL_S), Said.BROKEN)

    def abort(self) -> Said:
        """Abort: what was produced is never visible."""
        return self._said(lambda: self._at_work.abort_transaction(_CALL_S), Said.BROKEN)

    def leave(self) -> None:
        """Use this Producer no more."""
        producer, self._producer, self._is_ready = self._producer, None, False
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                producer.flush(0)

    # ---- what it says --------------------------------------------------------------------------

    @property
    def _at_work(self) -> Producer:
        assert self._producer is not None, "I9: no Producer has its epoch"
        return self._producer

    def _said(self, call: Callable[[], object], otherwise: Said = Said.REFUSED) -> Said:
        try:
            call()
        except KafkaException as error:
            return self._of(error.args[0], f"transactional.id {self._id}", otherwise)
        return Said.DONE

    @property
    def _id(self) -> str:
        return str(self._settings["transactional.id"])

    def _of(self, error: KafkaError, where: str, otherwise: Said) -> Said:
        self.why = f"{where}: {error.str()}"
        if error.code() in _STALE:
            return Said.STALE
        reason = translated(error, where, self._user, "write")
        if isinstance(reason, RecordTooLargeError) and where == f"topic {self._topic}":
            self.too_large = reason
        elif isinstance(reason, SetupError):
            self.final = reason
        if error.fatal():
            return Said.BROKEN
        if error.txn_requires_abort():
            return Said.REFUSED
        return Said.AGAIN if error.retriable() else otherwise

    def _produced(
        self, waited: _Waited, items: Iterator[Any], produce: Callable[[Any, Delivered], None]
    ) -> Said:
        topic = self._topic
        try:
            for number, item in enumerate(items):
                topic = item.topic if isinstance(item, Output) else topic
                report = waited.report_to(number)
                while waited.failure is None:
                    try:
                        produce(item, report)
                        break
                    except BufferError:
                        self._at_work.poll(_POLL_S)
            while waited.missing and waited.failure is None:
                self._at_work.poll(_POLL_S)
        except KafkaException as error:  # a poll raises what is fatal
            return self._of(error.args[0], f"topic {topic}", Said.REFUSED)
        if waited.failure is None:
            return Said.DONE
        refused, topic = waited.failure
        return self._of(refused, f"topic {topic}", Said.REFUSED)


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
        flush: Makes durable what the user's code has buffered; None: it buffers nothing.
        state: Keyed state; None: handlers keep none.
    """

    settings: dict[str, Any]
    group: str
    topic: str
    tell: Callable[[events.Event], None]
    died: Callable[[Exception], None]
    _: KW_ONLY
    flush: Callable[[], object] | None = None
    state: TransactedState | None = None

    def __post_init__(self) -> None:
        self._name = f"coop-transact-{self.group}"
        self._hangs_s = 2 * float(self.settings["transaction.timeout.ms"]) / 1_000
        self._waiting: SimpleQueue[Commit | DoubtEnded | Told | None] = SimpleQueue()
        self._client, self._caller = self._new_client(), _Caller(f"{self._name}-calls")
        self._must_renew = True
        self._ends_at_s: float | None = None
        self._broken: CoopConsumerError | None = None  # a flush has failed, the last one
        self._step = ""
        self._doubtful: dict[int, list[tuple[Any, int]]] = {}  # writes by commit
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _new_client(self) -> _Client:
        return _Client(self.settings, self.group, self.topic, self.state)

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
        return self._step

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
        self._step = "the worker's flush(). Look what that waits for"
        try:
            self.flush()
        # Catch everything, sys.exit() too: this thread must not end while commits wait for it.
        except BaseException as cause:
            with whatever_a_log_does():
                log.exception("group %s: flush failed", self.group)
            self._broken = WorkerFlushError(self.group, describe(cause))
        return self._broken

    def _transact(self, action: Commit) -> events.Event:
        transaction = Transaction(renew=self._must_renew)
        self._client.forget()
        while (call := transaction.next) is not None:
            self._step = f"the brokers, at {call.name.lower()} of a transaction"
            began_s = monotonic()
            said = self._asked(call, action)
            transaction.said(said, int((monotonic() - began_s) * 1_000))
            if call is TransactionCall.RENEW and said is not Said.DONE:
                if self._client.final is not None or self._is_over:
                    break
                threading.Event().wait(_AGAIN_S)
        self._must_renew = transaction.must_renew or transaction.next is not None
        return self._told(action, transaction.outcome)

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
        said = self._caller.call(calls[call], self._hangs_s)
        if said is not None:
            return said
        log.error(
            "group %s: %s of a transaction has not returned for %.0f s: it is left behind, with "
            "its Producer; a new one goes on",
            self.group, call.name.lower(), self._hangs_s,
        )  # fmt: skip
        left, self._client = self._client, self._new_client()
        self._caller = _Caller(f"{self._name}-calls")
        self._client.offsets, self._client.written = left.offsets, left.written
        self._client.why = f"{call.name.lower()} hangs"
        return Said.BROKEN

    def _told(self, action: Commit, outcome: Outcome | None) -> events.Event:
        client, token = self._client, action.token
        if outcome is Outcome.COMMITTED:
            self._count(client.written)
            return events.CommitDone(token, client.offsets)
        if outcome is Outcome.IN_DOUBT:
            self._doubtful[token] = client.written
            return events.CommitInDoubt(token, client.offsets)
        aborted = client.too_large or TransactionAbortedError(self.group, client.why)
        if outcome is Outcome.STALE:
            return events.CommitRefused(token, aborted, events.Refusal.STALE)
        if client.final is not None:
            is_lost = isinstance(client.final, ProgressLogLostError)
            why = events.Refusal.LOST if is_lost else events.Refusal.FINAL
            return events.CommitRefused(token, client.final, why)
        return events.CommitRefused(token, aborted, events.Refusal.RETRY)
