"""One fetch of a partition for all tasks of an executor that read key ranges of it.

In: the name of a scan and a partition, what to read, which range is this task's. Out: the range's
record batches. Tasks are processes that know nothing of each other, so they meet in a folder: one
of them (who holds the lock) fetches, splits what comes by key ranges, and leaves a file for each,
window by window; all take theirs, the fetching task too. There is no server and no protocol: a lock
of the kernel's, and files that are renamed when they are whole.

Sharing is never needed for a right answer. Who finds a file missing, a folder gone, a disk full,
reads what is left by itself; who holds the lock and dies loses it, and another goes on behind the
last window. So a task may be killed, repeated, or never started at all. What lies in the folder is
bounded: a range whose task is far behind, or has no slot yet, gets no more files and reads alone.

Tasks of the same name may be there twice (a query scans a DataFrame twice), and the folder be made
again under a slow one. So a window tells where it begins, and files are named by what they hold:
who meets others than those that continue what he has reads alone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from offsets import OffsetRange

log = logging.getLogger(__name__)

WINDOW_RECORDS, WINDOW_BYTES, WINDOW_S = 30_000, 8 << 20, 0.2
"""What is split at a time: enough for arrays to pay, little enough to begin soon."""
KEPT_BYTES_MAX = 512 << 20
"""Of the files of one partition that nobody has taken yet."""
_LOOK_S, _LOOK_MAX_S = 0.001, 0.02
_STALE_S = 3_600.0

Fetch = Callable[[OffsetRange, Callable[[], bool]], Iterator[tuple[list[Any], int]]]
Split = Callable[[list[Any]], list[pa.RecordBatch]]
Own = Callable[[pa.RecordBatch], pa.RecordBatch]
Alone = Callable[[OffsetRange], Iterator[pa.RecordBatch]]


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
        root: The folder in which tasks meet; None: that of the executor.
    """

    def __init__(
        self,
        name: tuple[str, str],
        offsets: OffsetRange,
        number: int,
        *,
        fetch: Fetch,
        split: Split,
        own: Own,
        alone: Alone,
        root: Path | None = None,
    ) -> None:
        self._root = root or meeting_place()
        self._folder = self._root.joinpath(*name)
        self._offsets, self._number = offsets, number
        self._fetch, self._split, self._own, self._alone = fetch, split, own, alone
        self._next_offset = offsets.first

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records of this task's range, ascending.

        Raises:
            Exception: What `fetch` or `alone` raise.
        """
        try:
            yield from self._shared()
        except OSError as error:
            log.warning("%s: not shared any more (%s); this task reads alone", self._folder, error)
        if self._next_offset <= self._offsets.last:
            yield from self._alone(OffsetRange(self._next_offset, self._offsets.last))

    def _shared(self) -> Iterator[pa.RecordBatch]:
        """As far as it goes; sets `_next_offset`."""
        _enter(self._root, self._folder)
        left, fetcher = self._folder / f"left.{self._number}", None
        left.unlink(missing_ok=True)  # a task that is repeated
        number, pause_s = 0, _LOOK_S
        try:
            while self._next_offset <= self._offsets.last:
                has_ended = fetcher is not None and fetcher.has_ended()  # asked before the look
                window = _Window.read(self._folder, number)
                if window is None:
                    if has_ended:
                        return
                    fetcher = fetcher or self._elected()
                    time.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LOOK_MAX_S)
                    continue
                pause_s = _LOOK_S
                if window.first != self._next_offset:
                    return
                if window.rows[self._number]:
                    batch = _taken(self._folder / window.file_of(self._number))
                    if batch is None:
                        return
                    yield self._own(batch)
                self._next_offset, number = window.reached, number + 1
                if fetcher is not None:
                    fetcher.own_window = number
        finally:
            if fetcher is not None:
                fetcher.close()
            self._leave(left)

    def _elected(self) -> _Fetcher | None:
        """Whoever gets the lock fetches."""
        lock = (self._folder / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return _Fetcher(
            lock,
            self._folder,
            self._offsets,
            self._number,
            fetch=self._fetch,
            split=self._split,
        )

    def _leave(self, left: Path) -> None:
        """Say that this range takes no more files; the last one clears up."""
        with suppress(OSError):
            for path in self._folder.glob(f"*.{self._number}.arrow"):
                path.unlink(missing_ok=True)
            left.touch()
            first = _Window.read(self._folder, 0)
            if first is not None and len([*self._folder.glob("left.*")]) == len(first.rows):
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder.parent.rmdir()


class _Fetcher:
    """Fetches for all, on a thread of its own: its task may be busy with its records."""

    def __init__(
        self,
        lock: IO[bytes],
        folder: Path,
        offsets: OffsetRange,
        number: int,
        *,
        fetch: Fetch,
        split: Split,
    ) -> None:
        self.own_window = 0
        self._lock, self._folder, self._offsets = lock, folder, offsets
        self._fetch, self._split, self._number = fetch, split, number
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
        window, next_offset = 0, self._offsets.first
        while (known := _Window.read(self._folder, window)) and known.first == next_offset:
            window, next_offset = window + 1, known.reached
        if next_offset > self._offsets.last:
            return
        waiting: list[Any] = []
        since_s, size = time.monotonic(), 0
        left = OffsetRange(next_offset, self._offsets.last)
        for messages, reached in self._fetch(left, lambda: self._is_over):
            waiting += messages
            size += sum(map(len, messages))
            is_enough = (
                len(waiting) >= WINDOW_RECORDS
                or size >= WINDOW_BYTES
                or time.monotonic() - since_s >= WINDOW_S
                or reached > self._offsets.last
            )
            if is_enough:
                batches = self._split(waiting)
                made = _Window(next_offset, reached, tuple(it.num_rows for it in batches))
                self._wait_for_room(window)
                for number, batch in enumerate(batches):
                    self._keep(made.file_of(number), number, batch)
                made.write(self._folder, window)
                waiting, since_s, size = [], time.monotonic(), 0
                window, next_offset = window + 1, reached
            if self._is_over:
                break

    def _keep(self, file_name: str, number: int, batch: pa.RecordBatch) -> None:
        kept = self._kept.setdefault(number, {})
        is_far_behind = number != self._number and sum(kept.values()) > self._share()
        if not batch.num_rows or is_far_behind or (self._folder / f"left.{number}").exists():
            return
        path = self._folder / file_name
        unfinished = _unfinished(path)
        with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_file(file, batch.schema) as out:
            out.write_batch(batch)
        kept[path] = unfinished.stat().st_size
        unfinished.rename(path)

    def _share(self) -> int:
        return KEPT_BYTES_MAX // max(1, len(self._kept))

    def _wait_for_room(self, window: int) -> None:
        """Until files were taken; not if this task itself has nothing left to take."""
        while True:
            for kept in self._kept.values():
                for path in [path for path in kept if not path.exists()]:
                    del kept[path]
            most = max((sum(kept.values()) for kept in self._kept.values()), default=0)
            if most <= self._share() or self.own_window >= window or self._is_over:
                return
            time.sleep(_LOOK_MAX_S)


@dataclass(frozen=True, slots=True)
class _Window:
    """What one window holds: its first offset, the one behind its last, and its rows by range.

    A window is there once its own small file is: renamed when all the others are, so that nobody
    reads half of it, and nobody repairs what somebody else is reading.
    """

    first: int
    reached: int
    rows: tuple[int, ...]

    def file_of(self, number: int) -> str:
        """Where a range's rows are; the same rows, whoever has fetched them."""
        return f"{self.first}-{self.reached}.{number}.arrow"

    @classmethod
    def read(cls, folder: Path, number: int) -> _Window | None:
        """By its number, from 0; None: it is not there yet."""
        try:
            first, reached, *rows = map(int, (folder / f"{number:06}.window").read_text().split())
        except FileNotFoundError:
            return None
        return cls(first, reached, tuple(rows))

    def write(self, folder: Path, number: int) -> None:
        path = folder / f"{number:06}.window"
        unfinished = _unfinished(path)
        unfinished.write_text(" ".join(map(str, [self.first, self.reached, *self.rows])))
        unfinished.rename(path)


