"""A commit log in memory: shared appends, conflicts, checks, reads, snapshots, bad input."""

from __future__ import annotations

import logging
import threading
from asyncio import CancelledError
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from coop_consumer.core.transaction import Said
from coop_consumer.errors import (
    AppendInDoubtError,
    AppendTooLargeError,
    LogTokenError,
    MisuseError,
    RecordTooLargeError,
    SnapshotError,
    StateMachineError,
)
from coop_consumer.logs import (
    Applied,
    CommitLog,
    Conflict,
    Denied,
    MemoryPartition,
    MemorySnapshots,
    NewRecord,
    VisibleRecord,
)
from coop_consumer.logs.memory_log import MemoryClient
from coop_consumer.logs.port import Landed, StableRead
from coop_consumer.logs.records import LogToken
from coop_consumer.logs.snapshots import (
    BrokenSnapshot,
    KeptSnapshot,
    snapshot_of,
    snapshot_records,
)
from coop_consumer.logs.state_machine import SNAPSHOT_PART_MAX_BYTES
from tests.support.journal import WAIT_S
from tests.support.linearizable import Call, Kind, unexplained
from tests.support.registers import Registers, compare_and_set, put


@pytest.fixture
def partition() -> MemoryPartition:
    return MemoryPartition(lock=threading.RLock())


@pytest.fixture
def log(partition: MemoryPartition) -> Iterator[CommitLog]:
    with CommitLog.in_memory(partition, "a", Registers()) as opened:
        yield opened


def opened(partition: MemoryPartition, name: str, **more: Any) -> tuple[CommitLog, Registers]:
    machine = Registers()
    return CommitLog.in_memory(partition, name, machine, **more), machine


def test_what_is_appended_is_applied_and_answered(partition: MemoryPartition) -> None:
    log, machine = opened(partition, "a")
    with log:
        first = log.append([put("x", 1), compare_and_set("x", 7, 2)])
        second = log.append([compare_and_set("x", 1, 2)])
    assert isinstance(first, Applied)
    assert isinstance(second, Applied)
    assert (first.results, second.results) == ([True, False], [True])
    assert machine.values == {"x": 2}
    assert machine.offsets == [0, 1, 3]  # a marker lies between
    assert log.token == second.token


class Gate(MemoryClient):
    """A log whose commits wait until a test lets them go on."""

    def __init__(self, partition: MemoryPartition) -> None:
        super().__init__(partition, "gated")
        self.reached, self.opened = threading.Event(), threading.Event()

    def commit(self) -> Said:
        self.reached.set()
        assert self.opened.wait(WAIT_S)
        return super().commit()


def test_callers_that_wait_share_the_next_append(partition: MemoryPartition) -> None:
    client = Gate(partition)
    with CommitLog(client, Registers()) as log:
        first = log.append_later([put("x", 0)])
        assert client.reached.wait(WAIT_S)
        others = [log.append_later([put("x", n), put("y", n)]) for n in range(1, 50)]
        client.opened.set()
        assert isinstance(first.result(WAIT_S), Applied)
        answers = [it.result(WAIT_S) for it in others]
        assert {it.token.offset for it in answers if isinstance(it, Applied)} == {99}
        assert log.peek(lambda: log.token.offset) == 99
    assert [len(it.results) for it in answers if isinstance(it, Applied)] == [2] * 49


def test_a_list_that_its_caller_uses_again_is_appended_as_it_was(
    partition: MemoryPartition,
) -> None:
    """Else nothing of it would be in the log, and its caller would be told that it is."""
    log, machine = opened(partition, "a")
    with log:
        with partition.lock:  # the first append waits, and the others for it
            log.append_later([put("first", 0)])
            buffer = [put("x", 1), put("y", 2)]
            asked = [log.append_later(buffer), log.append_later([put("z", 3)])]
            buffer.clear()
        answers = [it.result(WAIT_S) for it in asked]
        assert [it.results for it in answers if isinstance(it, Applied)] == [[True, True], [True]]
        assert log.read(lambda: dict(machine.values)) == {"first": 0, "x": 1, "y": 2, "z": 3}


def test_an_append_of_somebody_else_is_a_conflict_and_is_applied(
    partition: MemoryPartition,
) -> None:
    ours, state = opened(partition, "a")
    others, _ = opened(partition, "b")
    with ours, others:
        others.append([put("x", "theirs")])
        answer = ours.append([put("x", "ours")])
        assert isinstance(answer, Conflict)
        assert answer.found == others.token
        assert state.values == {"x": "theirs"}
        assert isinstance(ours.append([put("x", "ours")]), Applied)
    assert [it.value for _, it in partition.visible()] == [
        put("x", "theirs").value,
        put("x", "ours").value,
    ]


