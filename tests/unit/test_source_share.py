"""One fetch for all tasks of an executor: whoever is killed, late or repeated gets its records."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from offsets import OffsetRange
from streams_adapter.source import janitor, meeting, share
from streams_adapter.source.meeting import summon
from streams_adapter.source.rounds import Round, Window, clear
from streams_adapter.source.share import SharedFetch
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

RANGES, COUNT, STEP = 4, 400, 10
ALL = OffsetRange(100, 100 + COUNT - 1)
NAME = ("scan", "orders-0")


class Log:
    """Offsets; the range of each is its last digit's. Counts what is fetched of it."""

    def __init__(self) -> None:
        self.fetched: list[int] = []
        self.alone: list[tuple[int, OffsetRange]] = []
        self.stands_at: int | None = None
        self.paced_by: Callable[[int], object] = bool  # called with each offset that is next

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
            self.paced_by(first)
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
    monkeypatch.setattr(meeting, "summon", lambda _: None)


def task(log: Log, root: Path, number: int) -> Iterator[int]:
    shared = SharedFetch(
        NAME,
        ALL,
        number,
        fetch=log.fetch,
        split=log.split,
        offset_of=int,
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


def test_a_window_ends_where_what_it_holds_is_large_keys_and_headers_included(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "WINDOW_RECORDS", 1_000_000)
    monkeypatch.setattr(share, "WINDOW_S", 3_600.0)
    monkeypatch.setattr(share, "WINDOW_BYTES_FIRST", share.WINDOW_BYTES)
    windows: list[int] = []

    def split(messages: list[bytes]) -> list[pa.RecordBatch]:
        windows.append(len(messages))
        return log.split(messages)

    shared = SharedFetch(
        NAME,
        ALL,
        0,
        fetch=log.fetch,
        split=split,
        offset_of=int,
        bytes_of=lambda messages: share.WINDOW_BYTES / 3 * len(messages) / STEP,
        alone=partial(log.read_alone, 0),
        root=tmp_path,
    )
    assert [o for batch in shared.batches() for o in batch["offset"].to_pylist()] == mine(0)
    assert windows == [3 * STEP] * (COUNT // (3 * STEP)) + [STEP]


def test_tasks_that_run_one_after_the_other_share_as_well(log: Log, tmp_path: Path) -> None:
    assert [[*task(log, tmp_path, n)] for n in range(RANGES)] == [mine(n) for n in range(RANGES)]
    assert len(log.fetched) == COUNT
    assert [*tmp_path.iterdir()] == []


def test_another_goes_on_where_the_one_that_fetched_has_ended(log: Log, tmp_path: Path) -> None:
    log.stands_at = ALL.first + 10 * STEP
    first = task(log, tmp_path, 0)
    assert [next(first) for _ in range(20)] == mine(0)[:20]
    second = task(log, tmp_path, 1)
    found = [next(second)]  # it is at work, so the files stay
    last_window = f"{log.stands_at - STEP}.window"
    eventually((tmp_path.joinpath(*NAME) / "0" / last_window).exists)
    first.close()  # type: ignore[attr-defined] # a generator's
    log.stands_at = None
    assert [*found, *second] == mine(1)
    assert sorted(log.fetched) == [*range(ALL.first, ALL.last + 1)]
    assert log.alone == []


def fetch_until_killed(root: Path, ready: Path) -> None:
    log = Log()
    log.stands_at = ALL.first + 5 * STEP
    share.WINDOW_RECORDS = STEP
    meeting.summon = lambda _: None
    for offset in task(log, root, 0):
        if offset >= log.stands_at - RANGES:
            ready.touch()


def killed_while_it_fetches(root: Path, ready: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=fetch_until_killed, args=(root, ready)
    )
    process.start()
    eventually(ready.exists)
    process.kill()
    process.join(WAIT_S)


def test_a_killed_process_gives_the_lock_back(log: Log, tmp_path: Path) -> None:
    root = tmp_path / "root"
    killed_while_it_fetches(root, tmp_path / "ready")
    (root.joinpath(*NAME) / "0" / "1700.part").write_text("1700 3")  # it was about to tell
    assert read_all(log, root, range(1, RANGES)) == [mine(n) for n in range(1, RANGES)]
    assert log.fetched == [*range(ALL.first + 5 * STEP, ALL.last + 1)]
    # The task is repeated: its first files are gone, and those that came since are not asked for.
    assert [*task(log, root, 0)] == mine(0)
    assert log.fetched[-COUNT:] == [*range(ALL.first, ALL.last + 1)]
    assert log.alone == []
    assert [*root.iterdir()] == []


@pytest.mark.parametrize("step", [STEP + 5, 4 * STEP])
def test_a_slow_task_takes_nothing_of_a_folder_that_was_made_again(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Tasks of one name may be there twice, and the first to end remove the folder of all."""
    slow = task(log, tmp_path, 0)
    found = [next(slow) for _ in range(12)]  # in the middle of a window
    folder = tmp_path.joinpath(*NAME)
    eventually(lambda: len([*folder.glob("0/*.window")]) == COUNT // STEP)
    shutil.rmtree(folder)
    monkeypatch.setattr(share, "WINDOW_RECORDS", step)
    monkeypatch.setattr(sys.modules[__name__], "STEP", step)
    twin = task(log, tmp_path, 1)
    first = next(twin)
    eventually(lambda: len([*folder.glob("0/*.window")]) == -(-COUNT // step))
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
    eventually((folder / "0" / f"{ALL.first + 4 * STEP}.window").exists)
    shutil.rmtree(folder)
    monkeypatch.setattr(share, "WINDOW_RECORDS", 2 * STEP)
    twin = task(Log(), tmp_path, 1)
    first = next(twin)
    eventually(lambda: len([*folder.glob("0/*.window")]) == COUNT // (2 * STEP))
    gate.set()
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
    assert log.alone == []


@pytest.mark.parametrize("ranges", [2, 4, 8, 16])
def test_more_ranges_than_slots_read_a_partition_twice_at_most(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: int, caplog: Any
) -> None:
    """One at a time; half of the partition fits into the folder."""
    monkeypatch.setattr(sys.modules[__name__], "RANGES", ranges)
    kept = Round(tmp_path, 0)
    assert kept.make(ALL.first)
    window = Window(ALL.first, ALL.first + STEP, (1,))
    _, size = kept.write_rows(window, 0, log._batch([ALL.first], ALL.first % ranges))
    shutil.rmtree(kept.folder)
    files = COUNT // STEP * min(ranges, STEP)
    monkeypatch.setattr(share, "KEPT_BYTES_MAX", files * size // 2)
    for number in range(ranges):
        assert [*task(log, tmp_path, number)] == mine(number)
    assert len(log.fetched) <= 2 * COUNT
    assert log.alone == []
    assert [*tmp_path.iterdir()] == []
    assert caplog.messages == []


def test_who_leaves_looks_into_rounds_only(tmp_path: Path) -> None:
    """A round that two begin at once vanishes for one of them, in the midst of a look at it."""
    names = [tmp_path / folder / "100-110.1.arrow" for folder in ("0", "1", "4f2a.part")]
    for path in names:
        path.parent.mkdir()
        path.touch()
    clear(tmp_path, 1)
    assert [path.exists() for path in names] == [False, False, True]


def test_a_third_reading_is_logged(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(share, "KEPT_BYTES_MAX", 1)
    for number in range(RANGES):
        assert [*task(log, tmp_path, number)] == mine(number)
    assert len(log.fetched) == RANGES * COUNT
    told = [it for it in caplog.messages if "Fewer keyRanges fetch less" in it]
    assert len(told) == 2
    assert "orders-0: scan scan fetches it 3 times on this executor" in told[0]


def test_those_that_are_left_behind_at_work_meet_again(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "KEPT_BYTES_MAX", 4_000)
    fast = task(log, tmp_path, 0)
    first = next(fast)
    slow = [task(log, tmp_path, number) for number in (1, 2, 3)]
    found = [[next(it)] for it in slow]  # they run, and are busy with their first records
    assert [first, *fast] == mine(0)
    reached, turn = [it[0] for it in found], threading.Condition()

    def wait_for_the_slowest(offset: int) -> None:
        """Nobody is left behind again only because its thread had no core for a while."""
        with turn:
            turn.wait_for(lambda: min(reached) >= offset - STEP - RANGES, WAIT_S)

    def rest_of(i: int) -> None:
        for offset in slow[i]:
            found[i].append(offset)
            with turn:
                reached[i] = offset
                turn.notify()

    log.paced_by = wait_for_the_slowest
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(rest_of, range(3)))
    assert found == [mine(n) for n in (1, 2, 3)]
    assert log.alone == []
    assert len(log.fetched) <= 2 * COUNT + STEP
    assert [*tmp_path.iterdir()] == []


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


# -- the janitor -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "grace_s"), [("killed", 3_600.0), ("ended", 0.2)])
def test_nothing_is_left_of_a_scan_whose_tasks_have_gone(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, grace_s: float
) -> None:
    """At once if one was broken off; else others may have no slot yet, and it takes a moment."""
    monkeypatch.setattr(janitor, "GRACE_S", grace_s)
    monkeypatch.setattr(janitor, "IDLE_S", 0.2)
    root = tmp_path / "root"
    if how == "killed":
        killed_while_it_fetches(root, tmp_path / "ready")
    else:
        assert [*task(log, root, 0)] == mine(0)
    assert [*root.glob("*/*/0/*.arrow")]
    janitor.main(root)
    assert [*root.iterdir()] == []


def opened(log: Log, root: Path, number: int) -> Iterator[pa.RecordBatch]:
    """A task that can be broken off: closing the generator closes its fetch."""
    return SharedFetch(
        NAME,
        ALL,
        number,
        fetch=log.fetch,
        split=log.split,
        offset_of=int,
        alone=partial(log.read_alone, number),
        root=root,
    ).batches()


def test_a_task_that_is_broken_off_leaves_nothing_also_without_a_janitor(
    log: Log, tmp_path: Path
) -> None:
    it = opened(log, tmp_path, 0)
    next(it)
    assert [*tmp_path.rglob("*.arrow")]
    it.close()  # type: ignore[attr-defined] # a generator's
    assert [*tmp_path.iterdir()] == []


def test_a_task_that_ends_while_it_writes_leaves_no_half_of_a_window(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_second, is_ending = threading.Event(), threading.Event()
    write_rows, close = Round.write_rows, share._Fetcher.close

    def slow(self: Round, window: Window, number: int, batch: pa.RecordBatch) -> tuple[Path, int]:
        if window.first == ALL.first + STEP:
            in_second.set()
            assert is_ending.wait(WAIT_S)
        return write_rows(self, window, number, batch)

    def ending(self: share._Fetcher) -> None:
        self._is_over = True
        is_ending.set()
        close(self)

    monkeypatch.setattr(Round, "write_rows", slow)
    monkeypatch.setattr(share._Fetcher, "close", ending)
    broken_off, stays = opened(log, tmp_path, 0), opened(log, tmp_path, 1)
    next(broken_off)
    next(stays)
    assert in_second.wait(WAIT_S)
    broken_off.close()  # type: ignore[attr-defined] # a generator's
    folder = tmp_path.joinpath(*NAME) / "0"
    assert {int(path.name.split("-")[0]) for path in folder.glob("*.arrow")} == {ALL.first}
    assert [path.name for path in folder.glob("*.window")] == [f"{ALL.first}.window"]
    stays.close()  # type: ignore[attr-defined] # a generator's


def test_the_first_windows_are_small_and_grow_with_what_was_fetched(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "WINDOW_RECORDS", 1_000_000)
    monkeypatch.setattr(share, "WINDOW_S", 3_600.0)
    monkeypatch.setattr(share, "WINDOW_BYTES_FIRST", 20)
    monkeypatch.setattr(share, "WINDOW_BYTES", 60)
    windows: list[int] = []

    def split(messages: list[bytes]) -> list[pa.RecordBatch]:
        windows.append(len(messages))
        return log.split(messages)

    shared = SharedFetch(
        NAME,
        ALL,
        0,
        fetch=log.fetch,
        split=split,
        alone=partial(log.read_alone, 0),
        offset_of=int,
        bytes_of=len,
        root=tmp_path,
    )
    assert sum(it.num_rows for it in shared.batches()) == COUNT // RANGES
    assert windows[:5] == [20] * 5, "a fourth of what was fetched is not more"
    assert max(windows[5:]) == 60
    assert windows == [*sorted(windows[:-1]), windows[-1]]


def test_who_is_there_is_left_alone(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "GRACE_S", 0.0)
    it = task(log, tmp_path, 0)
    found = [next(it)]
    janitor._look(tmp_path / NAME[0])
    assert [*found, *it] == mine(0)
    assert log.fetched == [*range(ALL.first, ALL.last + 1)]
    assert len([*tmp_path.rglob("*.arrow")]) == COUNT // STEP * (RANGES - 1)
    janitor._look(tmp_path / NAME[0])
    assert [*tmp_path.iterdir()] == []


def test_a_task_that_comes_while_its_folder_is_cleared_makes_it_again(
    log: Log, tmp_path: Path
) -> None:
    folder = tmp_path / NAME[0]
    folder.mkdir()
    with ThreadPoolExecutor(1) as pool, janitor._locked(folder) as is_ours:
        assert is_ours
        rows = pool.submit(lambda: [*task(log, tmp_path, 0)])
        folder.rmdir()
    assert rows.result() == mine(0)
    assert log.alone == []


def test_a_janitor_comes_by_itself_and_stays_for_a_while(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "scan" / "orders-0").mkdir(parents=True)
    (root / "scan" / "orders-0" / "at.0").touch()
    summon(root)
    eventually(lambda: not (root / "scan").exists())
    with janitor._locked(root) as is_ours:
        assert not is_ours, "it stays for the next scan"
