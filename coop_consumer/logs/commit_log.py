"""The commit log: a state machine whose every change is in one partition first.

In: records that callers append, and questions about the state. Out: answers, once the records are
committed and applied. Many callers share an append, and there is one at a time. Several processes
may have the same log: an append that did not know the newest record is a `Conflict`, and changes
nothing. So who leads is a hint that keeps conflicts rare. Nothing rests on it.

One thread ("coop-log-TOPIC-PARTITION") makes all calls of the log and of the state machine.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Self, TypeVar

from assignors import TopicPartition
from coop_consumer import forks
from coop_consumer.arguments import a_function, a_name, instance, seconds
from coop_consumer.config import Config, Settings
from coop_consumer.config.setting import shown
from coop_consumer.errors import AppendInDoubtError, MisuseError
from coop_consumer.log_events import LogEvent
from coop_consumer.logs.appender import TIMEOUT_S, check_size
from coop_consumer.logs.log_thread import (
    Applied,
    AskedAppend,
    AskedLook,
    Check,
    Denied,
    LogThread,
)
from coop_consumer.logs.memory_log import MemoryClient, MemoryPartition
from coop_consumer.logs.port import TransactionalLog
from coop_consumer.logs.records import Conflict, LogToken, NewRecord
from coop_consumer.logs.replica import Replica
from coop_consumer.logs.snapshots import SnapshotStore
from coop_consumer.logs.state_machine import StateMachine

_log = logging.getLogger(__name__)

T = TypeVar("T")
AppendAnswer = Applied | Conflict | Denied

FOLLOW_S = 0.05


def _check_machine(machine: object) -> None:
    methods = ("apply", "snapshot", "restore")
    missing = [it for it in methods if not callable(getattr(machine, it, None))]
    if isinstance(machine, type):
        problem = f"{machine.__name__} is a class, and no state machine"
    elif missing:
        problem = f"{shown(machine)} has no {', '.join(missing)}"
    else:
        return
    remedy = "Give an object with the methods apply, snapshot and restore, as of StateMachine"
    raise MisuseError("CommitLog", problem, remedy)


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
        self._is_closed = self._is_fork = False
        self._closing = threading.Lock()  # guards the end: nothing is asked for behind it
        try:
            _check_machine(machine)
            self._replica.bootstrap()
        except BaseException:
            log.close()
            raise
        self._thread = LogThread(self._replica, name=f"coop-log-{self._name}", ended=log.close)
        forks.watch(self)

    @classmethod
    def open(
        cls,
        config: Config | Settings | Mapping[str, object],
        topic: str,
        partition: int,
        name: str,
        machine: StateMachine,
    ) -> Self:
        """A commit log on Kafka, with the newest snapshot and all of the log applied. Blocks.

        Args:
            config: Settings of the clients, or a dict of them; its group is not used.
            topic: An existing topic, whose retention removes nothing that no snapshot has taken
                in. It is not compacted, unless only the last record of each key counts for the
                state. Snapshots go to `<topic>-snapshots`.
            partition: Of the topic.
            name: Of this process; part of its transactional.id. Processes that work at the same
                time have names of their own.
            machine: The state, as it is without any record.

        Raises:
            ConfigError, TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
            SnapshotError, StateMachineError: The state cannot be restored.
        """
        from coop_consumer.kafka.own_topics import what_deletes  # noqa: PLC0415 - see below
        from coop_consumer.logs.kafka_log import KafkaLog, config_of  # noqa: PLC0415
        from coop_consumer.logs.snapshot_topic import (  # noqa: PLC0415
            SNAPSHOT_WRITER,
            SnapshotTopic,
        )

        # Not above: a commit log in memory needs none of Kafka's clients.
        checked, tp = config_of(config, name), TopicPartition(topic, partition)
        if name == SNAPSHOT_WRITER:
            problem = f"name={name} is that of whoever writes snapshots"
            raise MisuseError("CommitLog.open()", problem, "Choose another name")
        log = KafkaLog(checked, tp, name)
        try:
            settings = log.topics.settings_of(topic)
        except BaseException:
            log.close()
            raise
        if deletes := what_deletes(settings):
            _log.warning(
                "%s: the topic has %s. A record that is removed before a snapshot has taken it in "
                "is lost, and without it the log cannot be opened any more. Set retention.ms=-1 "
                "and retention.bytes=-1 on it, or take snapshots more often than that",
                tp, deletes,
                extra=LogEvent.COMMIT_LOG_MAY_LOSE.extra(tp=tp),
            )  # fmt: skip
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

        Raises:
            MisuseError: An argument is none of these.
            SnapshotError, StateMachineError: The state cannot be restored.
        """
        call = "CommitLog.in_memory()"
        instance(call, partition, MemoryPartition)
        if snapshots is not None and not all(
            callable(getattr(snapshots, it, None)) for it in ("read", "write")
        ):
            remedy = "Give a store of snapshots, such as MemorySnapshots()"
            raise MisuseError(call, f"snapshots={shown(snapshots)}", remedy)
        return cls(MemoryClient(partition, a_name(call, name)), machine, snapshots)

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
        wait_s = seconds("append()", timeout_s)
        return self._waited(self.append_later(records, check=check), wait_s)

    def append_later(
        self, records: Sequence[NewRecord], *, check: Check | None = None
    ) -> Future[AppendAnswer]:
        """As `append`, without waiting: the future gets what `append` returns or raises.

        Raises:
            MisuseError, AppendTooLargeError: At once; nothing was asked for.
        """
        size = check_size(records, self._log.place)
        if check is not None:
            a_function("append()", check, "check")
        asked = AskedAppend(tuple(records), check, size)  # a caller may use its list again at once
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
            TimeoutError: There was no answer in time.
            LogBlockedError: Somebody's transaction is undecided for that long.
            CoopConsumerError: The log cannot be read.
            BaseException: What `look` raises.
        """
        wait_s = seconds("read()", timeout_s)
        return self._waited(self.read_later(look), wait_s, "read")

    def read_later(self, look: Callable[[], T]) -> Future[T]:
        """As `read`, without waiting."""
        a_function("read()", look, "look")
        asked = AskedLook(look, is_synced=True)
        self._put(asked)
        return asked.answer

    def peek(self, look: Callable[[], T], *, timeout_s: float = TIMEOUT_S) -> T:
        """Look at the state as it is. Others may have appended long since: it may be old.

        Args:
            look: Called on the log's thread, between two appends; what it returns is returned.
            timeout_s: How long to wait.

        Raises:
            TimeoutError: There was no answer in time.
            StateMachineError: The state is not usable any more.
            BaseException: What `look` raises.
        """
        a_function("peek()", look, "look")
        wait_s, asked = seconds("peek()", timeout_s), AskedLook(look, is_synced=False)
        self._put(asked)
        found: T = self._waited(asked.answer, wait_s, "peek")
        return found

    def sync(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Apply all that is in the log when this is called; raises as `read`."""
        self.read(lambda: None, timeout_s=timeout_s)

    def follow(self, interval_s: float = FOLLOW_S) -> None:
        """From now on apply what others append, so often, also while nobody asks.

        Raises:
            MisuseError: The interval is no time above 0.
        """
        often_s = seconds("follow()", interval_s)
        if not often_s or often_s < 0:
            raise MisuseError(
                "follow()", f"interval_s={shown(interval_s)}", "Give a number of seconds above 0"
            )
        self._put(AskedLook(lambda: self._thread.follow(often_s), is_synced=False))

    def snapshot(self, *, timeout_s: float = TIMEOUT_S) -> LogToken:
        """Keep the state as a snapshot, with which the next one of this log begins.

        Nothing is appended meanwhile.

        Returns:
            The last record that it has taken in. What lies below may be deleted from the log.

        Raises:
            SnapshotError: It has no place to go, or the one before is of a newer version.
            TimeoutError: There was no answer in time.
            CoopConsumerError: It could not be written.
        """
        wait_s = seconds("snapshot()", timeout_s)
        asked = AskedLook(self._replica.snapshot, is_synced=False)
        self._put(asked)
        found: LogToken = self._waited(asked.answer, wait_s, "snapshot")
        return found

    def _put(self, asked: AskedAppend | AskedLook) -> None:
        if self._is_fork:
            raise forks.misuse("this call", f"commit log {self._name}")
        with self._closing:
            if not self._is_closed:
                self._thread.ask(asked)
                return
        raise MisuseError("this call", f"commit log {self._name} is closed", "Open it again")

    def _waited(self, answer: Future[T], timeout_s: float | None, asked: str = "") -> T:
        """The answer; `asked` is what it answers, "" for an append, of which it may be in doubt."""
        if self._thread.is_here:
            raise MisuseError(
                "this call",
                f"the thread of commit log {self._name} would wait for itself",
                "Do not call its log from a state machine, a look or a check",
                "What was asked may still be done",
            )
        try:
            return answer.result(timeout_s)
        except TimeoutError:
            if answer.done():
                raise  # it is what was raised
            if asked:
                text = f"{asked} of commit log {self._name}: no answer within {timeout_s:g} s"
                raise TimeoutError(text) from None
            topic, partition = self._log.place
            raise AppendInDoubtError(
                topic, partition, b"", f"no answer within {timeout_s:g} s"
            ) from None

    def close(self) -> None:
        """Answer what was asked, and close the clients. May be repeated.

        It waits for that; while brokers are away, each append ends with an error after 50 s.

        Raises:
            MisuseError: The log's own thread calls it.
        """
        if self._is_fork:
            return
        if self._thread.is_here:
            raise MisuseError(
                "close()",
                f"the thread of commit log {self._name} would wait for itself",
                "Do not close a log from its state machine, a look or a check",
            )
        with self._closing:
            is_first, self._is_closed = not self._is_closed, True
        if is_first:
            self._thread.close()

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