def test_a_plain_record_is_a_conflict_too(partition: MemoryPartition, log: CommitLog) -> None:
    partition.append_plainly(NewRecord(None, b"no JSON"))
    assert isinstance(log.append([put("x", 1)]), Conflict)
    assert isinstance(log.append([put("x", 1)]), Applied)


def test_a_read_sees_what_others_have_appended_and_a_peek_may_not(
    partition: MemoryPartition,
) -> None:
    ours, state = opened(partition, "a")
    others, _ = opened(partition, "b")
    with ours, others:
        others.append([put("x", 1)])
        assert ours.peek(lambda: dict(state.values)) == {}
        assert ours.read(lambda: dict(state.values)) == {"x": 1}


def test_a_read_waits_for_a_marker_that_is_on_its_way() -> None:
    """Somebody's append was answered at its commit. Its marker comes later."""
    partition = MemoryPartition(lock=threading.RLock(), late_markers=True)
    writer = MemoryClient(partition, "b")
    writer.renew()
    writer.produce([put("x", 1)])
    assert writer.commit() is Said.DONE
    assert partition.stable_end == 0
    asked = threading.Event()

    class Watching(MemoryClient):
        def read(self, beyond: int) -> StableRead:
            found = super().read(beyond)
            if found.is_undecided:
                asked.set()
            return found

    partition.write_marker("b")
    state = Registers()
    with CommitLog(Watching(partition, "a"), state) as log:
        assert log.read(lambda: dict(state.values)) == {"x": 1}
        writer.produce([put("x", 2)])
        writer.commit()
        answer = log.read_later(lambda: dict(state.values))
        assert asked.wait(WAIT_S)
        assert not answer.done()
        partition.write_marker("b")
        assert answer.result(WAIT_S) == {"x": 2}


def test_a_follower_applies_what_others_append_while_nobody_asks(
    partition: MemoryPartition,
) -> None:
    came = threading.Event()

    class Telling(Registers):
        def apply(self, records: Sequence[VisibleRecord]) -> Sequence[object]:
            found = super().apply(records)
            came.set()
            return found

    others, _ = opened(partition, "b")
    with CommitLog.in_memory(partition, "a", Telling()) as follower, others:
        follower.follow(0.001)
        others.append([put("x", 1)])
        assert came.wait(WAIT_S)


def test_a_check_sees_all_before_and_a_no_is_said_by_the_newest_state(
    partition: MemoryPartition,
) -> None:
    ours, state = opened(partition, "a")
    others, _ = opened(partition, "b")

    def is_free() -> object | None:
        return state.values.get("x")

    with ours, others:
        others.append([put("x", "taken")])
        # By the state here x is free; the append finds out.
        assert isinstance(ours.append([put("x", 1)], check=is_free), Conflict)
        assert ours.append([put("x", 1)], check=is_free) == Denied("taken")
        others.read(lambda: None)
        others.append([put("x", None)])
        # By the state here x is taken; the log is asked before anybody is told.
        assert isinstance(ours.append([put("x", 2)], check=is_free), Applied)


def test_two_checked_appends_do_not_both_pass(partition: MemoryPartition) -> None:
    client, state = Gate(partition), Registers()
    with CommitLog(client, state) as log:
        first = log.append_later([put("y", 0)])
        assert client.reached.wait(WAIT_S)
        both = [
            log.append_later([put("x", n)], check=lambda: state.values.get("x")) for n in (1, 2)
        ]
        client.opened.set()
        first.result(WAIT_S)
        assert isinstance(both[0].result(WAIT_S), Applied)
        assert both[1].result(WAIT_S) == Denied(1)


def test_a_check_or_a_look_that_raises_hurts_only_its_caller(log: CommitLog) -> None:
    with pytest.raises(ZeroDivisionError):
        log.append([put("x", 1)], check=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        log.read(lambda: 1 / 0)
    assert isinstance(log.append([put("x", 1)]), Applied)


def test_a_machine_that_raises_ends_its_log(partition: MemoryPartition) -> None:
    class Broken(Registers):
        def apply(self, _: Sequence[VisibleRecord]) -> Sequence[object]:
            raise ValueError("no price")

    with CommitLog.in_memory(partition, "a", Broken()) as log:
        for ask in (
            lambda: log.append([put("x", 1)]),
            lambda: log.append([put("x", 1)]),
            lambda: log.read(lambda: None),
            lambda: log.peek(lambda: None),
            log.snapshot,
        ):
            with pytest.raises((StateMachineError, SnapshotError)):
                ask()
    assert len(partition.visible()) == 1, "it was in the log before it was applied"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), CancelledError()])