def meeting_place() -> Path:
    """Where the tasks of an executor meet: on the disk that it shuffles by, or the system's.

    Spark names each executor's own folders to its tasks, so those of another one, be it on the same
    host, meet elsewhere.
    """
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    return Path(local) / f"coop-keyrange-{os.getuid()}"


def _enter(root: Path, folder: Path) -> None:
    """Make the folder; clear away what scans have left whose processes were killed."""
    is_new = not folder.exists()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise PermissionError(f"{root} is another user's")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_new:
        for lock in root.glob("*/*/lock"):
            _clear(lock)


def _clear(lock: Path) -> None:
    with suppress(OSError):
        if time.time() - lock.parent.stat().st_mtime < _STALE_S:
            return
        with lock.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        lock.parent.parent.rmdir()


def _unfinished(path: Path) -> Path:
    """Nobody else's: two may fetch the same, each by a lock in a folder of the same name."""
    return path.with_name(f"{secrets.token_hex(4)}.part")


def _taken(path: Path) -> Any:
    """A file's batch; None: it is not there. Its bytes stay mapped while they are used."""
    try:
        with pa.memory_map(str(path)) as mapped:
            batch = pa.ipc.open_file(mapped).get_batch(0)
    except FileNotFoundError:
        return None
    path.unlink(missing_ok=True)
    return batch
