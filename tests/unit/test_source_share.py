"""One fetch for all tasks of an executor: whoever is killed, late or repeated gets its records."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from offsets import OffsetRange
from streams_adapter.source import share
from streams_adapter.source.share import SharedFetch
from tests.journal import WAIT_S
from tests.stock import eventually

RANGES, COUNT, STEP = 4, 400, 10
ALL = OffsetRange(100, 100 + COUNT - 1)
NAME = ("scan", "orders-0")


class Log:
    """Offsets; the range of each is its last digit's. Counts what is fetched of it."""

    def __init__(self) -> None:
        self.fetched: list[int] = []
        self.alone: list[tuple[int, OffsetRange]] = []
        self.stands_at: int | None = None

    def fetch(
        self, offsets: OffsetRange, is_over: Callable[[], bool]
    ) -> Iterator[tuple[list[bytes], int]]:
        for first in range(offsets.first, offsets.last + 1, STEP):
            if is_over():
                return
            if first == self.stands_at:
                pause = threading.Event()
                while not is_over():
                    pause.wait(0.01)
                return
            some = [*range(first, min(first + STEP, offsets.last + 1))]
            self.fetched += some
            yield [b"%d" % offset for offset in some], some[-1] + 1

    def split(self, messages: list[bytes]) -> list[pa.RecordBatch]:
        return [self._batch([int(m) for m in messages], number) for number in range(RANGES)]

    def read_alone(self, number: int, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        self.alone.append((number, offsets))
        yield self._batch([*range(offsets.first, offsets.last + 1)], number)

    def _batch(self, offsets: list[int], number: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"offset": [o for o in offsets if o % RANGES == number]})


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "WINDOW_RECORDS", STEP)


def task(log: Log, root: Path, number: int) -> Iterator[int]:
    shared = SharedFetch(
        NAME,
        ALL,
        number,
        fetch=log.fetch,
        split=log.split,
        own=lambda batch: batch,
        alone=partial(log.read_alone, number),
        root=root,
    )
    return (offset for batch in shared.batches() for offset in batch["offset"].to_pylist())


def mine(number: int) -> list[int]:
    return [o for o in range(ALL.first, ALL.last + 1) if o % RANGES == number]


def read_all(log: Log, root: Path, numbers: range) -> list[list[int]]:
    with ThreadPoolExecutor(len(numbers)) as pool:
        return [*pool.map(lambda number: [*task(log, root, number)], numbers)]


def test_all_tasks_get_theirs_of_one_fetch_and_nothing_stays(log: Log, tmp_path: Path) -> None:
    assert read_all(log, tmp_path, range(RANGES)) == [mine(n) for n in range(RANGES)]
    assert log.fetched == [*range(ALL.first, ALL.last + 1)]
    assert log.alone == []
    assert [*tmp_path.iterdir()] == []


def test_tasks_that_run_one_after_the_other_share_as_well(log: Log, tmp_path: Path) -> None:
    assert [[*task(log, tmp_path, n)] for n in range(RANGES)] == [mine(n) for n in range(RANGES)]
    assert len(log.fetched) == COUNT
    assert [*tmp_path.iterdir()] == []


def test_another_goes_on_where_the_one_that_fetched_has_ended(log: Log, tmp_path: Path) -> None:
    log.stands_at = ALL.first + 10 * STEP
    first = task(log, tmp_path, 0)
    assert [next(first) for _ in range(20)] == mine(0)[:20]
    first.close()  # type: ignore[attr-defined] # a generator's
    log.stands_at = None
    assert [*task(log, tmp_path, 1)] == mine(1)
    assert sorted(log.fetched) == [*range(ALL.first, ALL.last + 1)]
    assert log.alone == []


def fetch_until_killed(root: Path, ready: Path) -> None:
    log = Log()
    log.stands_at = ALL.first + 5 * STEP
    share.WINDOW_RECORDS = STEP
    for offset in task(log, root, 0):
        if offset >= log.stands_at - RANGES:
            ready.touch()