def test_what_is_no_exception_does_not_end_the_logs_thread(
    partition: MemoryPartition, error: BaseException
) -> None:
    """Else all callers would wait for ever, and the clients would stay open."""
    log, machine = opened(partition, "a")

    def fails(*_: object) -> Any:
        raise error

    with log:
        with pytest.raises(type(error)):
            log.append([put("x", 1)], check=fails, timeout_s=WAIT_S)
        with pytest.raises(type(error)):
            log.read(fails, timeout_s=WAIT_S)
        assert isinstance(log.append([put("x", 1)]), Applied)
        machine.snapshot = fails  # type: ignore[method-assign]
        machine.apply = fails  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(StateMachineError, match=f"apply of .*{type(error).__name__}"):
                log.append([put("x", 2)], timeout_s=WAIT_S)
        with pytest.raises(StateMachineError, match="apply of"):
            log.read(list, timeout_s=WAIT_S)


def test_a_machine_with_too_few_results_ends_its_log(partition: MemoryPartition) -> None:
    class Short(Registers):
        def apply(self, _: Sequence[VisibleRecord]) -> Sequence[object]:
            return []

    with (
        CommitLog.in_memory(partition, "a", Short()) as log,
        pytest.raises(StateMachineError, match=r"0 results for 1 record\b"),
    ):
        log.append([put("x", 1)])


class Doubtful(MemoryClient):
    """The first commit is done, and its answer is lost."""

    def __init__(self, partition: MemoryPartition) -> None:
        super().__init__(partition, "doubtful")
        self.lost = 0

    def commit(self) -> Said:
        said = super().commit()
        self.lost += 1
        return Said.BROKEN if self.lost == 1 else said


def test_a_doubt_is_ended_by_the_log_and_applied_once(partition: MemoryPartition) -> None:
    machine = Registers()
    with CommitLog(Doubtful(partition), machine) as log:
        answer = log.append([put("x", 1), compare_and_set("x", 1, 2)])
        assert isinstance(answer, Applied)
        assert answer.results == [True, True]
        assert isinstance(log.append([put("x", 3)]), Applied)
    assert machine.values == {"x": 3}
    assert len(machine.offsets) == len(set(machine.offsets)) == 3


class Small(MemoryClient):
    """A log that takes no value of 100 bytes."""

    def produce(self, records: Sequence[NewRecord]) -> Landed:
        if any(len(it.value or b"") >= 100 for it in records):
            self.final = RecordTooLargeError("memory", "100 bytes")
            super().produce(records)
            return Landed(Said.REFUSED)
        return super().produce(records)


def test_a_record_that_is_too_large_hurts_only_its_caller(partition: MemoryPartition) -> None:
    class GatedSmall(Gate, Small):
        pass

    client, machine = GatedSmall(partition), Registers()
    with CommitLog(client, machine) as log:
        first = log.append_later([put("a", 0)])
        assert client.reached.wait(WAIT_S)
        asked = [log.append_later([put("x", n * "x")]) for n in (1, 200, 2)]
        client.opened.set()
        first.result(WAIT_S)
        assert isinstance(asked[0].result(WAIT_S), Applied)
        with pytest.raises(RecordTooLargeError):
            asked[1].result(WAIT_S)
        assert isinstance(asked[2].result(WAIT_S), Applied)
    assert machine.values == {"a": 0, "x": "xx"}


def test_what_cannot_be_appended_is_refused_before_it_is_asked_for(log: CommitLog) -> None:
    with pytest.raises(MisuseError, match="no records"):
        log.append([])
    with pytest.raises(AppendTooLargeError, match="200000 records"):
        log.append([put("x", 1)] * 200_000)
    with pytest.raises(AppendTooLargeError, match="one transaction"):
        log.append([NewRecord(None, bytes(33 << 20))] * 2)


def test_a_caller_that_waits_no_longer_learns_that_it_is_in_doubt(
    partition: MemoryPartition,
) -> None:
    client = Gate(partition)
    with CommitLog(client, Registers()) as log:
        with pytest.raises(AppendInDoubtError, match="no answer within"):
            log.append([put("x", 1)], timeout_s=0.001)
        client.opened.set()


