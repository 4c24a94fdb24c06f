"""The handler that all systems share: it does a record's work and notes that it did.

In: partition, offset and key of a record. Out: time that is gone, and a row in the journal. It runs
in peers' environments too, so it imports nothing of this library.

A row is a line: partition, offset, begin and end by the monotonic clock in ns, key. Rows are kept
in memory (about a microsecond a record) and written at the end, unless the process may be killed.
Batches that do nothing are a case in which a microsecond counts: of those, numbers are kept (0.2
microseconds and some 35 bytes a record), and a key's hash stands for it.
"""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from benchmarks.job import Job
from benchmarks.keys import SPECIAL

_SPECIAL = SPECIAL.encode()

Handle = Callable[[int, int, bytes], None]


class Journal:
    """The rows of one process; a copy in a child process begins with none.

    Args:
        folder: Where `<pid>.rows` goes.
        at_once: Write each row before `note` returns.
    """

    def __init__(self, folder: str, *, at_once: bool) -> None:
        self._at_once = at_once
        self._folder = folder
        self._rows: list[tuple[int, int, int, int, bytes]] = []
        self._batches: list[tuple[int, int, int, array[int]]] = []
        self._file: tuple[int, int] | None = None

    def note(self, partition: int, offset: int, begun_ns: int, ended_ns: int, key: bytes) -> None:
        """A record was handled. Any thread."""
        row = (partition, offset, begun_ns, ended_ns, key)
        if self._at_once:
            os.write(self._descriptor(), _line(row))
        else:
            self._rows.append(row)

    def note_batch(
        self,
        partitions: Collection[int],
        offsets: Collection[int],
        keys: Collection[bytes],
        begun_ns: int,
        *,
        one_by_one: bool = False,
    ) -> None:
        """Records were handled until now, together or one after the other. Any thread."""
        numbers = array("q", partitions)
        numbers.extend(offsets)
        numbers.extend(map(hash, keys))
        ended_ns = time.monotonic_ns()
        step_ns = (ended_ns - begun_ns) // len(offsets) if one_by_one else 0
        self._batches.append((begun_ns, ended_ns, step_ns, numbers))

    def close(self) -> None:
        """Write what is kept."""
        if self._rows or self._batches:
            path = Path(self._folder) / f"{os.getpid()}.rows"
            with path.open("wb") as file:
                file.writelines(map(_line, self._rows))
                file.writelines(map(_line, self._rows_of_batches()))
            self._rows.clear()
            self._batches.clear()

    def _rows_of_batches(self) -> Iterator[tuple[int, int, int, int, bytes]]:
        for begun_ns, ended_ns, step_ns, numbers in self._batches:
            count = len(numbers) // 3
            for at in range(count):
                partition, offset, key = numbers[at::count]
                first_ns = begun_ns + at * step_ns
                last_ns = first_ns + step_ns if step_ns else ended_ns
                yield partition, offset, first_ns, last_ns, b"%d" % key

    def _descriptor(self) -> int:
        pid = os.getpid()
        if self._file is None or self._file[0] != pid:
            path = Path(self._folder) / f"{pid}.rows"
            self._file = pid, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return self._file[1]


def _line(row: tuple[int, int, int, int, bytes]) -> bytes:
    return b"%d %d %d %d %s\n" % row


class Handler:
    """Does what a job says, to one record after the other or to many at a time.

    Attributes:
        handle: For a record whose work blocks: partition, offset, key.
        first_ns: When the first record was begun.
    """

    def __init__(self, job: Job, *, at_once: bool = False) -> None:
        self.first_ns = 0
        self._work_s = job.work_ms / 1_000
        self._special_s = job.special_ms / 1_000 or self._work_s
        self._journal = Journal(job.journal, at_once=at_once or job.at_once)
        self._notes = bool(job.journal)
        self._burns = job.work == "burn"

    @property
    def handle(self) -> Handle:
        """The function for a record; look it up once."""
        return self._work if self._notes else self._nothing

    def _nothing(self, _partition: int, _offset: int, _key: bytes) -> None:
        if not self.first_ns:
            self.first_ns = time.monotonic_ns()

    def _work(self, partition: int, offset: int, key: bytes) -> None:
        begun_ns = self._begin()
        seconds = self._special_s if key == _SPECIAL else self._work_s
        if self._burns:
            burn(seconds)
        elif seconds:
            time.sleep(seconds)
        self._journal.note(partition, offset, begun_ns, time.monotonic_ns(), key)

    def handle_batch(
        self,
        partitions: Collection[int],
        offsets: Collection[int],
        keys: Collection[bytes],
        *,
        one_by_one: bool = False,
    ) -> None:
        """Do nothing to many records, together or one after the other."""
        begun_ns = self._begin()
        if self._notes:
            self._journal.note_batch(partitions, offsets, keys, begun_ns, one_by_one=one_by_one)

    async def await_it(self, partition: int, offset: int, key: bytes) -> None:
        """Do the work on an event loop."""
        begun_ns = self._begin()
        seconds = self._special_s if key == _SPECIAL else self._work_s
        if seconds:
            await asyncio.sleep(seconds)
        if self._notes:
            self._journal.note(partition, offset, begun_ns, time.monotonic_ns(), key)

    def _begin(self) -> int:
        now_ns = time.monotonic_ns()
        if not self.first_ns:
            self.first_ns = now_ns
        return now_ns

    def close(self) -> None:
        """Write what was noted."""
        self._journal.close()


def burn(seconds: float) -> None:
    """Compute for so long, by the CPU time of this thread."""
    until_s = time.thread_time() + seconds
    while time.thread_time() < until_s:
        pass
