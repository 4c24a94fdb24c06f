"""One fetch of a partition for all tasks of an executor that read key ranges of it.

In: the name of a scan and a partition, what to read, which range is this task's. Out: the range's
record batches. Tasks are processes that know nothing of each other, so they meet in a folder
(`meeting`). The task that holds the lock fetches, splits the records by key ranges, and leaves a
file for each range, window by window (`rounds`). Each task takes its own files, the fetching task
too. There is no server and no protocol, only a lock of the kernel's, and files that are renamed
when they are whole.

Files are bounded. If there are too many, files of the ranges go first whose tasks will begin last.
If a task's files are missing, it begins another round, or joins one. A round reads the partition
from the lowest offset that any range waits for, and leaves files for all of these ranges.

Sharing is never needed for a right answer. A task reads what is left by itself if a folder is gone
or a disk is full. If the task that holds the lock dies, it loses the lock, and another goes on
behind the last window. So a task may be killed, repeated, or never started at all.

A task may run twice under one name (a query scans a DataFrame twice), and a folder may be made
again under a slow task. So windows and files are named by their offsets: a task takes only a file
that continues its own records.
"""

from __future__ import annotations

import fcntl
import logging
import shutil
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from operator import methodcaller
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from coop_consumer.log_events import LogEvent
from offsets import OffsetRange
from streams_adapter.source.meeting import meeting_place, present
from streams_adapter.source.rounds import Marks, Round, Window, clear, drop, mark, unmark

log = logging.getLogger(__name__)

WINDOW_RECORDS, WINDOW_BYTES, WINDOW_S = 30_000, 8 << 20, 0.2
"""The size of a window: large enough for arrays to pay, small enough to begin soon."""
WINDOW_BYTES_FIRST = 1 << 20
"""The first window is so large; a window is at most this, or a fourth of what was fetched before.
`take` gets its rows soon. Its task learns of the query's end when it hands on the next window.
"""
KEPT_BYTES_MAX = 512 << 20
"""Of the files of one round that nobody has taken yet."""
ROUNDS_MAX = 16
"""A task that has missed files of this many rounds reads alone."""
_LOOK_S, _LOOK_MAX_S = 0.001, 0.02

FetchPartition = Callable[[OffsetRange, Callable[[], bool]], Iterator[tuple[list[Any], int]]]
SplitRows = Callable[[list[Any]], list[pa.RecordBatch]]
Own = Callable[[pa.RecordBatch], pa.RecordBatch]
ReadAlone = Callable[[OffsetRange], Iterator[pa.RecordBatch]]