def test_a_call_from_the_logs_own_thread_is_refused(log: CommitLog) -> None:
    with pytest.raises(MisuseError, match="would wait for itself"):
        log.read(lambda: log.append([put("x", 1)]))
    with pytest.raises(MisuseError, match="would wait for itself"):
        log.append([put("x", 1)], check=log.sync)
    assert isinstance(log.append([put("x", 1)]), Applied)


def test_what_is_cancelled_before_its_turn_is_not_appended(partition: MemoryPartition) -> None:
    client, machine = Gate(partition), Registers()
    with CommitLog(client, machine) as log:
        first = log.append_later([put("a", 0)])
        assert client.reached.wait(WAIT_S)
        given_up = log.append_later([put("b", 0)])
        assert given_up.cancel()
        client.opened.set()
        first.result(WAIT_S)
        assert isinstance(log.append([put("c", 0)]), Applied)
    assert machine.values == {"a": 0, "c": 0}


def test_a_follower_that_is_peeked_at_all_the_time_follows_nevertheless(
    partition: MemoryPartition,
) -> None:
    follower, machine = opened(partition, "a")
    others, _ = opened(partition, "b")
    with follower, others:
        follower.follow(0.001)
        others.append([put("x", 1)])
        asked = 0
        while follower.peek(lambda: machine.values.get("x")) is None:
            asked += 1
            assert asked < 1_000_000


def test_a_closed_log_says_so(partition: MemoryPartition) -> None:
    log, _ = opened(partition, "a")
    log.close()
    log.close()
    with pytest.raises(MisuseError, match="is closed"):
        log.append([put("x", 1)])


# ---- snapshots -----------------------------------------------------------------------------------


def test_the_next_one_begins_with_the_snapshot(partition: MemoryPartition) -> None:
    kept = MemorySnapshots()
    log, _ = opened(partition, "a", snapshots=kept)
    with log:
        log.append([put("x", 1), put("y", 1)])
        token = log.snapshot()
        log.append([put("y", 2)])
    second, machine = opened(partition, "b", snapshots=kept)
    with second:
        assert machine.values == {"x": 1, "y": 2}
        assert machine.offsets == [3], "only what the snapshot has not"
        assert token.offset == 1
        second.append([put("x", None)])
        second.snapshot()
    third, machine = opened(partition, "c", snapshots=kept)
    with third:
        assert machine.values == {"x": None, "y": 2}
        assert machine.offsets == []


def test_a_part_of_a_snapshot_that_is_too_large_or_raises_costs_the_snapshot_alone(
    partition: MemoryPartition,
) -> None:
    machine, kept = Registers(), MemorySnapshots()
    with CommitLog.in_memory(partition, "a", machine, kept) as log:
        log.append([put("x", 1)])
        log.snapshot()
        machine.values["y"] = "y" * SNAPSHOT_PART_MAX_BYTES
        with pytest.raises(MisuseError, match=r"part 1 of .* bytes, and a part holds 524288"):
            log.snapshot()
        machine.values = None  # type: ignore[assignment]
        with pytest.raises(StateMachineError, match="no new snapshot, and its commit log goes on"):
            log.snapshot()
        machine.values = {}
        assert isinstance(log.append([put("z", 1)]), Applied)
    snapshot = kept.read()
    assert isinstance(snapshot, KeptSnapshot)
    assert snapshot.parts == [b'["x", 1]'], "the one before"


def test_a_shorter_snapshot_leaves_nothing_of_the_one_before(partition: MemoryPartition) -> None:
    kept = MemorySnapshots()

    class Many(Registers):
        parts: Iterable[bytes] = ()

        def snapshot(self) -> Iterable[bytes]:
            return self.parts

    machine = Many()
    with CommitLog.in_memory(partition, "a", machine, kept) as log:
        machine.parts = [b"1", b"2", b"3"]
        log.snapshot()
        assert len(kept.records) == 4
        machine.parts = [b"4"]
        log.snapshot()
    assert len(kept.records) == 2


def test_without_a_store_there_is_no_snapshot(log: CommitLog) -> None:
    with pytest.raises(SnapshotError, match="nowhere to go"):
        log.snapshot()


class Shortened(MemoryClient):
    """A log that has lost its beginning."""

    def read(self, beyond: int) -> StableRead:
        return super().read(beyond)._replace(first_offset=5)


