"""Kafka's own offsets as an offset store: `__consumer_offsets`, by its coordinators.

In: commits of any thread. Out: answers of the coordinators. What a store writes is what Kafka's own
tools and consumers read, and the other way round. A group that has members is refused. There is no
`expected`, as no coordinator compares. A commit is one request, and so one batch in Kafka's log;
but of its partitions a coordinator may refuse some and store the others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from assignors import TopicPartition
from coop_consumer import forks
from coop_consumer.arguments import seconds
from coop_consumer.config import Config, Settings
from coop_consumer.errors import MisuseError
from coop_consumer.kafka.group_offsets import GroupOffsets
from coop_consumer.logs.kafka_log import config_of
from coop_consumer.offset_stores import store
from offsets import Committed, OffsetConflict, OffsetEntry

_NO_GROUP = "offset-store"


class KafkaOffsetStore(store.OffsetStore):
    """See `OffsetStore`: without `expected` and gap ranges, atomic by request only.

    Args:
        config: How to reach the brokers, by this library's names and librdkafka's. `group.id` may
            be missing: each call names its group.

    Raises:
        ConfigError: For a wrong setting.
        AuthorizationError, BrokerUnreachableError: As they say.
    """

    def __init__(self, config: Config | Settings | Mapping[str, object]) -> None:
        self._offsets: Any = GroupOffsets(config_of(config, _NO_GROUP))
        self._is_closed = False
        self._answering = threading.local()  # `is_here`: on the client's thread, in a callback
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """Refuse calls in a forked child: thread and connections are its parent's."""
        forks.keep(self._offsets)
        self._offsets = forks.Shut("this call", "an offset store")

    def _check_thread(self, call: str) -> None:
        if getattr(self._answering, "is_here", False):
            raise store.waits_for_itself(call)

    def _check_open(self, call: str) -> None:
        if self._is_closed:
            raise store.closed(call)

    def commit_later(
        self,
        group: str,
        entries: Mapping[TopicPartition, OffsetEntry],
        expected: Mapping[TopicPartition, int | None] | None = None,
    ) -> Future[OffsetConflict | None]:
        """See `OffsetStore`.

        The future also raises:
            OffsetsPartlyStoredError: Some partitions were refused, and the others are stored.
            TopicMissingError: The brokers know none of the topics.
            GroupInUseError: The group has members.
            MisuseError: The brokers take less metadata than 4,096 bytes.
        """
        commit = store.checked(group, entries, expected)
        if commit.expected:
            raise _not_here("expected offsets", "no coordinator compares before it stores")
        if any(entry.gaps for entry in commit.entries.values()):
            raise _not_here("gap ranges", "Kafka has no place for them")
        self._check_open("commit()")
        answer: Future[OffsetConflict | None] = Future()
        asked = self._offsets.commit(
            group, {tp: Committed(it.offset, it.metadata) for tp, it in commit.entries.items()}
        )

        def told(asked: Future[None]) -> None:
            error = asked.exception()
            if not answer.set_running_or_notify_cancel():
                return
            self._answering.is_here = True
            try:
                if error is not None:
                    answer.set_exception(error)
                else:
                    answer.set_result(None)
            finally:
                self._answering.is_here = False

        asked.add_done_callback(told)
        return answer

    def fetch(
        self,
        group: str,
        places: Iterable[TopicPartition],
        *,
        timeout_s: float = store.TIMEOUT_S,
    ) -> dict[TopicPartition, OffsetEntry]:
        """See `OffsetStore`."""
        wanted = store.checked_places(group, places)
        wait_s = seconds("fetch()", timeout_s)
        self._check_open("fetch()")
        self._check_thread("fetch()")
        answer = self._offsets.committed(group, wanted)
        found = store.waited(answer, wait_s, f"fetch of group {group}", "Ask again")
        return {tp: OffsetEntry(it.offset, it.metadata) for tp, it in found.items()}

    def close(self) -> None:
        """See `OffsetStore`."""
        if not self._is_closed and not isinstance(self._offsets, forks.Shut):
            self._check_thread("close()")
            self._is_closed = True
            self._offsets.close()


def _not_here(what: str, why: str) -> MisuseError:
    return MisuseError(
        "commit()",
        f"{what} are given, and {why}",
        "Use a LogOffsetStore",
        "Nothing was committed",
    )
