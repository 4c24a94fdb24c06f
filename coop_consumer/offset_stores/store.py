"""What every offset store promises, and what each checks at its door. Pure.

In: commits of callers. Out: checked values, or a `MisuseError` before anything was done.
`tests/contract/test_offset_stores.py` holds the promises; another store joins by a subclass there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Protocol, Self, TypeVar

from assignors import TopicPartition
from coop_consumer.arguments import seconds
from coop_consumer.config.setting import shown
from coop_consumer.errors import MisuseError
from offsets import OffsetCommit, OffsetConflict, OffsetEntry
from offsets.offset_entry import check_places

T = TypeVar("T")

TIMEOUT_S = 60.0
"""How long `commit` and `fetch` wait by default."""

_REMEDY = "Correct the call"


class OffsetStore(Protocol):
    """Offsets of groups: (group, topic, partition) → offset, metadata, gap ranges. Thread-safe.

    Three implementations: `MemoryOffsetStore`, `LogOffsetStore`, `KafkaOffsetStore`. Every one
    promises:

    - A commit that was answered is there: each later `fetch`, by whichever store of the same place,
      returns it or a later one.
    - A wrong argument is refused before anything is done: a negative offset, metadata above 4,096
      bytes, gap ranges out of order, a name that Kafka cannot carry.

    Memory and log promise besides: a commit is made as a whole or not at all; `expected`; commits
    of one group take effect in the order in which one thread asked for them.
    """

    def commit(
        self,
        group: str,
        entries: Mapping[TopicPartition, OffsetEntry],
        expected: Mapping[TopicPartition, int | None] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> OffsetConflict | None:
        """Commit entries of a group, and wait until that is done.

        Args:
            group: The group's name.
            entries: By partition; others stay as they are.
            expected: Commit only if each of these partitions has this offset, or None: no entry.
            timeout_s: How long to wait. A commit that is late may still be made.

        Returns:
            None: committed. A conflict: nothing was committed, and that is what there is.

        Raises:
            MisuseError: For a wrong argument, or an `expected` that this store cannot check.
            TimeoutError: There was no answer in time.
            CoopConsumerError: As it says.
        """
        wait_s = seconds("commit()", timeout_s)
        self._check_thread("commit()")
        answer = self.commit_later(group, entries, expected)
        return waited(
            answer, wait_s, f"commit of group {group}", "It may still be made: a later fetch tells"
        )

    def commit_later(
        self,
        group: str,
        entries: Mapping[TopicPartition, OffsetEntry],
        expected: Mapping[TopicPartition, int | None] | None = None,
    ) -> Future[OffsetConflict | None]:
        """The same without waiting: the future has the answer, or the error.

        A wrong argument is raised by the call itself. `asyncio.wrap_future` awaits the answer. A
        callback of the future (`add_done_callback`) may call `commit_later`, but nothing that
        waits.
        """

    def fetch(
        self, group: str, places: Iterable[TopicPartition], *, timeout_s: float = TIMEOUT_S
    ) -> dict[TopicPartition, OffsetEntry]:
        """The entries of these partitions as they are now, whoever committed them.

        A partition without an entry is left out. All are of one moment after the call began.

        Args:
            group: The group's name.
            places: The partitions.
            timeout_s: How long to wait.

        Raises:
            MisuseError: For a wrong argument.
            TimeoutError: There was no answer in time.
            CoopConsumerError: As it says.
        """

    def _check_thread(self, call: str) -> None:
        """See that the caller is not the thread that would answer it, as in a future's callback.

        Raises:
            MisuseError: It is.
        """
        del call

    def close(self) -> None:
        """End; what was not answered ends with an error. May be repeated."""

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def waited(answer: Future[T], wait_s: float | None, what: str, consequence: str) -> T:
    """The answer to a call.

    Raises:
        TimeoutError: There was none in time; it says of what.
        Exception: What the call has raised.
    """
    try:
        return answer.result(wait_s)
    except TimeoutError:
        if answer.done():
            raise  # it is what was raised
        text = f"{what}: no answer within {wait_s:g} s. {consequence}"
        raise TimeoutError(text) from None


def checked(
    group: str,
    entries: Mapping[TopicPartition, OffsetEntry],
    expected: Mapping[TopicPartition, int | None] | None,
) -> OffsetCommit:
    """A commit with sound arguments, in copies of its own.

    Raises:
        MisuseError: One is wrong.
    """
    expected = {} if expected is None else expected
    for what, found in (("entries", entries), ("expected", expected)):
        if not isinstance(found, Mapping):
            error = ValueError(f"{what} {shown(found)} are no dict by TopicPartition")
            raise _misused("commit()", error, "Nothing was committed")
    commit = OffsetCommit(group, dict(entries), dict(expected))
    try:
        commit.check()
    except ValueError as error:
        raise _misused("commit()", error, "Nothing was committed") from error
    return commit


def checked_places(group: str, places: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions of a `fetch`.

    Raises:
        MisuseError: One is none.
    """
    if isinstance(places, TopicPartition | str | bytes) or not isinstance(places, Iterable):
        error = ValueError(f"{shown(places)} is no list of TopicPartition")
        raise _misused("fetch()", error, "Nothing was asked")
    wanted = list(places)
    try:
        check_places(group, wanted)
    except ValueError as error:
        raise _misused("fetch()", error, "Nothing was asked") from error
    return wanted


def full(error: ValueError) -> MisuseError:
    """A store has no room for another name."""
    remedy = "Spread the groups over the log partitions of more topics"
    return MisuseError("commit()", str(error), remedy, "Nothing was committed")


def waits_for_itself(call: str) -> MisuseError:
    """A callback of a future waits for the thread that runs it."""
    return MisuseError(
        call,
        "a callback of a future calls it, on the store's thread, which would wait for itself",
        "Call commit_later there, or hand over to a thread of your own",
        "Nothing was done",
    )


def closed(call: str) -> MisuseError:
    """The store is closed."""
    return MisuseError(call, "the store is closed", "Make a new one", "Nothing was done")


def _misused(call: str, error: ValueError, consequence: str) -> MisuseError:
    return MisuseError(call, str(error), _REMEDY, consequence)