def test_a_log_without_its_beginning_needs_a_snapshot(partition: MemoryPartition) -> None:
    for _ in range(10):
        partition.append_plainly(put("x", 1))
    with pytest.raises(SnapshotError, match=r"is missing, and the log begins at offset 5"):
        CommitLog(Shortened(partition, "a"), Registers(), MemorySnapshots())
    early = MemorySnapshots()
    early.write(partition.token.at(3), [])
    with pytest.raises(SnapshotError, match=r"as of offset 3, and the log begins at offset 5"):
        CommitLog(Shortened(partition, "a"), Registers(), early)
    late = MemorySnapshots()
    late.write(partition.token.at(4), [])
    CommitLog(Shortened(partition, "a"), Registers(), late).close()


def test_a_snapshot_of_another_topic_or_from_the_future_is_refused(
    partition: MemoryPartition,
) -> None:
    partition.append_plainly(put("x", 1))
    for token, problem in (
        (LogToken(b"another topic's.", 0, 0), "is of another topic"),
        (LogToken(bytes(16), 7, 0), "is of another topic or partition"),
        (partition.token.at(1), "is newer than the log"),
    ):
        kept = MemorySnapshots()
        kept.write(token, [])
        with pytest.raises(SnapshotError, match=problem):
            CommitLog.in_memory(partition, "a", Registers(), kept)


def test_a_snapshot_cut_in_half_is_passed_over_if_the_log_is_whole(
    partition: MemoryPartition, caplog: pytest.LogCaptureFixture
) -> None:
    kept = MemorySnapshots()
    log, _ = opened(partition, "a", snapshots=kept)
    with log:
        log.append([put("x", 1), put("y", 2)])
        log.snapshot()
    whole = dict(kept.records)
    for lost in whole:
        kept.records = {key: value for key, value in whole.items() if key != lost}
        caplog.clear()
        again, machine = opened(partition, "b", snapshots=kept)
        with again:
            assert machine.values == {"x": 1, "y": 2}
        assert [it.levelno for it in caplog.records] == [logging.WARNING]
        with pytest.raises(SnapshotError, match="the log begins at offset 5"):
            CommitLog(Shortened(partition, "c"), Registers(), kept)
    kept.records = {**whole, b"part-0": b"another"}
    caplog.clear()
    again, machine = opened(partition, "b", snapshots=kept)
    with again:
        assert machine.values == {"x": 1, "y": 2}
        [line] = caplog.records
        assert line.getMessage() == (
            "memory-0: the snapshot has parts that are not those that it was written with. It is "
            "passed over: the log is read from its beginning. Call snapshot() again to replace it"
        )
        again.snapshot()
    caplog.clear()
    opened(partition, "c", snapshots=kept)[0].close()
    assert not caplog.records, "a snapshot that is whole again"


def test_a_snapshot_whose_record_counts_billions_of_parts_is_told_at_once() -> None:
    looked_up: list[bytes] = []

    class Counted(dict[bytes, bytes]):
        def __getitem__(self, key: bytes) -> bytes:
            looked_up.append(key)
            return super().__getitem__(key)

        def get(self, key: bytes, default: Any = None) -> Any:
            looked_up.append(key)
            assert len(looked_up) < 100
            return super().get(key, default)

    kept = Counted(snapshot_records(LogToken(bytes(16), 0, 3), [b"one", b"two"], 0))  # type: ignore[arg-type]
    kept[b"vouch"] = b"\1" + b"\xff" * 4 + kept[b"vouch"][5:]
    del kept[b"part-0"]
    found = snapshot_of(kept)
    assert isinstance(found, BrokenSnapshot)
    assert found.problem == "lacks 4,294,967,294 of its 4,294,967,295 parts, such as 0"


