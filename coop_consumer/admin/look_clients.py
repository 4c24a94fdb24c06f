"""The clients by which groups are looked at: a set for one look at a time, or few for many groups.

In: a configuration of any group of the cluster. Out: clients for whoever looks. They belong to no
group: what a look remembers of its group is in `inspect` and `log_view`. A set takes about 20
threads and as many files. So a process that watches fifty groups has few sets, and the looks take
turns: with clients of their own fifty groups took a thousand threads, and a client in C that gets
no thread or file aborts the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from coop_consumer.admin.log_view import LogReaders
from coop_consumer.admin.record_reader import RecordReader
from coop_consumer.config import Config, IsolationLevel
from coop_consumer.errors import BrokerUnreachableError, CoopConsumerError
from coop_consumer.kafka.group_view import StayingDescriber
from coop_consumer.kafka.topics import Topics
from coop_consumer.status.seen import Hashing

SETS = 4
"""Looks that are under way at once. A look takes 50 to 500 ms, and 10 s or more where a broker is
silent: then up to three such groups hold up no others."""


_AGAIN_S = 5.0
"""How long a look that comes again and again waits for a broker, so that an outage is soon told."""


class LookClients:
    """For one look at a time; one thread at a time.

    Args:
        config: Of any group of the cluster.
        again: They are for somebody who looks again and again, and tells himself if that fails.

    Attributes:
        topics: Asks for topics and offsets.
        describer: Asks coordinators about groups.
        logs: Read progress logs.

    Raises:
        BrokerUnreachableError: If no broker answers.
    """

    def __init__(self, config: Config, *, again: bool = False) -> None:
        self.topics = Topics(config)
        if again:
            self.topics.check_broker(_AGAIN_S, warns=False)
        else:
            self.topics.check_broker()
        self.describer = StayingDescriber(config)
        self.logs = LogReaders()
        self._records: dict[IsolationLevel, RecordReader] = {}

    def records(self, config: Config, hashing: Hashing) -> RecordReader:
        """Reads single records, as the group of this configuration reads them."""
        level = config.isolation_level
        if level not in self._records:
            self._records[level] = RecordReader(config, hashing)
        self._records[level].hashing = hashing
        return self._records[level]

    def drop_records(self, config: Config) -> None:
        """Close that reader; whoever needs it next gets a new one."""
        reader = self._records.pop(config.isolation_level, None)
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """Close them."""
        self.describer.close()
        self.logs.close()
        for reader in self._records.values():
            reader.close()
        self._records.clear()


class ClientsClosedError(Exception):
    """Nobody gets clients any more."""


class SharedClients:
    """Few sets of clients for the looks at many groups of one cluster. Thread-safe.

    Args:
        sets: How many at most; they are made as they are needed, one after the other.
    """

    def __init__(self, sets: int = SETS) -> None:
        self._sets = sets
        self._free: list[LookClients] = []
        self._count = 0  # of those that are free, in use, or just made
        self._is_making = self._is_closed = False
        self._failure: tuple[float, CoopConsumerError] | None = None  # when making failed, and why
        self._changed = threading.Condition()

    @contextmanager
    def lent(self, config: Config) -> Iterator[LookClients]:
        """Clients for one look; waits until some are free.

        After a look that could not reach a broker, or that a defect has ended, its clients are
        closed: new ones may help.

        Args:
            config: Of whoever looks.

        Raises:
            ClientsClosedError: They are closed.
            BrokerUnreachableError: If no broker answers; also to those who waited meanwhile.
        """
        clients, is_good = self._taken(config), False
        try:
            yield clients
            is_good = True
        except CoopConsumerError as error:
            is_good = not isinstance(error, BrokerUnreachableError)
            raise
        finally:
            self._give_back(clients, is_good=is_good)

    def close(self) -> None:
        """Close all that are free now, and others when they are given back."""
        with self._changed:
            self._is_closed = True
            free, self._free = self._free, []
            self._changed.notify_all()
        for clients in free:
            clients.close()

    def _taken(self, config: Config) -> LookClients:
        asked_s = monotonic()
        with self._changed:
            while True:
                if self._is_closed:
                    raise ClientsClosedError
                if self._free:
                    return self._free.pop()
                if self._failure is not None and self._failure[0] >= asked_s:
                    raise self._failure[1].with_traceback(None)
                if self._count < self._sets and not self._is_making:
                    break
                self._changed.wait()
            self._count += 1
            self._is_making = True
        return self._made(config)

    def _made(self, config: Config) -> LookClients:
        made = None
        try:
            made = LookClients(config, again=True)
        except CoopConsumerError as error:
            self._failure = monotonic(), error
            raise
        finally:
            with self._changed:
                self._is_making = False
                self._count -= made is None
                self._changed.notify_all()
        return made

    def _give_back(self, clients: LookClients, *, is_good: bool) -> None:
        with self._changed:
            stays = is_good and not self._is_closed
            if stays:
                self._free.append(clients)
                self._changed.notify()
        if stays:
            return
        try:
            clients.close()
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify()
