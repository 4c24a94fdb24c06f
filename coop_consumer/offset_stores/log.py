"""An offset store over commit logs: all or none, and compared before it is committed.

In: commits of any thread. Out: answers once they are in the log. Each partition of a topic is a
`CommitLog` whose state is an `OffsetTable`. A group's offsets lie in one partition, so all commits
of a group have one order. One append holds what many callers have committed meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache, partial
from typing import Any, Self, cast

from assignors import TopicPartition
from coop_consumer import forks
from coop_consumer.arguments import a_name, a_topic, instance
from coop_consumer.config import Config, Settings
from coop_consumer.config.setting import shown
from coop_consumer.core.placement import partition_of
from coop_consumer.errors import MisuseError, OffsetUnknownError
from coop_consumer.kafka.topics import Topics
from coop_consumer.logs.commit_log import CommitLog
from coop_consumer.logs.kafka_log import config_of
from coop_consumer.logs.log_thread import Denied
from coop_consumer.logs.memory_log import MemoryPartition
from coop_consumer.logs.records import Conflict
from coop_consumer.offset_stores import store
from coop_consumer.offset_stores.machine import OffsetMachine, records_of, size_record
from coop_consumer.offset_stores.waiting import CommitQueue, Unfit, WaitingCommit, unfit
from coop_consumer.plain_text import counted
from offsets import OffsetConflict, OffsetEntry

OpenLog = Callable[[int, OffsetMachine], CommitLog]

_GROUPS_KEPT = 10_000
"""Groups whose log partition is known without computing it."""


class LogOffsetStore(store.OffsetStore):
    """See `OffsetStore`. A log partition is read when a group that lies in it is first named.

    Args:
        config: How to reach the brokers, by this library's names and librdkafka's. `group.id` may
            be missing: each call names its group.
        topic: Holds the offsets, and nothing else. Its number of partitions must never change.
        name: Of this store: whoever opens a store of the same name for the same topic, ends it.

    Raises:
        ConfigError: For a wrong setting.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """

    def __init__(
        self, config: Config | Settings | Mapping[str, object], topic: str, name: str
    ) -> None:
        checked = config_of(config, name)
        a_topic(f"{type(self).__name__}()", topic)
        partitions = Topics(checked).describe([topic], verb="written")[topic].partitions

        def open_log(number: int, machine: OffsetMachine) -> CommitLog:
            return CommitLog.open(checked, topic, number, name, machine)

        self._begin(topic, partitions, open_log)

    @classmethod
    def in_memory(cls, partitions: Sequence[MemoryPartition], name: str) -> Self:
        """A store over partitions in memory, which several stores may share.

        Raises:
            MisuseError: There is no partition, or one is none.
        """
        call, given = "LogOffsetStore.in_memory()", cast("object", partitions)
        if not isinstance(given, Sequence) or not given:
            raise MisuseError(
                call, f"partitions={shown(given)}", "Give one MemoryPartition or more"
            )
        for partition in partitions:
            instance(call, partition, MemoryPartition)
        a_name(call, name)
        new = cls.__new__(cls)
        new._begin(
            "memory",
            len(partitions),
            lambda number, machine: CommitLog.in_memory(partitions[number], name, machine),
        )
        return new

    def _begin(self, topic: str, partitions: int, open_log: OpenLog) -> None:
        self._topic = topic
        self._open_log = open_log
        self._number_of = lru_cache(_GROUPS_KEPT)(  # the hash takes longer than the rest
            lambda group: partition_of(group.encode(), partitions)
        )
        self._locks = [threading.Lock() for _ in range(partitions)]
        self._lanes: list[_OffsetLane | None] = [None] * partitions
        self._is_closed = self._is_fork = False
        self._answering = threading.local()  # `is_here`: in a callback of a commit
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """Refuse calls in a forked child: threads and clients are its parent's."""
        forks.keep(self._lanes)
        self._is_fork = True

    def commit_later(
        self,
        group: str,
        entries: Mapping[TopicPartition, OffsetEntry],
        expected: Mapping[TopicPartition, int | None] | None = None,
    ) -> Future[OffsetConflict | None]:
        """See `OffsetStore`. The first call for a log partition waits until that is read.

        The future also raises:
            OffsetUnknownError: An expected partition has a damaged entry, and no sound one is left.
                A commit without `expected` mends it.
        """
        commit = store.checked(group, entries, expected)
        lane = self._lane(group, "commit()")
        try:
            lane.machine.table.check_room(group, (place.topic for place in commit.entries))
        except ValueError as error:
            raise store.full(error) from error
        waiting = WaitingCommit(commit, records_of(commit), Future())
        lane.add(waiting)
        return waiting.answer

    def fetch(
        self,
        group: str,
        places: Iterable[TopicPartition],
        *,
        timeout_s: float = store.TIMEOUT_S,
    ) -> dict[TopicPartition, OffsetEntry]:
        """See `OffsetStore`. It asks the log for its end first, so it costs a request.

        Raises:
            OffsetUnknownError: One of them has a damaged entry, and no sound one is left.
        """
        wanted = store.checked_places(group, places)
        self._check_thread("fetch()")
        lane = self._lane(group, "fetch()")
        return lane.log.read(lambda: lane.machine.found(group, wanted), timeout_s=timeout_s)

    def snapshot(self) -> None:
        """Write a snapshot of each log partition that was read: the next store starts from it.

        Raises:
            MisuseError: The store is closed.
            SnapshotError, CoopConsumerError: As `CommitLog.snapshot`.
        """
        if self._is_closed:
            raise store.closed("snapshot()")
        for lane in self._lanes:
            if lane is not None:
                lane.log.snapshot()

    def close(self) -> None:
        """See `OffsetStore`."""
        if self._is_fork:
            return
        self._check_thread("close()")
        self._is_closed = True
        for number, lock in enumerate(self._locks):
            with lock:
                lane, self._lanes[number] = self._lanes[number], None
            if lane is not None:
                lane.close()

    def _check_thread(self, call: str) -> None:
        if getattr(self._answering, "is_here", False):
            raise store.waits_for_itself(call)

    def _lane(self, group: str, call: str) -> _OffsetLane:
        """The log partition of a group, read if it was not."""
        if self._is_fork:
            raise forks.misuse(call, f"offset store {self._topic}")
        number = self._number_of(group)
        lane = self._lanes[number]
        if lane is not None:
            return lane
        with self._locks[number]:
            if self._is_closed:
                raise store.closed(call)
            lane = self._lanes[number]
            if lane is None:
                lane = self._lanes[number] = self._opened(number)
            return lane

    def _opened(self, number: int) -> _OffsetLane:
        machine = OffsetMachine(f"{self._topic}-{number}")
        log = self._open_log(number, machine)
        try:
            self._check_size(log, machine)
        except BaseException:
            log.close()
            raise
        return _OffsetLane(log, machine, self._answering)

    def _check_size(self, log: CommitLog, machine: OffsetMachine) -> None:
        """The log says of how many partitions it was one when it was first used, or is told."""
        size = len(self._lanes)
        while not (known := log.read(lambda: machine.partitions)):
            log.append([size_record(size)])
        if known != size:
            raise MisuseError(
                f"LogOffsetStore({self._topic})",
                f"the topic had {counted(known, 'partition')} when it was first used, and has "
                f"{size} now, so offsets of many groups are not where they would be looked for",
                "Make a new topic, and commit the groups' offsets there",
            )


