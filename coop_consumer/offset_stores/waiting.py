"""Commits that wait for one log partition, and which of them go together. Pure; one thread.

In: commits in the order of their callers, and the newest entries. Out: batches to append as one,
and conflicts. A commit sees what those before it in its batch will have written. If only that
contradicts what it expects, it waits until they are written: a caller is never told of an entry
that may not come to be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from assignors import TopicPartition
from coop_consumer.errors import OffsetUnknownError
from coop_consumer.logs.records import NewRecord, size_of
from offsets import OffsetCommit, OffsetConflict, OffsetEntry
from offsets.offset_entry import Lookup

RECORDS_MAX: Final = 10_000
"""Records of one append, unless a single commit has more."""

BYTES_MAX: Final = 4 << 20
"""Bytes of one append, unless a single commit has more. A log refuses an append above 64 MiB, and
then all of its callers: entries with gap ranges come to that with fewer records."""

OffsetAnswer = Future[OffsetConflict | None]


@dataclass(frozen=True, slots=True, eq=False)
class WaitingCommit:
    """A commit, its records, and where its caller waits."""

    commit: OffsetCommit
    records: Sequence[NewRecord]
    answer: OffsetAnswer


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a batch cannot be appended as it is.

    Attributes:
        decided: By the index in the batch: conflicts, and commits that expect something of a place
            whose entry is unknown.
        fitting: How many of the others, from the first, can be appended together.
    """

    decided: dict[int, OffsetConflict | OffsetUnknownError]
    fitting: int


class CommitQueue:
    """The commits of one log partition, first come, first served."""

    __slots__ = ("_most", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[WaitingCommit] = deque()
        self._most: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: WaitingCommit) -> None:
        """The next one."""
        self._waiting.append(waiting)

    def take(self) -> list[WaitingCommit]:
        """The next batch; whoever does not wait any more is left out."""
        batch: list[WaitingCommit] = []
        count, size, most = 0, 0, self._most or RECORDS_MAX
        while self._waiting and len(batch) < most:
            records = self._waiting[0].records
            count += len(records)
            size += sum(map(size_of, records))
            if batch and (count > RECORDS_MAX or size > BYTES_MAX):
                break
            waiting = self._waiting.popleft()
            if waiting.answer.running() or waiting.answer.set_running_or_notify_cancel():
                batch.append(waiting)
        self._most = None
        return batch

    def give_back(self, batch: Sequence[WaitingCommit], fitting: int | None = None) -> None:
        """What was not appended is next again; if told so, only so many of it together."""
        self._waiting.extendleft(reversed(batch))
        self._most = fitting


def unfit(batch: Sequence[WaitingCommit], look_up: Lookup) -> Unfit | None:
    """What keeps a batch from being appended; None: nothing does.

    Args:
        batch: In order.
        look_up: The newest entry of a place; or it raises `OffsetUnknownError`.
    """
    written: dict[tuple[str, TopicPartition], OffsetEntry] = {}

    def newest(group: str, place: TopicPartition) -> OffsetEntry | None:
        return written.get((group, place)) or look_up(group, place)

    decided: dict[int, OffsetConflict | OffsetUnknownError] = {}
    for index, waiting in enumerate(batch):
        commit = waiting.commit
        try:
            conflict = commit.conflict(newest)
        except OffsetUnknownError as error:
            decided[index] = error.with_traceback(None)  # which would hold this frame, and itself
            continue
        if conflict is None:
            written |= {(commit.group, place): entry for place, entry in commit.entries.items()}
        elif any((commit.group, place) in written for place in commit.expected):
            return Unfit(decided, index - len(decided))
        else:
            decided[index] = conflict
    return Unfit(decided, len(batch) - len(decided)) if decided else None
