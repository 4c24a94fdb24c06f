"""One reading of a partition for several key ranges: its windows, their files, who takes them.

In: a folder of a scan's partition. Out: its content. The names of the files hold all facts:

    left.<range>                          takes no more files
    at.<range>                            its task runs, and has not read to its end
    in.<round>.<range>                    its task has followed the round
    dropped.<round>.<range>.<offset>      the round has no files for it from this offset on
    <round>/begin, <round>/lock           its first offset; who holds the lock reads
    <round>/<first>.window                the next offset, and the rows of each range
    <round>/<first>-<next>.<range>.arrow  the rows of a range

Files are renamed when they are whole. The small file of a window is written after all others. A
window counts once this file is there: nobody reads half of a window.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Window:
    """What one window holds: its first offset, the one behind its last, and its rows by range."""

    first: int
    reached: int
    rows: tuple[int, ...]

    def file_of(self, number: int) -> str:
        """Where a range's rows are; the same rows, whoever has fetched them."""
        return f"{self.first}-{self.reached}.{number}.arrow"


@dataclass(slots=True)
class Marks:
    """What the names in a partition's folder say.

    Attributes:
        left: Ranges that take no more files.
        at_work: Ranges whose task runs.
        followed: The rounds that a range has followed.
        dropped: For each range: from which offset on a round has no files for it, by round.
    """

    left: set[int] = field(default_factory=set)
    at_work: set[int] = field(default_factory=set)
    followed: dict[int, set[int]] = field(default_factory=dict)
    dropped: dict[int, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """As it is now. O(names)."""
        found = cls()
        for name in os.listdir(folder):
            kind, *numbers = name.split(".")
            match kind, [int(number) for number in numbers if number.isdecimal()]:
                case "left", [number]:
                    found.left.add(number)
                case "at", [number]:
                    found.at_work.add(number)
                case "in", [round_, number]:
                    found.followed.setdefault(number, set()).add(round_)
                case "dropped", [round_, number, offset]:
                    known = found.dropped.setdefault(number, {})
                    known[round_] = min(offset, known.get(round_, offset))
                case _:  # a round
                    pass
        return found

    def needs(self, number: int, round_: int) -> int | None:
        """From which offset on a range waits for this round, as those before it have dropped it."""
        if number in self.left:
            return None
        before = [it for it in self.dropped.get(number, {}) if it < round_]
        return self.dropped[number][max(before)] if before else None

    def waiting_from(self, round_: int) -> Iterable[int]:
        """The offsets at which ranges wait for a new round."""
        for number in self.dropped:
            offset = self.needs(number, round_)
            last = max(self.dropped[number])
            if offset is not None and max(self.followed.get(number, ()), default=-1) <= last:
                yield offset


def mark(folder: Path, *name: object) -> None:
    """Make an empty file whose name says something."""
    (folder / ".".join(map(str, name))).touch()


def unmark(folder: Path, number: int) -> None:
    """Forget all that is said of a range: its task begins."""
    for pattern in (f"left.{number}", f"in.*.{number}", f"dropped.*.{number}.*"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)


def drop(folder: Path, round_: int, number: int, offset: int) -> None:
    """Say that a round has no files for a range from an offset on."""
    former = [*folder.glob(f"dropped.{round_}.{number}.*")]
    made = folder / f"dropped.{round_}.{number}.{offset}"
    made.touch()
    for path in former:
        if path != made:
            path.unlink(missing_ok=True)


class Round:
    """One reading of the partition, from an offset to the end.

    Args:
        folder: Of the partition.
        number: Counts the readings of it, from 0.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.number, self.partition, self.folder = number, folder, folder / str(number)

    def begin(self) -> int | None:
        """Its first offset; None: it was not begun yet."""
        try:
            return int((self.folder / "begin").read_text())
        except FileNotFoundError:
            return None

    def make(self, begin: int) -> bool:
        """Begin it. False: somebody else has."""
        made = self.partition / f"{secrets.token_hex(4)}.part"
        made.mkdir(mode=0o700)
        (made / "begin").write_text(str(begin))
        try:
            made.rename(self.folder)
        except OSError:
            shutil.rmtree(made, ignore_errors=True)
            if not self.folder.exists():
                raise
            return False
        return True

    def window(self, first: int) -> Window | None:
        """By its first offset; None: it is not there yet."""
        try:
            reached, *rows = map(int, (self.folder / f"{first}.window").read_text().split())
        except FileNotFoundError:
            return None
        return Window(first, reached, tuple(rows))

    def reached(self) -> int:
        """The offset behind the last window. O(windows)."""
        at = self.begin()
        if at is None:
            raise FileNotFoundError(f"{self.folder} is gone")
        while (window := self.window(at)) is not None:
            at = window.reached
        return at

    def files(self) -> Iterable[tuple[int, Path]]:
        """The ranges' files, ascending by offset."""
        found = [(path.name.split("."), path) for path in self.folder.glob("*.arrow")]
        found.sort(key=lambda it: int(it[0][0].split("-")[0]))
        return [(int(parts[1]), path) for parts, path in found]

    def write_rows(self, window: Window, number: int, batch: pa.RecordBatch) -> tuple[Path, int]:
        """Leave a file for a range; tells where, and its bytes."""
        path = self.folder / window.file_of(number)
        unfinished = _unfinished(path)
        with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_file(file, batch.schema) as out:
            out.write_batch(batch)
        size = unfinished.stat().st_size
        unfinished.rename(path)
        return path, size

    def write(self, window: Window) -> None:
        """Say that all files of a window are there."""
        path = self.folder / f"{window.first}.window"
        unfinished = _unfinished(path)
        unfinished.write_text(" ".join(map(str, [window.reached, *window.rows])))
        unfinished.rename(path)

    def take(self, window: Window, number: int) -> Any:
        """A file's batch; None: it is not there. Its bytes stay mapped while they are used."""
        path = self.folder / window.file_of(number)
        try:
            with pa.memory_map(str(path)) as mapped:
                batch = pa.ipc.open_file(mapped).get_batch(0)
        except FileNotFoundError:
            return None
        path.unlink(missing_ok=True)
        return batch


def clear(folder: Path, number: int) -> None:
    """Delete what lies there for a range."""
    for round_ in count():  # not by a glob: a round that was begun twice vanishes meanwhile
        if not (folder / str(round_)).exists():
            return
        for path in (folder / str(round_)).glob(f"*.{number}.arrow"):
            path.unlink(missing_ok=True)


def _unfinished(path: Path) -> Path:
    """Nobody else's: two may fetch the same, each by a lock in a folder of the same name."""
    return path.with_name(f"{secrets.token_hex(4)}.part")
