"""Keyed state without Kafka: entries, positions, the store on disk, and a partition's shard."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, TopicPartition, key_hash, subtract
from assignors.key_hash import PARTITION_HASH
from coop_consumer import Config, Context, Worker
from coop_consumer.core.record import Contents, Record, copy_of
from coop_consumer.errors import ConfigError, MisuseError
from coop_consumer.state import positions as at
from coop_consumer.state.entry import (
    EntryError,
    StateEntry,
    Version,
    decode,
    encode,
    mark_of,
    place_of,
)
from coop_consumer.state.folder import Folder
from coop_consumer.state.grants import Grants
from coop_consumer.state.keyed import KeyedState
from coop_consumer.state.positions import Position
from coop_consumer.state.shard import Restoring, Shard, Write
from coop_consumer.state.store import Memory, Store
from coop_consumer.styles import refuse_state

ORDERS = TopicPartition("orders", 0)
CHANGELOG_ID = b"c" * 16
MARK = mark_of(b"orders' own id")
NOW_S, DAY_S = 1_800_000_000, 86_400

versions = st.builds(
    Version, st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1), st.binary(max_size=50)
)
hashes = st.integers(0, 40)
ranges = st.builds(lambda a, b: KeyRange(min(a, b), max(a, b)), hashes, hashes)


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory()


# -- entries ---------------------------------------------------------------------------------------


@given(st.builds(StateEntry, versions, st.none() | versions), st.integers(0, 2**32 - 1))
def test_an_entry_survives_its_bytes(entry: StateEntry, mark: int) -> None:
    data = encode(entry, mark)
    assert decode(data) == entry
    assert place_of(data) == (mark, entry.now.place)


@pytest.mark.parametrize("data", [b"", b"\x02" + bytes(30), b"\x01" + bytes(5)])
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(EntryError):
        decode(data)


def test_an_entry_that_is_cut_off_is_refused() -> None:
    data = encode(StateEntry(Version(1, 2, b"now"), Version(1, 1, b"before")), MARK)
    with pytest.raises(EntryError, match="cut off"):
        decode(data[:30])


def test_a_record_that_comes_again_finds_what_it_found() -> None:
    entry = StateEntry(Version(1, 5, b"1")).changed((1, 7), b"2")
    assert entry.found_by((1, 7)) == Version(1, 5, b"1")
    again = entry.changed((1, 7), b"2, again")
    assert again == StateEntry(Version(1, 7, b"2, again"), Version(1, 5, b"1"))
    assert again.found_by((1, 9)) == Version(1, 7, b"2, again")


def test_places_never_go_back_but_a_rewind_begins_anew() -> None:
    entry = StateEntry(Version(1, 7, b"new"))
    assert entry.changed((1, 5), b"late").now == Version(1, 7, b"late")
    assert entry.changed((2, 5), b"rewound").now == Version(2, 5, b"rewound")


@given(st.lists(st.tuples(st.lists(ranges, max_size=3), st.integers(1, 9)), max_size=6))
def test_positions_are_as_of_each_hash_alone(moves: list[tuple[list[KeyRange], int]]) -> None:
    model: dict[int, int] = {}
    positions: at.Positions = ()
    for number, (own, offset) in enumerate(moves):
        positions = at.moved(positions, own, offset, number)
        for hash_ in (h for it in own for h in range(it.lo, it.hi + 1)):
            model[hash_] = max(model.get(hash_, 0), offset)
    told = at.begins(positions, [KeyRange(0, 40)])
    assert [it.lo for it, _, _ in told] == [0, *(it.hi + 1 for it, _, _ in told[:-1])]
    assert {h: off for it, off, _ in told for h in range(it.lo, it.hi + 1) if off} == model
    assert at.decode(at.encode(positions, CHANGELOG_ID), CHANGELOG_ID) == positions


def test_positions_of_another_changelog_or_format_are_none() -> None:
    data = at.encode((Position(WHOLE, 5, NOW_S),), CHANGELOG_ID)
    assert at.decode(data, b"d" * 16) is None
    assert at.decode(data[:-1], CHANGELOG_ID) is None
    assert at.decode(b"", CHANGELOG_ID) is None


# -- the store -------------------------------------------------------------------------------------


def test_a_store_opens_with_what_was_written_and_its_positions(
    tmp_path: Path, memory: Memory
) -> None:
    store = Store(tmp_path / "s", memory, CHANGELOG_ID)
    store.write({b"a": b"1", b"b": b"2"}, (Position(WHOLE, 7, NOW_S),))
    store.close()
    again = Store(tmp_path / "s", memory, CHANGELOG_ID)
    assert (again.get(b"a"), again.get(b"b"), again.get(b"c")) == (b"1", b"2", None)
    assert again.positions == (Position(WHOLE, 7, NOW_S),)
    again.close()


def test_a_range_is_forgotten_as_one_piece(tmp_path: Path, memory: Memory) -> None:
    store, keys = Store(tmp_path / "s", memory, CHANGELOG_ID), [b"%d" % i for i in range(100)]
    store.write(dict.fromkeys(keys, b"v"), ())
    lower, upper = WHOLE.parts(2)
    store.forget([upper], ())
    assert {key for key in keys if store.get(key)} == {k for k in keys if key_hash(k) in lower}
    assert upper.hi == KEY_HASH_MAX
    store.close()


def spoil_manifest(path: Path) -> None:
    next(path.glob("MANIFEST*")).write_bytes(b"spoilt")


def spoil_current(path: Path) -> None:
    (path / "CURRENT").write_bytes(b"spoilt")


@pytest.mark.parametrize("spoil", [spoil_manifest, spoil_current])
def test_a_store_that_is_spoilt_begins_empty(tmp_path: Path, memory: Memory, spoil: Any) -> None:
    store = Store(tmp_path / "s", memory, CHANGELOG_ID)
    store.write({b"a": b"1"}, (Position(WHOLE, 7, NOW_S),))
    store.close()
    spoil(tmp_path / "s")
    again = Store(tmp_path / "s", memory, CHANGELOG_ID)
    assert (again.get(b"a"), again.positions) == (None, ())
    again.close()


def test_a_store_of_another_changelog_begins_empty(tmp_path: Path, memory: Memory) -> None:
    store = Store(tmp_path / "s", memory, CHANGELOG_ID)
    store.write({b"a": b"1"}, (Position(WHOLE, 7, NOW_S),))
    store.close()
    again = Store(tmp_path / "s", memory, b"d" * 16)
    assert (again.get(b"a"), again.positions) == (None, ())
    again.close()


WRITER = """
import sys
from pathlib import Path
from assignors import WHOLE
from coop_consumer.state.positions import Position
from coop_consumer.state.store import Memory, Store

