"""The group's share of the progress log, folded; each look reads it to its end.

In: data partitions. Out: the stores that hold their histories. A thread of `ProgressReader` reads,
which may read for others between two looks; the caller's thread does everything else. Where
transactions write the log, a look waits until all below the log's end is decided, as a member does.
What it has waited for too long is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from time import monotonic

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.blocked_read import Blockage
from coop_consumer.core.events import LogRead
from coop_consumer.core.placement import log_partition_of
from coop_consumer.core.policies import Policies, policies_of
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.kafka.policies import LOG_PARTITION, GroupPolicyLog, PolicyClient
from coop_consumer.kafka.progress_log import ProgressReader, Readings
from offsets import LoadRecord, ProgressStore

_TIMEOUT_S = 10.0


class LogReaders:
    """The readers of progress logs, for groups that take turns. One thread at a time.

    There is one of each kind: with exactly once only what is committed is read.

    Attributes:
        policies: Reads the policies of groups with exactly once.
    """

    def __init__(self) -> None:
        self.policies = PolicyClient()
        self._all: dict[bool, ProgressReader] = {}

    def reader(self, config: Config, died: Callable[[Exception], None]) -> ProgressReader:
        """The reader for the log of such a group.

        Args:
            config: As the group works.
            died: Hears why a new reader has no client.
        """
        strict = config.exactly_once
        if strict not in self._all:
            self._all[strict] = ProgressReader(
                config.progress_reader(committed=strict),
                config.progress_log,
                lambda _: None,
                died,
                name="coop-inspect",
                command=config.command,
            )
        return self._all[strict]

    def close(self) -> None:
        """End their threads, and close their clients."""
        self.policies.close()
        for reader in self._all.values():
            reader.abandon()
        for reader in self._all.values():
            reader.close()
        self._all.clear()


class GroupLog:
    """The group's share of the progress log, folded; each look reads what is new.

    Args:
        config: As the group works.
        partitions: How many the log has; 0: there is none.
        waiting: Called again and again, on the caller's thread, while a look waits for an undecided
            transaction. It may raise, which ends the look.

    Attributes:
        patience_ms: How long a look waits for an undecided transaction.
        undecided: By log partition, where the last look was not complete in spite of that: the
            stores then hold what is below.
    """

    def __init__(
        self, config: Config, partitions: int, waiting: Callable[[Blockage], None] = lambda _: None
    ) -> None:
        self.partitions = partitions
        self.patience_ms = 0
        self.undecided: dict[int, Blockage] = {}
        self._waiting = waiting
        self._config = config
        self._stores: dict[int, ProgressStore] = {}
        self._heard: SimpleQueue[LogRead | Blockage | Exception] = SimpleQueue()
        self._reads = 0
        self._policies = GroupPolicyLog(config)
        self._readings = Readings()
        self._reader: ProgressReader | None = None
        self._policy_client: PolicyClient | None = None

    def begin(self, readers: LogReaders) -> None:
        """Have one of these read, until `end`; nothing happens if it does already."""
        self._policy_client = readers.policies
        if self._reader is None and self.partitions:
            config, hear = self._config, self._heard.put
            self._reader = readers.reader(config, hear)
            self._reader.turn_to(
                config.progress_reader(committed=config.exactly_once),
                config.progress_log,
                self._readings,
                hear,
                hear,
                refused=hear,
                blocked=hear,
            )

    def end(self) -> None:
        """Let the reader go, which others may have now."""
        reader, self._reader = self._reader, None
        if reader is not None and not reader.leave():
            # It hangs, and may deliver late. So the next look reads the log from its beginning.
            self._readings, self._heard = Readings(), SimpleQueue()
            self._stores.clear()
            self.undecided.clear()

    def stores(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, ProgressStore]:
        """For each data partition the store that holds its history, read to the log's end.

        Raises:
            BrokerUnreachableError: If the log cannot be read to its end in time.
        """
        group = self._config.group_id
        numbers = {
            tp: log_partition_of(group, tp.topic, tp.partition, self.partitions or 1)
            for tp in places
        }
        self._read(set(numbers.values()))
        return {tp: self._store(number) for tp, number in numbers.items()}

    def topic_ids(self) -> set[bytes]:
        """The ids of all topics of which the group has progress; reads the whole log.

        Raises:
            BrokerUnreachableError: If the log cannot be read to its end in time.
        """
        self._read(set(range(self.partitions)))
        return {
            topic_id
            for store in self._stores.values()
            for topic_id, number in store.partitions()
            if store.partition(topic_id, number).epoch
        }

    def policies(self) -> Policies:
        """The policies in force for the group.

        Raises:
            BrokerUnreachableError: If the log cannot be read to its end in time.
        """
        if self._config.exactly_once:  # they are in two topics
            return self._policies.read(self._policy_client)
        self._read({LOG_PARTITION})
        return policies_of(self._store(LOG_PARTITION).policies, self._config.group_id)

    def loads(self) -> dict[str, LoadRecord]:
        """The last report of each member, in the log partitions that were read for `stores`.

        A member's report lies in the log partition of one of its data partitions. It moves with
        them: if two are left, the later one counts.
        """
        told = [it for store in self._stores.values() for it in store.loads.items()]
        told.sort(key=lambda it: it[1][1].at_ms)
        return {member: record for member, (_, record) in told}

    def unreadable(self) -> dict[str, int]:
        """Records that could not be read, by reason."""
        found: dict[str, int] = {}
        for store in self._stores.values():
            for reason, count in store.unreadable.items():
                found[reason] = found.get(reason, 0) + count
        return found

    def _store(self, number: int) -> ProgressStore:
        return self._stores.setdefault(
            number, ProgressStore(self._config.group_id, self._config.tag)
        )

    def _read(self, numbers: set[int]) -> None:
        if self._reader is None:
            return
        self._reads += 1
        for number in sorted(numbers):
            self.undecided.pop(number, None)
            self._reader.read(number, self._reads)
        until_s = monotonic() + _TIMEOUT_S
        # What is queued may say that a transaction was decided since the last look.
        while numbers and not (self._heard.empty() and self._is_held_up(numbers)):
            try:
                heard = self._heard.get(timeout=max(until_s - monotonic(), 0.0))
            except Empty:
                raise BrokerUnreachableError(
                    self._config.bootstrap_servers,
                    f"{self._config.progress_log} not read to its end in {_TIMEOUT_S:g} s",
                ) from None
            if isinstance(heard, Exception):
                raise heard
            if isinstance(heard, Blockage):
                self.undecided[heard.log_partition] = heard
                self._waiting(heard)
            else:
                self._take(heard, numbers)
            if isinstance(heard, LogRead) or numbers <= self.undecided.keys():
                until_s = monotonic() + _TIMEOUT_S

    def _take(self, read: LogRead, numbers: set[int]) -> None:
        """Take in what was read; a partition that is read to its end leaves `numbers`."""
        number = read.log_partition
        if read.restart:
            self._stores.pop(number, None)
        store = self._store(number)
        for record in read.records:
            store.apply(record)
        if read.complete >= self._reads:
            numbers.discard(number)
            self.undecided.pop(number, None)

    def _is_held_up(self, numbers: set[int]) -> bool:
        """Whether a look waits only for transactions that it has waited for long enough."""
        held = {number for number, it in self.undecided.items() if it.waited_ms >= self.patience_ms}
        return numbers <= held