def test_a_snapshot_of_a_newer_version_is_passed_over_and_never_replaced(
    partition: MemoryPartition, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs of that version count on it."""
    kept = MemorySnapshots()
    log, _ = opened(partition, "a", snapshots=kept)
    with log:
        log.append([put("x", 1)])
        log.snapshot()
    kept.records[b"vouch"] = b"\x02" + kept.records[b"vouch"][1:]
    before = dict(kept.records)
    again, machine = opened(partition, "b", snapshots=kept)
    with again:
        assert machine.values == {"x": 1}
        [line] = caplog.records
        assert (line.levelno, line.__dict__["event"]) == (logging.WARNING, "snapshot.broken")
        assert line.getMessage() == (
            "memory-0: the snapshot has version 2, and this library reads version 1. It is passed "
            "over: the log is read from its beginning. Update this program"
        )
        with pytest.raises(SnapshotError, match=r"writes version 1\. It stays.* Update this"):
            again.snapshot()
    assert kept.records == before
    with pytest.raises(SnapshotError, match=r"version 2.*begins at offset 5.*Update this program"):
        CommitLog(Shortened(partition, "c"), Registers(), kept)


def test_a_log_that_has_lost_its_end_is_told(partition: MemoryPartition, log: CommitLog) -> None:
    log.append([put("x", 1)])
    log.append([put("x", 2)])
    partition.stored = partition.stored[:1]
    with pytest.raises(LogTokenError, match="the log ends at 1"):
        log.read(lambda: None)


def test_callers_who_ask_again_at_once_are_waited_for(partition: MemoryPartition) -> None:
    """Else those who were answered together would share two appends by turns."""
    with CommitLog.in_memory(partition, "a", Registers()) as log:
        ready = threading.Barrier(8)

        def ask() -> None:
            for number in range(20):
                ready.wait(WAIT_S)
                log.append([put("x", number)])

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for it in threads:
            it.start()
        for it in threads:
            it.join()
    partition.write_markers()
    markers = sum(it.record is None for it in partition.stored)
    assert 20 <= markers < 160, "each caller had an append of its own"


@pytest.mark.parametrize("is_right", [True, False])
def test_a_read_up_to_the_last_stable_offset_alone_would_be_old(is_right: bool) -> None:
    """The judge of histories tells the two ends apart: an answer comes before its marker."""
    partition = MemoryPartition(lock=threading.RLock(), late_markers=True)

    class Client(MemoryClient):
        def end(self) -> int:
            return self.partition.end if is_right else self.partition.stable_end

    machine = Registers()
    with (
        CommitLog.in_memory(partition, "leader", Registers()) as leader,
        CommitLog(Client(partition, "other"), machine) as other,
    ):
        assert isinstance(leader.append([put("x", "1")]), Applied)
        answer = other.read_later(lambda: machine.values.get("x"))
        if not is_right:
            answer.result(WAIT_S)
        partition.write_marker("leader")
        value = answer.result(WAIT_S)
    history = [
        Call("x", Kind.PUT, "1", began=0, ended=1),
        Call("x", Kind.GET, value, began=2, ended=3),
    ]
    assert (unexplained(history) is None) == is_right


@pytest.mark.parametrize(
    "wrong",
    [
        b"x",
        NewRecord(b"k", b"v"),
        [b"x"],
        [(b"k", b"v")],
        [NewRecord(5, b"v")],  # type: ignore[arg-type]
        [NewRecord(b"k", "v")],  # type: ignore[arg-type]
        [NewRecord(b"k", b"v", None)],  # type: ignore[arg-type]
        [NewRecord(b"k", b"v", {"a": b"b"})],  # type: ignore[arg-type]
    ],
)
def test_what_is_no_record_is_refused(log: CommitLog, wrong: Any) -> None:
    with pytest.raises(MisuseError, match=r"is no (record|list of records)"):
        log.append(wrong)
    assert isinstance(log.append([NewRecord(b"k", b"v", (("a", b"b"),))]), Applied)


@pytest.mark.parametrize("machine", [None, Registers, object()])
def test_what_is_no_state_machine_is_refused(partition: MemoryPartition, machine: Any) -> None:
    with pytest.raises(MisuseError, match="apply, snapshot and restore"):
        CommitLog.in_memory(partition, "a", machine)


def test_a_machine_that_returns_no_results_breaks_its_log(partition: MemoryPartition) -> None:
    class Silent(Registers):
        def apply(self, records: Any) -> Any:
            super().apply(records)

    with (
        CommitLog.in_memory(partition, "a", Silent()) as log,
        pytest.raises(StateMachineError, match=r"returned NoneType for 1 record\b"),
    ):
        log.append([put("x", 1)])


def test_a_look_that_is_not_answered_in_time_is_no_append_in_doubt(log: CommitLog) -> None:
    gate = threading.Event()
    waits = log.read_later(gate.wait)
    with pytest.raises(TimeoutError, match=r"peek of commit log .* no answer"):
        log.peek(lambda: 1, timeout_s=0.01)
    gate.set()
    assert waits.result(WAIT_S)


def test_a_log_is_not_closed_by_its_own_thread(log: CommitLog) -> None:
    with pytest.raises(MisuseError, match="would wait for itself"):
        log.read(log.close)
    assert log.read(lambda: 7) == 7