store = Store(Path(sys.argv[1]), Memory(), b"c" * 16)
for number in range(10**9):
    changes = {b"%d" % ((number * 10 + i) % 5_000): b"%d " % (number * 10 + i) + bytes(200)
               for i in range(10)}
    store.write(changes, (Position(WHOLE, number * 10 + 10, 1),))
    if number % 1_000 == 0:
        store.flush(wait=number % 2_000 == 0)
        print(number, flush=True)
"""


@pytest.mark.parametrize("rounds", [3, 8, 13])
def test_after_a_kill_a_store_has_just_what_its_position_says(
    tmp_path: Path, memory: Memory, rounds: int
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "s")], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    lines = [int(child.stdout.readline()) for _ in range(rounds)]
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    store = Store(tmp_path / "s", memory, CHANGELOG_ID)
    [position] = store.positions
    assert position.offset >= (lines[-1] - 1_000) * 10  # what was flushed for certain
    for key in range(5_000):
        last = (position.offset - 1 - key) // 5_000 * 5_000 + key
        found = store.get(b"%d" % key)
        assert (found and int(found.split(b" ")[0])) == (last if last >= 0 else None)
    store.close()


# -- where stores lie ------------------------------------------------------------------------------


def test_processes_take_a_place_each_and_a_restart_finds_it_again(tmp_path: Path) -> None:
    root = str(tmp_path)
    first, second = Folder(root, "a/b", None), Folder(root, "a/b", None)
    assert first.path != second.path
    assert first.path.parent.parent == tmp_path
    first.close()
    assert Folder(root, "a/b", None).path == first.path
    named = Folder(root, "a/b", "..")
    assert named.path.parent == first.path.parent
    second.close()
    named.close()


def test_who_is_new_takes_what_another_has_left_but_whoever_returns_finds_his_own(
    tmp_path: Path,
) -> None:
    """As tasks of Spark do: a second launch has other names, and the same hosts."""
    root = str(tmp_path)
    first = [Folder(root, "g", name) for name in ("app-1-0", "app-1-1", "app-1-2")]
    for folder in first:
        folder.close()
    assert Folder(root, "g", "app-1-1").path == first[1].path, "the next attempt of a task"
    second = [Folder(root, "g", name) for name in ("app-2-0", "app-2-1", "app-2-2")]
    assert {folder.path for folder in second[:2]} == {first[0].path, first[2].path}
    assert second[2].path not in {folder.path for folder in first}, "app-1-1 is at work"


def grow_old(folder: Folder) -> None:
    for path in [*folder.path.rglob("*"), folder.path]:
        os.utime(path, (1, 1))


def test_what_nobody_uses_any_more_is_deleted_whoever_left_it(tmp_path: Path) -> None:
    root = str(tmp_path)
    left, used, fresh, held = (Folder(root, "g", name) for name in ("a", "b", "c", "d"))
    for folder in (left, used, fresh, held):
        folder.store("orders", 0, b"i").mkdir()
        grow_old(folder)
    fresh.store("orders", 1, b"i").mkdir()
    for folder in (left, used, fresh):
        folder.close()
    os.utime(used.store("orders", 0, b"i"))
    newcomer = Folder(root, "g", "c")
    assert newcomer.path == fresh.path
    assert [path.name for path in fresh.path.iterdir() if path.is_dir()] == ["orders-1-69"]
    assert not left.path.exists()
    assert used.store("orders", 0, b"i").exists()
    assert held.store("orders", 0, b"i").exists()


def test_a_directory_that_is_deleted_under_our_hands_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Folder(str(tmp_path), "g", None)
    left.close()
    flock = fcntl.flock

    def late(lock: int, how: int) -> None:
        monkeypatch.undo()
        (left.path / "lock").unlink()
        left.path.rmdir()
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", late)
    taken = Folder(str(tmp_path), "g", None)
    assert (taken.path / "lock").exists()
    assert Folder(str(tmp_path), "g", None).path != taken.path


def test_without_a_directory_nothing_is_left_behind() -> None:
    folder = Folder(None, "billing", None)
    assert folder.path.is_dir()
    folder.close()
    assert not folder.path.exists()


def test_what_a_kill_has_left_behind_goes_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "import os; from coop_consumer.state.folder import Folder",
        "Folder(None, 'g', None).store('orders', 0, b'i').mkdir(); os.kill(os.getpid(), 9)",
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = Folder(None, "g", None)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = subprocess.run([sys.executable, "-c", "\n".join(lines)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    next_one = Folder(None, "g", None)
    assert set(tmp_path.iterdir()) == {held.path, next_one.path}


# -- a partition's shard ---------------------------------------------------------------------------


def record(offset: int, key: bytes | None, epoch: int = 1) -> Any:
    contents = Contents(ORDERS, offset, key, 0, 1, 0, b"", [], (0, 0), None)
    tenure: Any = SimpleNamespace(tp=ORDERS, epoch=epoch)
    return Record(tenure, offset, key, 0, copy_of(contents)._message)


class Log:
    """A changelog in memory, and the state that it is of."""

    def __init__(self, path: Path, memory: Memory) -> None:
        self.records: list[tuple[int, bytes, bytes | None]] = []
        self.writes: list[tuple[Write, int]] = []
        self.shard = Shard(ORDERS, MARK, Store(path, memory, CHANGELOG_ID))
        self.state = KeyedState({ORDERS: self.shard}, self._write)

    def _write(self, _: Record, write: Write) -> None:
        assert self.shard.put(write)
        self.writes.append((write, len(self.records)))
        self.records.append((len(self.records), write.key, write.value))

    def acknowledge(self) -> None:
        writes, self.writes = self.writes, []
        self.shard.settle(writes)
        self.shard.confirm(self.shard.reached(), NOW_S)

    def restore(
        self,
        ranges: tuple[KeyRange, ...],
        of: Log,
        now_s: int = NOW_S,
        until: int | None = None,
    ) -> Restoring:
        restoring = self.shard.begin(ranges, (0, len(of.records)), now_s, DAY_S / 2)
        records = of.records[restoring.first : until]
        if records:
            self.shard.restore(restoring, records, records[-1][0] + 1, now_s)
        if until is None:
            self.shard.hold(ranges, restoring.end, now_s)
        return restoring


@pytest.fixture
def logs(tmp_path: Path, memory: Memory) -> tuple[Log, Log]:
    return Log(tmp_path / "one", memory), Log(tmp_path / "two", memory)


def test_state_is_found_before_and_after_it_is_acknowledged(logs: tuple[Log, Log]) -> None:
    log, state = logs[0], logs[0].state
    log.shard.hold((WHOLE,), 0, NOW_S)
    assert (state.get(record(1, b"k")), state.changed_by(record(1, b"k"))) == (None, None)
    state.put(record(1, b"k"), b"one")
    assert state.get(record(1, b"k")) is None  # a retry finds what it found
    for _ in range(2):
        assert (state.get(record(2, b"k")), state.changed_by(record(2, b"k"))) == (b"one", 1)
        log.acknowledge() if log.writes else None
    state.delete(record(2, b"k"))
    assert state.get(record(3, b"k")) is None
    log.acknowledge()
    assert state.get(record(3, b"k")) is None
    assert [value for _, _, value in log.records][-1] is None


def test_a_late_acknowledgement_does_not_hide_a_newer_write(logs: tuple[Log, Log]) -> None:
    log = logs[0]
    log.state.put(record(1, b"k"), b"one")
    first, log.writes = log.writes, []
    log.state.put(record(2, b"k"), b"two")
    log.shard.settle(first)
    assert log.state.get(record(3, b"k")) == b"two"


def test_who_has_no_key_has_no_state(logs: tuple[Log, Log]) -> None:
    with pytest.raises(MisuseError, match="orders-0@4 has no key"):
        logs[0].state.get(record(4, None))
    with pytest.raises(MisuseError, match="not bytes"):
        logs[0].state.put(record(4, b"k"), "text")  # type: ignore[arg-type] # on purpose


def test_a_new_owner_restores_its_range_alone(logs: tuple[Log, Log]) -> None:
    one, two = logs
    keys = [b"%d" % i for i in range(50)]
    for offset, key in enumerate(keys):
        one.state.put(record(offset, key), b"of " + key)
    lower, upper = WHOLE.parts(2)
    restoring = two.restore((upper,), of=one)
    mine = [key for key in keys if key_hash(key) in upper]
    assert (restoring.read, restoring.applied) == (50, len(mine))
    assert [key for key in keys if two.state.get(record(99, key))] == mine
    assert two.restore((lower,), of=one).applied == 50 - len(mine)


def test_a_range_that_returns_is_read_from_where_it_left(logs: tuple[Log, Log]) -> None:
    one, two = logs
    one.shard.hold((WHOLE,), 0, NOW_S)
    for offset in range(10):
        one.state.put(record(offset, b"k"), b"%d" % offset)
    one.acknowledge()
    one.shard.release((WHOLE,))
    two.records = one.records
    two.restore((WHOLE,), of=two)
    two.state.put(record(10, b"k"), b"10")
    assert one.restore((WHOLE,), of=two).read == 1
    assert one.state.get(record(11, b"k")) == b"10"


def test_who_was_away_for_too_long_reads_all_anew_and_keeps_nothing(
    logs: tuple[Log, Log],
) -> None:
    one, two = logs
    one.shard.hold((WHOLE,), 0, NOW_S)
    one.state.put(record(0, b"k"), b"deleted meanwhile, and that is forgotten")
    one.state.put(record(1, b"l"), b"l")
    one.acknowledge()
    two.records = one.records[1:]
    two.records = [(1, b"l", one.records[1][2])]
    restoring = one.shard.begin((WHOLE,), (0, 2), NOW_S + DAY_S, DAY_S / 2)
    assert restoring.first == 0
    one.shard.restore(restoring, two.records, 2, NOW_S)
    assert [one.state.get(record(9, key)) for key in (b"k", b"l")] == [None, b"l"]


def test_a_restore_that_was_broken_off_goes_on(logs: tuple[Log, Log]) -> None:
    one, two = logs
    for offset in range(10):
        one.state.put(record(offset, b"%d" % (offset % 3)), b"%d" % offset)
    two.restore((WHOLE,), of=one, until=6)
    assert two.restore((WHOLE,), of=one).read == 4
    assert two.state.get(record(10, b"0")) == b"9"


def test_a_late_write_of_a_process_taken_for_dead_is_left_out_and_repaired(
    logs: tuple[Log, Log],
) -> None:
    one, two = logs
    one.state.put(record(5, b"k"), b"new")
    late = StateEntry(Version(1, 3, b"late"))
    one.records.append((1, b"k", encode(late, MARK)))
    restoring = two.restore((WHOLE,), of=one)
    assert restoring.stale == {b"k"}
    assert two.state.get(record(9, b"k")) == b"new"


def test_a_hash_with_a_tenure_of_its_own_stays_held_beside_a_restore(
    logs: tuple[Log, Log],
) -> None:
    """A hot key goes on while the ranges round it come back: its state is not read again."""
    shard, hot = logs[0].shard, KeyRange(key_hash(b"k"), key_hash(b"k"))
    beside = subtract((WHOLE,), (hot,))
    shard.hold((WHOLE,), 0, NOW_S)
    shard.release(beside)
    assert not shard.begin(beside, (0, 5), NOW_S, DAY_S).wants(b"k", 3)
    assert shard.held == (hot,)
    shard.release((hot,))
    assert shard.begin(beside, (0, 5), NOW_S, DAY_S).wants(b"k", 3), "else it is read along"


def test_what_a_handler_that_ran_on_has_put_is_no_late_write(logs: tuple[Log, Log]) -> None:
    """It is stored while the ranges round its hash are read to an end that lies before it."""
    log, own = logs[0], KeyRange(key_hash(b"k"), key_hash(b"k"))
    beside = subtract((WHOLE,), (own,))
    log.shard.hold((WHOLE,), 0, NOW_S)
    log.state.put(record(1, b"k"), b"one")
    log.shard.release((WHOLE,))
    restoring = log.shard.begin(beside, (0, len(log.records)), NOW_S, DAY_S)
    log.state.put(record(2, b"k"), b"two")
    log.acknowledge()
    log.shard.restore(restoring, log.records[: restoring.end], restoring.end, NOW_S)
    assert restoring.stale == {b"k"}
    assert restoring.stale_in(beside) == []


def test_state_of_a_topic_that_was_made_anew_is_left_out(logs: tuple[Log, Log]) -> None:
    one, two = logs
    one.records.append((0, b"k", encode(StateEntry(Version(1, 3, b"old topic's")), MARK + 1)))
    two.restore((WHOLE,), of=one)
    assert two.state.get(record(9, b"k")) is None


def test_acknowledgements_move_only_what_is_held(logs: tuple[Log, Log]) -> None:
    log = logs[0]
    lower, upper = WHOLE.parts(2)
    log.shard.hold((lower, upper), 0, NOW_S)
    log.shard.release((upper,))
    log.state.put(record(0, b"k"), b"v")
    log.acknowledge()
    told = log.shard.begin((lower, upper), (0, 1), NOW_S, DAY_S).pieces
    assert [offset for _, offset, _ in told] == [1, 0]


def test_what_is_not_confirmed_is_read_again(logs: tuple[Log, Log]) -> None:
    """Writes of a member that was taken for dead are acknowledged behind the new owner's."""
    one, two = logs
    one.shard.hold((WHOLE,), 0, NOW_S)
    one.state.put(record(0, b"k"), b"0")
    one.acknowledge()
    two.records = one.records
    two.restore((WHOLE,), of=two)
    two.state.put(record(1, b"k"), b"1")
    one.state.put(record(0, b"l"), b"late")
    late, one.writes = one.writes, []
    one.shard.settle(late)
    reached = one.shard.reached()
    one.shard.release((WHOLE,))
    one.shard.confirm(reached, NOW_S)  # not for ranges that have left
    assert one.restore((WHOLE,), of=two).read == 2
    assert one.state.get(record(2, b"k")) == b"1"


