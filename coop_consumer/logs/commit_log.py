"""The commit log: a state machine whose every change is in one partition first.

In: records that callers append, and questions about the state. Out: answers, once the records are
committed and applied. Many callers share an append, and there is one at a time. Several processes
may have the same log: an append that did not know the newest record is a `Conflict`, and changes
nothing. So who leads is a hint that keeps conflicts rare. Nothing rests on it.

One thread ("coop-log-TOPIC-PARTITION") makes all calls of the log and of the state machine.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Self, TypeVar

from assignors import TopicPartition
from coop_consumer import forks
from coop_consumer.config import Config
from coop_consumer.errors import (
    AppendInDoubtError,
    CoopConsumerError,
    MisuseError,
    RecordRefusedError,
    RecordTooLargeError,
    StateMachineError,
)
from coop_consumer.logs.appender import TIMEOUT_S, check_size
from coop_consumer.logs.memory_log import MemoryClient, MemoryPartition
from coop_consumer.logs.port import TransactionalLog
from coop_consumer.logs.records import Conflict, LogToken, NewRecord
from coop_consumer.logs.replica import Replica
from coop_consumer.logs.snapshots import SnapshotStore
from coop_consumer.logs.state_machine import StateMachine

T = TypeVar("T")
Check = Callable[[], object | None]
"""Whether records may be appended, by the state as it is; anything but None says why not."""

SHARED_MAX = 10_000
"""Records of one append that several callers share."""
FOLLOW_S = 0.05


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


AppendAnswer = Applied | Conflict | Denied


@dataclass(slots=True, eq=False)
class _Append:
    records: Sequence[NewRecord]
    check: Check | None
    answer: Future[Any] = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class _Asking:
    ask: Callable[[], object]
    is_synced: bool
    answer: Future[Any] = field(default_factory=Future)


class _End:
    """The last thing that the thread is asked for."""


class CommitLog:
    """A state machine over one partition.

    Make one with `open`, or with `in_memory`.

    Args:
        log: The client; nobody else uses it.
        machine: The user's state.
        snapshots: Where snapshots are kept; None: nowhere.

    Raises:
        SnapshotError, StateMachineError: The state cannot be restored.
        CoopConsumerError: The log cannot be read.
    """

    def __init__(
        self,
        log: TransactionalLog,
        machine: StateMachine,
        snapshots: SnapshotStore | None = None,
    ) -> None:
        self._log = log
        topic, partition = log.place
        self._name = f"{topic}-{partition}"
        self._replica = Replica(log, machine, snapshots)
        self._asked: SimpleQueue[_Append | _Asking | _End] = SimpleQueue()
        self._follow_s: float | None = None
        self._is_closed = self._is_fork = False
        self._closing = threading.Lock()  # guards the end: nothing is asked for behind it
        try:
            self._replica.bootstrap()
        except BaseException:
            log.close()
            raise
        self._thread = threading.Thread(
            target=self._run, name=f"coop-log-{self._name}", daemon=True
        )
        forks.watch(self)
        self._thread.start()

    @classmethod
    def open(
        cls,
        config: Config | Mapping[str, object],
        topic: str,
        partition: int,
        name: str,
        machine: StateMachine,
    ) -> Self:
        """A commit log on Kafka, with the newest snapshot and all of the log applied. Blocks.

        Args:
            config: Settings of the clients, or a dict of them; its group is not used.
            topic: An existing topic. Snapshots go to `<topic>-snapshots`.
            partition: Of the topic.
            name: Of this process; part of its transactional.id. Processes that work at the same
                time have names of their own.
            machine: The state, as it is without any record.

        Raises:
            ConfigError, TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
            SnapshotError, StateMachineError: The state cannot be restored.
        """
        from coop_consumer.logs.kafka_log import KafkaLog, config_of  # noqa: PLC0415 - see below
        from coop_consumer.logs.snapshot_topic import SnapshotTopic  # noqa: PLC0415

        # Not above: a commit log in memory needs none of Kafka's clients.
        checked, tp = config_of(config, name), TopicPartition(topic, partition)
        log = KafkaLog(checked, tp, name)
        return cls(log, machine, SnapshotTopic(checked, tp, log.topics))

    @classmethod
    def in_memory(
        cls,
        partition: MemoryPartition,
        name: str,
        machine: StateMachine,
        snapshots: SnapshotStore | None = None,
    ) -> Self:
        """A commit log over a partition in memory, which several may share.

        Args:
            partition: Made with a lock, if threads share it.
            name: Of this one among those that share it.
            machine: The state, as it is without any record.
            snapshots: Where snapshots are kept; None: nowhere.
        """
        return cls(MemoryClient(partition, name), machine, snapshots)

    # ---- what callers ask ----------------------------------------------------------------------

    @property
    def token(self) -> LogToken:
        """The last record that is applied."""
        return self._replica.token

    def append(
        self,
        records: Sequence[NewRecord],
        *,
        check: Check | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> AppendAnswer:
        """Append records, and wait until they are committed and applied.

        All of them are in the log, one behind the other, or none is. Other callers' records may
        share the append.

        Args:
            records: From 1 to 100,000, of up to 64 MiB together.
            check: Called on the log's thread, when the state has taken in all earlier records. If
                it returns anything but None, nothing is appended.
            timeout_s: How long to wait.

        Returns:
            `Applied`; or `Denied`; or `Conflict`: others have appended meanwhile. What they have
            appended is applied, and nothing of this call is in the log. Ask whether this process
            still leads, or try again.

        Raises:
            AppendTooLargeError, RecordTooLargeError, RecordRefusedError: Nothing is in the log.
            AppendInDoubtError: Nobody knows whether it is in the log; a later `read` tells.
            StateMachineError: The state is not usable any more.
            CoopConsumerError: Anything else: nothing is in the log.
        """
        return self._waited(self.append_later(records, check=check), timeout_s)

    def append_later(
        self, records: Sequence[NewRecord], *, check: Check | None = None
    ) -> Future[AppendAnswer]:
        """As `append`, without waiting: the future gets what `append` returns or raises."""
        check_size(records, self._log.place)
        asked = _Append(records, check)
        self._put(asked)
        return asked.answer

    def read(self, look: Callable[[], T], *, timeout_s: float = TIMEOUT_S) -> T:
        """Look at the state when it has all that was in the log when this was called.

        So it sees whatever anybody's append has been answered for. It costs a question to the
        broker, which all readers that wait share.

        Args:
            look: Called on the log's thread; what it returns is returned. It must not block.
            timeout_s: How long to wait.

        Raises:
            LogBlockedError: Somebody's transaction is undecided for that long.
            CoopConsumerError: The log cannot be read.
            BaseException: What `look` raises.
        """
        return self._waited(self.read_later(look), timeout_s)

    def read_later(self, look: Callable[[], T]) -> Future[T]:
        """As `read`, without waiting."""
        asked = _Asking(look, is_synced=True)
        self._put(asked)
        return asked.answer

    def peek(self, look: Callable[[], T], *, timeout_s: float = TIMEOUT_S) -> T:
        """Look at the state as it is. Others may have appended long since: it may be old."""
        asked = _Asking(look, is_synced=False)
        self._put(asked)
        found: T = self._waited(asked.answer, timeout_s)
        return found

    def sync(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Apply all that is in the log when this is called; raises as `read`."""
        self.read(lambda: None, timeout_s=timeout_s)

    def follow(self, interval_s: float = FOLLOW_S) -> None:
        """From now on apply what others append, so often, also while nobody asks."""
        self._follow_s = interval_s
        self._put(_Asking(lambda: None, is_synced=False))

    def snapshot(self, *, timeout_s: float = TIMEOUT_S) -> LogToken:
        """Keep the state as a snapshot, with which the next one of this log begins.

        Nothing is appended meanwhile.

        Returns:
            The last record that it has taken in. What lies below may be deleted from the log.
        """
        asked = _Asking(self._replica.snapshot, is_synced=False)
        self._put(asked)
        found: LogToken = self._waited(asked.answer, timeout_s)
        return found

    def _put(self, asked: _Append | _Asking) -> None:
        if self._is_fork:
            raise forks.misuse("this call", f"commit log {self._name}")
        with self._closing:
            if not self._is_closed:
                self._asked.put(asked)
                return
        raise MisuseError("this call", f"commit log {self._name} is closed", "Open it again")

    def _waited(self, answer: Future[T], timeout_s: float) -> T:
        try:
            return answer.result(timeout_s)
        except TimeoutError:
            if answer.done():
                raise  # it is what was raised
            topic, partition = self._log.place
            raise AppendInDoubtError(
                topic, partition, b"", f"no answer within {timeout_s:g} s"
            ) from None

    def close(self) -> None:
        """Answer what was asked, and close the clients."""
        if self._is_fork:
            return
        with self._closing:
            is_first, self._is_closed = not self._is_closed, True
        if is_first:
            self._asked.put(_End())
        self._thread.join()

    def shut_in_fork(self) -> None:
        """Refuse calls in a forked child: thread and clients are its parent's."""
        forks.keep(self._log, self._replica)
        self._is_fork = True

    def __enter__(self) -> Self:
        """Return the log: it is ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    # ---- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        appends: deque[_Append] = deque()
        is_over = False
        while not is_over or appends:
            questions, is_over = self._next(appends, is_over=is_over)
            self._answer(questions)
            if appends:
                self._append(self._shared(appends))
        self._log.close()

    def _next(self, appends: deque[_Append], *, is_over: bool) -> tuple[list[_Asking], bool]:
        """All that was asked meanwhile; waits, if there is nothing to do."""
        questions: list[_Asking] = []
        may_wait = not appends and not is_over
        with suppress(Empty):
            while True:
                asked = self._asked.get(block=may_wait, timeout=self._follow_s)
                may_wait = False
                if isinstance(asked, _Append):
                    appends.append(asked)
                elif isinstance(asked, _Asking):
                    questions.append(asked)
                else:
                    is_over = True
        if may_wait:  # nothing was asked for so long
            with suppress(CoopConsumerError):  # whoever asks next gets the error
                self._replica.catch_up()
        return questions, is_over

    def _answer(self, questions: Sequence[_Asking]) -> None:
        failure: BaseException | None = self._replica.broken
        if any(it.is_synced for it in questions) and failure is None:
            failure = self._failure_of(self._replica.sync)
        for it in questions:
            if failure is not None and (it.is_synced or isinstance(failure, StateMachineError)):
                it.answer.set_exception(failure)
                continue
            try:
                found = it.ask()
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

    def _shared(self, appends: deque[_Append]) -> list[_Append]:
        """The appends that share the next one. One with a check comes first: it sees all before."""
        found = [appends.popleft()]
        count = len(found[0].records)
        while appends and appends[0].check is None:
            count += len(appends[0].records)
            if count > SHARED_MAX:
                break
            found.append(appends.popleft())
        return found

    def _append(self, shared: list[_Append]) -> None:
        if shared[0].check is not None and not self._is_allowed(shared[0], shared[0].check):
            del shared[0]
        if not shared:
            return
        records = [record for it in shared for record in it.records]
        try:
            found = self._replica.append(records)
        except (RecordTooLargeError, RecordRefusedError) as error:
            if len(shared) > 1:  # it is the fault of one of them
                for it in shared:
                    self._append([_Append(it.records, None, it.answer)])
            else:
                shared[0].answer.set_exception(error)
        except Exception as error:  # noqa: BLE001 - it goes to whoever has asked
            for it in shared:
                it.answer.set_exception(_without_id(error))
        else:
            self._answer_appends(shared, found)

    def _is_allowed(self, asked: _Append, check: Check) -> bool:
        """Ask the check; answers for it, unless its records may be appended."""
        try:
            reason = self._checked(check)
        except Exception as error:  # noqa: BLE001 - it goes to whoever has asked
            asked.answer.set_exception(error)
            return False
        if reason is not None:
            asked.answer.set_result(Denied(reason))
        return reason is None

    def _answer_appends(
        self, shared: Sequence[_Append], found: Sequence[object] | Conflict
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