@dataclass(eq=False, repr=False)
class SharedFetch:
    """One task's view of a fetch that it shares.

    Args:
        name: Of the scan, and of the partition.
        offsets: What is read.
        number: Which range is this task's.
        fetch: Reads offsets until asked to end; see `read_slice`.
        split: Makes a batch for every range.
        own: Makes this task's batch of its range's.
        alone: Reads this task's range without anybody.
        offset_of: A message's offset.
        bytes_of: How many bytes some messages have, about.
        root: The folder in which tasks meet; None: that of the executor.
    """

    name: tuple[str, str]
    offsets: OffsetRange
    number: int
    _: KW_ONLY
    fetch: FetchPartition
    split: SplitRows
    alone: ReadAlone
    own: Own = lambda batch: batch
    offset_of: Callable[[Any], int] = methodcaller("offset")
    bytes_of: Callable[[list[Any]], float] = lambda messages: sum(map(len, messages))
    root: Path | None = None

    def __post_init__(self) -> None:
        self._root = self.root or meeting_place()
        self._folder = self._root.joinpath(*self.name)
        self._next_offset = self.offsets.first

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records of this task's range, ascending.

        Raises:
            Exception: What `fetch` or `alone` raise.
        """
        try:
            with present(self._root, *self.name):
                yield from self._shared()
        except OSError as error:
            told = (
                "%s: not shared any more (%s); this task reads alone, which is slower. Nothing is "
                "lost. Make room in spark.local.dir"
            )
            extra = LogEvent.SPARK_READS_ALONE.extra(error=error)
            log.warning(told, self._folder, error, extra=extra)
        if self._next_offset <= self.offsets.last:
            yield from self.alone(OffsetRange(self._next_offset, self.offsets.last))

    def _shared(self) -> Iterator[pa.RecordBatch]:
        """As far as it goes; sets `_next_offset`."""
        unmark(self._folder, self.number)  # of a task that is repeated
        mark(self._folder, "at", self.number)
        is_broken_off = False
        try:
            for number in range(ROUNDS_MAX):
                if self._next_offset > self.offsets.last:
                    break
                found = self._round(number)
                if found is not None:
                    yield from self._follow(found)
        except GeneratorExit:
            is_broken_off = True  # its mark stays: nobody will want the rest
            raise
        finally:
            self._leave(is_broken_off=is_broken_off)

    def _round(self, number: int) -> Round | None:
        """A round that may serve this task; it begins one if there is none."""
        found = Round(self._folder, number)
        begin = found.begin()
        if begin is None:
            waiting = Marks.read(self._folder).waiting_from(number)
            made = found.make(min([self._next_offset, *waiting]))
            if made and number > 1:
                log.warning(
                    "%s: scan %s fetches it %d times on this executor, as more key ranges "
                    "wait for a slot than files fit (%d MB). Fewer keyRanges fetch less",
                    self.name[1], self.name[0], number + 1, KEPT_BYTES_MAX >> 20,
                    extra=LogEvent.SPARK_FETCHED_AGAIN.extra(),
                )  # fmt: skip
            begin = found.begin()
        return found if begin is not None and begin <= self._next_offset else None

    def _follow(self, found: Round) -> Iterator[pa.RecordBatch]:
        """Take what a round has from the next offset on, until a file is missing."""
        mark(self._folder, "in", found.number, self.number)
        at, fetcher, pause_s = found.begin(), None, _LOOK_S
        try:
            while at is not None and self._next_offset <= self.offsets.last:
                has_ended = fetcher is not None and fetcher.has_ended()  # asked before the look
                window = found.window(at)
                if window is None:
                    if has_ended:
                        return
                    fetcher = fetcher or self._elected(found)
                    time.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LOOK_MAX_S)
                    continue
                pause_s, at = _LOOK_S, window.reached
                if window.reached <= self._next_offset:
                    continue  # it is for others
                if window.first != self._next_offset:
                    return
                if window.rows[self.number]:
                    batch = found.take(window, self.number)
                    if batch is None:
                        return
                    yield self.own(batch)
                self._next_offset = window.reached
                if fetcher is not None:
                    fetcher.own_offset = self._next_offset
        finally:
            if fetcher is not None:
                fetcher.close()
            if self._next_offset <= self.offsets.last:
                with suppress(OSError):
                    drop(self._folder, found.number, self.number, self._next_offset)

    def _elected(self, found: Round) -> _Fetcher | None:
        """The fetcher, if this task gets the lock; None: another task has it."""
        lock = (found.folder / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return _Fetcher(lock, found, self, self._next_offset)

    def _leave(self, *, is_broken_off: bool) -> None:
        """Say that this range takes no more files; the last one clears up."""
        with suppress(OSError):
            mark(self._folder, "left", self.number)
            clear(self._folder, self.number)
            if not is_broken_off:
                (self._folder / f"at.{self.number}").unlink(missing_ok=True)
            first = Round(self._folder, 0).window(self.offsets.first)
            marks = Marks.read(self._folder)
            if first is not None and len(marks.left) == len(first.rows) and not marks.at_work:
                shutil.rmtree(self._folder, ignore_errors=True)


class _Fetcher:
    """Fetches for all, on a thread of its own: its task may be busy with its records."""

    def __init__(self, lock: IO[bytes], found: Round, wanted: SharedFetch, own_offset: int) -> None:
        self.own_offset = own_offset
        self._lock, self._round, self._wanted = lock, found, wanted
        self._is_over = False
        self._error: Exception | None = None
        self._kept: dict[int, dict[Path, int]] = {}
        self._thread = threading.Thread(target=self._run, name="coop-shared-fetch", daemon=True)
        self._thread.start()

    def has_ended(self) -> bool:
        """Whether all windows are there; raises what has ended it before."""
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def close(self) -> None:
        """End it; another task may take over."""
        self._is_over = True
        self._thread.join()
        self._lock.close()

    def _run(self) -> None:
        try:
            self._fetch_all()
        except Exception as error:  # noqa: BLE001 - its task raises it
            self._error = error

    def _fetch_all(self) -> None:
        next_offset = self._round.reached()
        if next_offset > self._wanted.offsets.last:
            return
        for number, path in self._round.files():  # of whoever fetched before
            with suppress(FileNotFoundError):
                self._kept.setdefault(number, {})[path] = path.stat().st_size
        waiting: list[Any] = []
        since_s, size, fetched = time.monotonic(), 0.0, 0.0
        left = OffsetRange(next_offset, self._wanted.offsets.last)
        for messages, reached in self._wanted.fetch(left, lambda: self._is_over):
            waiting += messages
            size += self._wanted.bytes_of(messages) if messages else 0
            is_enough = (
                len(waiting) >= WINDOW_RECORDS
                or size >= min(WINDOW_BYTES, max(WINDOW_BYTES_FIRST, fetched / 4))
                or time.monotonic() - since_s >= WINDOW_S
                or reached > self._wanted.offsets.last
            )
            if is_enough and reached > next_offset:
                self._write(waiting, next_offset, reached)
                fetched += size
                waiting, since_s, size = [], time.monotonic(), 0
                next_offset = reached
            if self._is_over:
                break

    def _write(self, messages: list[Any], first: int, reached: int) -> None:
        """Windows of these messages: cut where ranges wait, so that they can join."""
        marks = Marks.read(self._round.partition)
        waited_for = {marks.needs(number, self._round.number) for number in marks.dropped}
        cuts = sorted(at for at in waited_for if at is not None and first < at < reached)
        for end in [*cuts, reached]:
            offset_of = self._wanted.offset_of
            count = bisect_left(messages, end, key=offset_of) if cuts else len(messages)
            batches, messages = self._wanted.split(messages[:count]), messages[count:]
            made = Window(first, end, tuple(it.num_rows for it in batches))
            self._make_room(made)
            marks = Marks.read(self._round.partition)
            written: list[Path] = []
            for number, batch in enumerate(batches):
                if self._is_over:  # the next fetcher reads this window again
                    for path in written:
                        path.unlink(missing_ok=True)
                    return
                if batch.num_rows and self._is_for(number, first, marks):
                    path, size = self._round.write_rows(made, number, batch)
                    self._kept.setdefault(number, {})[path] = size
                    written.append(path)
            self._round.write(made)
            first = end

    def _is_for(self, number: int, first: int, marks: Marks) -> bool:
        """Whether a range wants this round's files from an offset on."""
        own = self._round.number
        if number in marks.left or own in marks.dropped.get(number, {}):
            return False
        if own == 0 or own in marks.followed.get(number, ()):
            return True
        needs = marks.needs(number, own)
        return needs is not None and needs <= first

    def _make_room(self, window: Window) -> None:
        """Until there is room: by files that tasks take, or that are given up."""
        while not self._is_over:
            for kept in self._kept.values():
                for path in [path for path in kept if not path.exists()]:
                    del kept[path]
            over = sum(sum(kept.values()) for kept in self._kept.values()) - KEPT_BYTES_MAX
            if over <= 0:
                return
            if self.own_offset < window.first:  # this task has files to take
                time.sleep(_LOOK_S)
                continue
            marks = Marks.read(self._round.partition)
            if not self._give_up_last(over, window, marks):
                self._leave_slowest(window, marks)
                return

    def _give_up_last(self, over: int, window: Window, marks: Marks) -> bool:
        """Delete files of the range whose task will begin last, from its end. False: none waits."""
        waiting = [
            number for number, kept in self._kept.items() if kept and number not in marks.at_work
        ]
        if not waiting:
            return False
        last = max(waiting)
        kept, freed, from_ = self._kept[last], 0, window.first
        paths = []
        while kept and freed < over:
            path, size = kept.popitem()
            paths.append(path)
            freed, from_ = freed + size, int(path.name.split("-")[0])
        drop(self._round.partition, self._round.number, last, from_)
        for path in paths:
            path.unlink(missing_ok=True)
        return True

    def _leave_slowest(self, window: Window, marks: Marks) -> None:
        """Leave no more files for the range that has most of them, but this task's own."""
        own = self._round.number
        others = {
            sum(kept.values()): number
            for number, kept in self._kept.items()
            if kept and number != self._wanted.number and own not in marks.dropped.get(number, {})
        }
        if others:
            drop(self._round.partition, own, others[max(others)], window.first)