def test_keys_of_lost_ranges_are_known_until_they_come_back(logs: tuple[Log, Log]) -> None:
    shard = logs[0].shard
    shard.hold((WHOLE,), 0, NOW_S)
    lower, upper = WHOLE.parts(2)
    shard.release((lower,))
    assert not shard.is_lost(b"k")
    shard.release((lower, upper), lost=True)
    assert shard.is_lost(b"k")
    assert not shard.put(Write(shard, b"k", b"v"))
    shard.hold((WHOLE,), 0, NOW_S, (upper,))
    assert shard.lost == (lower,)
    shard.hold((WHOLE,), 0, NOW_S)
    assert shard.put(Write(shard, b"k", b"v"))


def test_state_of_a_record_that_was_not_finished_here_is_not_found_when_its_range_comes_back(
    logs: tuple[Log, Log],
) -> None:
    one, two = logs
    one.shard.hold((WHOLE,), 0, NOW_S)
    one.state.put(record(0, b"k"), b"of a failed attempt")
    one.shard.release((WHOLE,))
    two.restore((WHOLE,), of=two)
    two.state.put(record(0, b"k"), b"of its next owner")
    two.acknowledge()
    one.restore((WHOLE,), of=two)
    assert one.state.get(record(1, b"k")) == b"of its next owner"