def test_a_killed_process_gives_the_lock_back(log: Log, tmp_path: Path) -> None:
    root, ready = tmp_path / "root", tmp_path / "ready"
    process = multiprocessing.get_context("spawn").Process(
        target=fetch_until_killed, args=(root, ready)
    )
    process.start()
    eventually(ready.exists)
    process.kill()
    process.join(WAIT_S)
    (root.joinpath(*NAME) / "1700.part").write_text("1700 3")  # it was about to tell
    assert read_all(log, root, range(1, RANGES)) == [mine(n) for n in range(1, RANGES)]
    assert log.fetched == [*range(ALL.first + 5 * STEP, ALL.last + 1)]
    # The task is repeated: its first files are gone, and those that came since are not asked for.
    assert [*task(log, root, 0)] == mine(0)
    assert log.alone == [(0, ALL)]
    assert [*root.iterdir()] == []


@pytest.mark.parametrize("step", [STEP + 5, 4 * STEP])
def test_a_slow_task_takes_nothing_of_a_folder_that_was_made_again(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Tasks of one name may be there twice, and the first to end remove the folder of all."""
    slow = task(log, tmp_path, 0)
    found = [next(slow) for _ in range(12)]  # in the middle of a window
    folder = tmp_path.joinpath(*NAME)
    eventually(lambda: len([*folder.glob("*.window")]) == COUNT // STEP)
    shutil.rmtree(folder)
    monkeypatch.setattr(share, "WINDOW_RECORDS", step)
    monkeypatch.setattr(sys.modules[__name__], "STEP", step)
    twin = task(log, tmp_path, 1)
    first = next(twin)
    eventually(lambda: len([*folder.glob("*.window")]) == -(-COUNT // step))
    assert [*found, *slow] == mine(0)
    assert [first, *twin] == mine(1)


def test_who_fetches_for_a_folder_that_was_removed_spoils_nobodys_rows(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock has gone with the folder, so another fetches as well, in other windows."""
    gate, fetch = threading.Event(), log.fetch

    def held(
        offsets: OffsetRange, is_over: Callable[[], bool]
    ) -> Iterator[tuple[list[bytes], int]]:
        for messages, reached in fetch(offsets, is_over):
            yield messages, reached
            if reached == ALL.first + 5 * STEP:
                assert gate.wait(WAIT_S)

    log.fetch = held  # type: ignore[method-assign]
    one, folder = task(log, tmp_path, 0), tmp_path.joinpath(*NAME)
    found = [next(one)]
    eventually((folder / "000004.window").exists)
    shutil.rmtree(folder)
    monkeypatch.setattr(share, "WINDOW_RECORDS", 2 * STEP)
    twin = task(Log(), tmp_path, 1)
    first = next(twin)
    eventually(lambda: len([*folder.glob("*.window")]) == COUNT // (2 * STEP))
    gate.set()
    eventually(lambda: len([*folder.glob("*.window")]) > COUNT // (2 * STEP))
    assert [first, *twin] == mine(1)
    assert [*found, *one] == mine(0)


def test_a_task_that_has_no_slot_yet_gets_only_so_much(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "KEPT_BYTES_MAX", 20_000)
    assert [*task(log, tmp_path, 0)] == mine(0)
    kept = sum(path.stat().st_size for path in tmp_path.rglob("*.arrow"))
    assert 0 < kept < 25_000
    assert [*task(log, tmp_path, 3)] == mine(3)
    [(number, offsets)] = log.alone
    assert number == 3
    assert offsets.first > ALL.first


def test_where_nothing_can_be_kept_each_reads_alone(log: Log, tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.touch()
    assert [*task(log, no_folder, 2)] == mine(2)
    assert log.alone == [(2, ALL)]


def test_an_error_of_the_fetch_is_the_tasks(log: Log, tmp_path: Path) -> None:
    def broken(*_: object) -> Iterator[tuple[list[bytes], int]]:
        raise ValueError("the fetch")

    log.fetch = broken  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="the fetch"):
        [*task(log, tmp_path, 0)]


def test_what_killed_scans_have_left_is_cleared_after_an_hour(log: Log, tmp_path: Path) -> None:
    for name, age_s in (("old", 2 * share._STALE_S), ("young", 0)):
        folder = tmp_path / name / "orders-0"
        folder.mkdir(parents=True)
        for file in ("lock", "000000.window", "000000.1.arrow"):
            (folder / file).touch()
        at = folder.stat().st_mtime - age_s
        os.utime(folder, (at, at))
    [*task(log, tmp_path, 0)]
    assert not (tmp_path / "old").exists()
    assert (tmp_path / "young" / "orders-0" / "lock").exists()