class _OffsetLane:
    """One log partition and the commits that wait for it. At most one append is under way."""

    def __init__(self, log: CommitLog, machine: OffsetMachine, answering: threading.local) -> None:
        self.log = log
        self.machine = machine
        self._answering = answering
        self._lock = threading.Lock()
        self._queue = CommitQueue()
        self._is_appending = False
        self._is_closed = False

    def add(self, waiting: WaitingCommit) -> None:
        with self._lock:
            if self._is_closed:
                raise store.closed("commit()")
            self._queue.add(waiting)
            if self._is_appending:
                return
            self._is_appending = True
        self._append_next()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self.log.close()  # ends the append under way, and that ends the others

    def _append_next(self) -> None:
        """Append the next batch; called by whoever has set `_is_appending`."""
        while True:
            with self._lock:
                batch = self._queue.take()
                if not batch:
                    self._is_appending = False
                    return
            try:
                asked = self._asked(batch)
            except Exception as error:  # noqa: BLE001 - it is the answer
                _fail(batch, store.closed("commit()") if self._is_closed else error)
            else:
                asked.add_done_callback(partial(self._answered, batch))
                return

    def _asked(self, batch: Sequence[WaitingCommit]) -> Future[Any]:
        def check() -> Unfit | None:
            return unfit(batch, self.machine.get)

        records = [record for waiting in batch for record in waiting.records]
        if not records:
            return self.log.read_later(check)
        is_careful = any(waiting.commit.expected for waiting in batch)
        return self.log.append_later(records, check=check if is_careful else None)

    def _answered(self, batch: Sequence[WaitingCommit], done: Future[Any]) -> None:
        """Called on the log's thread, or on a caller's, if the answer is there already."""
        self._answering.is_here = True
        try:
            self._answer(batch, done)
        finally:
            self._answering.is_here = False
        self._append_next()

    def _answer(self, batch: Sequence[WaitingCommit], done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            _fail(batch, error)
        else:
            found = done.result()
            if isinstance(found, Denied):
                found = found.reason
            if isinstance(found, Unfit):
                self._settle(batch, found)
            elif isinstance(found, Conflict):  # another store's append, which we have applied
                self._settle(batch, None)
            else:
                for waiting in batch:
                    waiting.answer.set_result(None)

    def _settle(self, batch: Sequence[WaitingCommit], found: Unfit | None) -> None:
        """Answer what is decided; the rest is next."""
        decided = found.decided if found else {}
        rest = [waiting for index, waiting in enumerate(batch) if index not in decided]
        with self._lock:
            self._queue.give_back(rest, found.fitting if found else None)
        for index, answer in decided.items():
            if isinstance(answer, OffsetUnknownError):
                batch[index].answer.set_exception(answer)
            else:
                batch[index].answer.set_result(answer)


def _fail(batch: Sequence[WaitingCommit], error: BaseException) -> None:
    for waiting in batch:
        waiting.answer.set_exception(error)