@pytest.mark.parametrize("is_a_new_run", [False, True])
def test_what_was_put_and_not_sent_is_not_found_after_a_loss(
    logs: tuple[Log, Log], is_a_new_run: bool
) -> None:
    log = logs[0]
    log.shard.hold((WHOLE,), 0, NOW_S)
    log.state.put(record(0, b"k"), b"1")
    log.acknowledge()
    log.state.put(record(1, b"k"), b"2")
    assert log.state.get(record(2, b"k")) == b"2"
    if is_a_new_run:
        log.shard.begin_again()
    else:
        log.shard.release((WHOLE,), lost=True)
    log.shard.hold((WHOLE,), 1, NOW_S)
    assert log.state.get(record(2, b"k")) == b"1"
    log.state.put(record(1, b"k"), b"2 again")
    assert log.state.get(record(2, b"k")) == b"2 again"


def test_writes_and_acknowledgements_of_many_threads_lose_nothing(logs: tuple[Log, Log]) -> None:
    """Each thread is at a key of its own, as handlers are; one more acknowledges."""
    log, ends = logs[0], threading.Event()
    log.shard.hold((WHOLE,), 0, NOW_S)
    sending = threading.Lock()

    def write(record: Record, write: Write) -> None:
        with sending:
            log._write(record, write)

    state = KeyedState({ORDERS: log.shard}, write)

    def count(key: bytes) -> None:
        for offset in range(500):
            state.put(record(offset, key), b"%d" % (int(state.get(record(offset, key)) or 0) + 1))

    def acknowledge() -> None:
        while not ends.is_set() or log.writes:
            with sending:
                writes, log.writes = log.writes, []
            if writes:
                log.shard.settle(writes)

    threads = [threading.Thread(target=count, args=(b"%d" % i,)) for i in range(4)]
    settler = threading.Thread(target=acknowledge)
    for thread in (settler, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    ends.set()
    settler.join()
    assert [state.get(record(999, b"%d" % i)) for i in range(4)] == [b"500"] * 4
    assert not log.shard._pending


# -- who may have it -------------------------------------------------------------------------------

NEEDED = {"bootstrap.servers": "b:9092", "group.id": "billing"}


def test_a_worker_that_did_not_ask_has_no_state() -> None:
    assert not Worker.keyed_state
    with pytest.raises(MisuseError, match="keyed_state"):
        Context(Config.from_dict(NEEDED), "m", 1).state  # noqa: B018 - it raises


def test_child_processes_and_keys_without_an_order_are_refused() -> None:
    with pytest.raises(MisuseError, match="process"):
        refuse_state(Config.from_dict(NEEDED), "process")
    with pytest.raises(ConfigError, match="ordering"):
        refuse_state(Config.from_dict({**NEEDED, "ordering": "none"}), "thread")
    refuse_state(Config.from_dict({**NEEDED, "ordering": "partition"}), "inline")


def test_a_changelog_is_named_by_group_and_topic() -> None:
    assert Config.from_dict(NEEDED).changelog_for("orders") == "billing-orders-state"
    own = {**NEEDED, "group.id": "an odd name", "state.changelog.topic": "state.{topic}"}
    assert Config.from_dict(own).changelog_for("orders") == "state.orders"
    with pytest.raises(ConfigError, match="an odd name-orders-state"):
        Config.from_dict({**NEEDED, "group.id": "an odd name"}).changelog_for("orders")
    with pytest.raises(ConfigError, match="topic"):
        Config.from_dict({**NEEDED, "state.changelog.topic": "state"})
    with pytest.raises(ConfigError, match="topic"):
        Config.from_dict({**NEEDED, "state.changelog.topic": "{topic}"})


def test_a_copied_record_has_no_state_and_the_refusal_says_so() -> None:
    copied = copy_of(Contents(ORDERS, 7, b"k", 1, 1, 2, b"v", [], (0, 0), None))
    state = KeyedState({}, lambda *_: None)
    with pytest.raises(MisuseError, match=r"orders-0@7 is a copy"):
        state.get(copied)


# -- grants ----------------------------------------------------------------------------------------


def grants_of(log: Log, **settings: str) -> Grants:
    config = Config.from_dict({"bootstrap.servers": "b:1", "group.id": "g", **settings})
    return Grants(config, {ORDERS: log.shard})


def test_what_leaves_while_it_is_restored_is_not_held(logs: tuple[Log, Log]) -> None:
    shard, grants = logs[0].shard, grants_of(logs[0])
    lower, upper = WHOLE.parts(2)
    grants.coming(ORDERS, (WHOLE,))
    grant = grants.granted(ORDERS, (WHOLE,))
    restoring = shard.begin(grant.ranges, (0, 0), NOW_S, DAY_S)
    grants.leaving(ORDERS, (lower,), lost=False)
    grants.restored(grant, shard, restoring, NOW_S)
    grants.end(grant)
    assert shard.held == (upper,)
    grants.leaving(ORDERS, (upper,), lost=True)
    assert shard.held + shard.lost == (upper,)


def test_the_same_ranges_are_granted_in_the_order_of_their_assignments(
    logs: tuple[Log, Log],
) -> None:
    grants = grants_of(logs[0])
    grants.coming(ORDERS, (WHOLE,))
    grants.leaving(ORDERS, (WHOLE,), lost=False)
    grants.coming(ORDERS, (WHOLE,))
    first = grants.granted(ORDERS, (WHOLE,))
    grants.end(first)
    assert (first.left, grants.granted(ORDERS, (WHOLE,)).left) == ((), (WHOLE,))


def test_where_the_partition_is_the_order_its_one_hash_stands_for_all_keys(
    logs: tuple[Log, Log],
) -> None:
    grants = grants_of(logs[0], ordering="partition")
    others = (KeyRange(PARTITION_HASH + 1, KEY_HASH_MAX),)
    for ranges, of_keys in (((WHOLE,), (WHOLE,)), (others, ())):
        grants.coming(ORDERS, ranges)
        assert grants.granted(ORDERS, ranges).ranges == of_keys
