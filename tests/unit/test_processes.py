"""Child processes: what their parent makes of what they tell, and of their end and its own."""

from __future__ import annotations

import atexit
import errno
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, cast

import pytest

from assignors import WHOLE, KeyRange, TopicPartition
from coop_consumer import Context, Record, Worker
from coop_consumer.core import actions, events
from coop_consumer.core.effects import Output
from coop_consumer.core.failure import Failure
from coop_consumer.executors import ProcessExecutor, Workplace, children
from coop_consumer.executors.child import End, Sent, Soon, parcel
from coop_consumer.executors.children import Children
from coop_consumer.executors.processes import CHUNK_S
from coop_consumer.executors.workplace import ChildDiedError
from tests.support.crew import WAIT_S, Crew, Script
from tests.support.readable import is_readable
from tests.unit.core_member import T0, TableMember

PARKS = {"on_failure": "park", "max_attempts": 1}


class HastyChild:
    """Fails at its record, and goes on, just after its parent has looked for news."""

    def __init__(self) -> None:
        self.work = self
        self.progress = 0
        self._told: deque[object] = deque()
        self._looks = 0

    def send(self, chunk: list[Any]) -> None:
        self._chunk = chunk

    def poll(self, _: float) -> bool:
        self._looks += 1
        if self._looks == 1:
            self._told.extend([(0, Failure("ValueError", "ValueError: no route")), End({})])
            self.progress = len(self._chunk)
            return False
        return True

    def refuse_dead(self) -> None:
        """It lives."""

    def recv(self) -> object:
        return self._told.popleft()


class OneChild:
    def __init__(self) -> None:
        self.each = [HastyChild()]


def test_a_record_that_fails_between_two_looks_does_not_count_as_done() -> None:
    condition = threading.Condition()
    member = TableMember(lock=condition, on_failure="park", max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"a")
    place = Workplace(member.core.lanes, condition, 1, lambda: None, 1, "test")
    executor = ProcessExecutor(place, cast("Children", OneChild()), 0)
    executor.start()
    executor.stop()  # which lets what is ready be processed
    member.tell(events.Tick())
    assert member.core.state.counters.finished == 0
    assert list(member.core.state.partitions[T0].tenures[0].attempts) == [0]


class MortalChild:
    """Says that it is about to end its chunk, gets the next one, and dies; then is another one."""

    is_killed = False

    def __init__(self) -> None:
        self.work = self
        self.progress = 0
        self.sent: list[list[int]] = []
        self.has_died = threading.Event()

    def send(self, chunk: list[Any]) -> None:
        self.sent.append([parcel.contents.offset for parcel in chunk])

    def poll(self, _: float) -> bool:
        return True

    def recv(self) -> object:
        if self.has_died.is_set():
            return End({})
        if len(self.sent) == 1:
            self.progress = 6
            return Soon()
        raise EOFError

    def obituary(self) -> str:
        return "worker process 7 was killed by signal 9"


class OneMortalChild:
    def __init__(self) -> None:
        self.child = MortalChild()
        self.each = [self.child]

    def replace(self, child: MortalChild) -> None:
        child.has_died.set()


def test_what_a_dead_child_was_sent_beforehand_has_not_failed() -> None:
    condition = threading.Condition()
    member = TableMember(lock=condition, attempt_backoff_ms=10)
    member.assign(WHOLE)
    member.produce(*[b"k%d" % number for number in range(20)])
    place = Workplace(member.core.lanes, condition, 1, lambda: None, 1, "test")
    children = OneMortalChild()
    executor = ProcessExecutor(place, cast("Children", children), 0)
    executor._cost_s = CHUNK_S / 8  # so that a chunk has eight records
    executor.start()
    assert children.child.has_died.wait(30)  # once it stops, nobody is started in its place
    executor.stop()
    member.tell(events.Tick())
    assert children.child.sent[:2] == [list(range(8)), list(range(8, 16))]
    assert member.core.state.counters.finished == 19
    assert member.core.state.counters.failures == 1
    assert list(member.core.state.partitions[T0].tenures[0].attempts) == [6]


class GoneChild(MortalChild):
    """Dies just before it gets the next chunk; what it has told by then is not read yet."""

    def __init__(self) -> None:
        super().__init__()
        failed = 5, Failure("ValueError", "ValueError: no route")
        self._told: deque[object] = deque([Soon(), failed, Sent(6, [Output("t", b"k", b"of 6")])])

    def send(self, chunk: list[Any]) -> None:
        if self.sent and not self.has_died.is_set():
            raise BrokenPipeError
        super().send(chunk)

    def poll(self, _: float) -> bool:
        return self.has_died.is_set() or bool(self._told)

    def refuse_dead(self) -> None:
        """It lives as far as we know."""

    def recv(self) -> object:
        if self.has_died.is_set():
            return End({})
        self.progress = 7
        return self._told.popleft()


class OneGoneChild(OneMortalChild):
    def __init__(self) -> None:
        self.child = GoneChild()
        self.each = [self.child]


def test_what_a_dead_child_had_told_counts_though_it_is_read_after_its_death() -> None:
    """A failure that was not read let its record count as done."""
    condition = threading.Condition()
    member = TableMember(lock=condition, attempt_backoff_ms=10)
    member.assign(WHOLE)
    member.produce(*[b"k%d" % number for number in range(20)])
    place = Workplace(member.core.lanes, condition, 1, lambda: None, 1, "test")
    children = OneGoneChild()
    executor = ProcessExecutor(place, cast("Children", children), 0)
    executor._cost_s = CHUNK_S / 8  # so that a chunk has eight records
    executor.start()
    assert children.child.has_died.wait(30)
    executor.stop()
    told = member.tell(events.Tick()) + member.after(1_000)
    assert sorted(member.core.state.partitions[T0].tenures[0].attempts) == [5, 7]
    assert member.core.state.counters.finished == 18
    results = [it for commit in told if isinstance(commit, actions.Commit) for it in commit.results]
    assert [(it.record.offset, it.effects) for it in results] == [(6, [Output("t", b"k", b"of 6")])]


class SwiftChild:
    """Is slow with its first record; when we end it for that, it has got on to the second one."""

    is_killed = False

    def __init__(self) -> None:
        self.work = self
        self.progress = 0
        self.kills = 0
        self.sent: list[list[int]] = []
        self.has_chunk, self.may_go_on = threading.Event(), threading.Event()

    def send(self, chunk: list[Any]) -> None:
        self.sent.append([parcel.contents.offset for parcel in chunk])
        self.has_chunk.set()

    def poll(self, _: float) -> bool:
        return self.may_go_on.wait(WAIT_S)

    def recv(self) -> object:
        if self.is_killed and len(self.sent) == 1:
            raise EOFError
        return End({})

    def kill(self) -> None:
        self.kills += 1
        self.is_killed = True
        self.progress = 1
        self.may_go_on.set()

    def obituary(self) -> str:
        return "worker process 7 was ended"


class OneSwiftChild:
    def __init__(self) -> None:
        self.child = SwiftChild()
        self.each = [self.child]
        self.has_replaced = threading.Event()

    def replace(self, child: SwiftChild) -> None:
        child.is_killed = False
        self.has_replaced.set()


class SlowAtWork:
    """A member whose handler of offset 0 is overdue, in a chunk of three records."""

    def __init__(self) -> None:
        condition = threading.Condition()
        settings = {"max_processing_ms": 1_000, "on_overdue": "fail", "attempt_backoff_ms": 10}
        self.member = TableMember(lock=condition, **settings)
        self.member.assign(WHOLE)
        self.member.produce(b"a", b"b", b"c")
        place = Workplace(self.member.core.lanes, condition, 1, lambda: None, 1, "test")
        self.children = OneSwiftChild()
        self.child = self.children.child
        self.executor = ProcessExecutor(place, cast("Children", self.children), 0)
        self.executor._cost_s = CHUNK_S / 3
        self.executor.start()
        assert self.child.has_chunk.wait(WAIT_S)
        for _ in range(11):
            self.member.after(100)
        (told,) = self.member.told(actions.AbandonLane)
        self.abandoned = told.lane

    def end(self) -> None:
        """Let the rest be done."""
        self.executor.stop()
        self.member.after(100)
        assert self.member.core.state.counters.finished == 2
        assert list(self.member.core.state.partitions[T0].tenures[0].attempts) == [0]
        assert self.member.core.state.counters.failures == 1


def test_a_record_that_a_child_got_on_to_before_we_ended_it_has_not_failed() -> None:
    slow = SlowAtWork()
    slow.executor.abandon(slow.abandoned)
    assert slow.children.has_replaced.wait(WAIT_S)
    slow.end()
    assert slow.child.sent == [[0, 1, 2], [1, 2]]


def test_a_child_that_has_got_on_is_not_ended_for_what_is_behind_it() -> None:
    slow = SlowAtWork()
    slow.child.progress = 1
    slow.executor.abandon(slow.abandoned)
    slow.child.may_go_on.set()
    slow.end()
    assert slow.child.kills == 0
    assert slow.child.sent == [[0, 1, 2]]


class QuickChild:
    """Does all that it is sent."""

    def __init__(self) -> None:
        self.work = self
        self.progress = 0
        self.keys: list[bytes] = []

    def send(self, chunk: list[Any]) -> None:
        self.keys += [parcel.contents.key for parcel in chunk]
        self.progress = len(chunk)

    def poll(self, _: float) -> bool:
        return True

    def recv(self) -> object:
        return End({})


class QuickChildren:
    def __init__(self, count: int) -> None:
        self.each = [QuickChild() for _ in range(count)]


def test_keys_are_shared_out_evenly_and_stay_where_they_are() -> None:
    condition, woken = threading.Condition(), threading.Semaphore(0)
    keys = [b"k%d" % number for number in range(300)]
    member = TableMember(lock=condition)
    member.assign(WHOLE)
    place = Workplace(member.core.lanes, condition, 1, woken.release, 1, "test")
    children = QuickChildren(3)
    executor = ProcessExecutor(place, cast("Children", children), 0)
    executor.pause(True)
    executor.start()
    for _ in range(2):
        executor.pause(True)
        member.produce(*keys)
        executor.pause(False)
        wanted = member.core.state.counters.finished + len(keys)
        while member.core.state.counters.finished < wanted:
            assert woken.acquire(timeout=30)
            member.tell(events.Tick())
        keys.reverse()
    executor.stop()
    shares = [set(child.keys) for child in children.each]
    assert [len(child.keys) for child in children.each] == [2 * len(share) for share in shares]
    assert sorted(key for share in shares for key in share) == sorted(keys)
    assert max(map(len, shares)) - min(map(len, shares)) <= 20  # a slot may have several keys


class Falls(Worker):
    """Dies when it first hears of ranges; whoever comes after it notes that it has heard."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, record: Record) -> None:
        assert record.key
        (self._folder / f"{os.getpid()} processes").touch()

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        assert (tp, ranges) == (T0, (WHOLE,))
        with suppress(FileExistsError):
            (self._folder / "has died").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        (self._folder / f"{os.getpid()} hears").touch()


def test_a_child_that_dies_of_its_ranges_is_replaced_by_one_that_hears_of_them(
    tmp_path: Path,
) -> None:
    with Crew(Falls(tmp_path), Script(), 2, executor="process") as crew:
        crew.style.on_ranges_assigned(T0, (WHOLE,))
        crew.produce(*[b"k%d" % number for number in range(20)])
        crew.until_done(20)
    assert crew.member.core.state.counters.failures == 0
    noted = [path.name.split() for path in tmp_path.iterdir()]
    heard = {pid for pid, what in noted if what == "hears"}
    assert heard == {pid for pid, what in noted if what == "processes"}
    assert len(heard) == 2


class DiesOfB(Worker):
    def process(self, record: Record) -> None:
        if record.key == b"b":
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_child_that_was_restarted_does_not_count_on_where_the_dead_one_was() -> None:
    """Its first record may be slow: until it is at it, none of its chunk is done."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    records = [entry for entry in member.core.lanes.ready if isinstance(entry, Record)]
    children = Children(DiesOfB(), 1, "test")
    children.start()
    [child] = children.each
    child.work.send([parcel(number, record) for number, record in enumerate(records)])
    with suppress(EOFError):
        while True:
            child.work.recv()
    assert child.progress == 1
    children.replace(child)
    assert child.progress == -1
    children.end()


class Forks(Worker):
    """Dies while a process that it has forked lives on, and has its pipes."""

    def __init__(self, forked: Path) -> None:
        self._forked = forked

    def process(self, _: Record) -> None:
        pid = os.fork()
        if not pid:
            signal.pause()
        self._forked.write_text(str(pid))
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_child_is_seen_to_die_though_a_process_of_its_own_lives_on(tmp_path: Path) -> None:
    forked = tmp_path / "forked"
    crew = Crew(Forks(forked), Script(), 1, executor="process", on_failure="park", max_attempts=1)
    with crew:
        crew.produce(b"a")
        crew.until_failed(1)
    os.kill(int(forked.read_text()), signal.SIGKILL)


def test_a_child_that_cannot_be_replaced_at_once_is_replaced_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    children = Children(Falls(tmp_path), 1, "test")
    children.start()
    (child,) = children.each
    child.kill()
    with monkeypatch.context() as patched:
        patched.setattr(SpawnProcess, "start", refuse)
        for _ in range(2):
            with pytest.raises(ChildDiedError, match=r"cannot be started: .*allocate memory"):
                children.replace(child)
    children.replace(child)
    child.call("ready")
    children.end()


def test_how_a_child_ended_is_told_though_another_thread_is_about_to_note_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ask the system for its exit code. It gives it once."""
    waitpid, refused, reaped = os.waitpid, threading.Event(), threading.Event()

    def slowly(pid: int, flags: int) -> tuple[int, int]:
        try:
            answer = waitpid(pid, flags)
        except ChildProcessError:
            refused.set()
            raise
        if answer[0] == process.pid:
            reaped.set()
            assert refused.wait(WAIT_S)
        return answer

    children = Children(Falls(tmp_path), 1, "test")
    children.start()
    (child,) = children.each
    [process] = [it for it in multiprocessing.active_children() if it.name == "test-1"]
    monkeypatch.setattr(os, "waitpid", slowly)
    other = threading.Thread(target=process.join)
    other.start()
    os.kill(process.pid or 0, signal.SIGKILL)
    assert reaped.wait(WAIT_S)
    assert "was killed by signal 9" in child.obituary()
    other.join(WAIT_S)
    children.end()


def test_a_hangup_is_the_parents_to_hear(tmp_path: Path) -> None:
    children = Children(Falls(tmp_path), 1, "test")
    children.start()
    (process,) = multiprocessing.active_children()
    assert process.pid
    os.kill(process.pid, signal.SIGHUP)
    children.each[0].call("ready")
    children.end()


HAS_CHILDREN = """
import multiprocessing, sys
from coop_consumer.executors.children import Children
from tests.support.desk import RemoteWorker
children = Children(RemoteWorker("nowhere"), 2, "test")
children.start()
print(*[it.pid for it in multiprocessing.active_children()], flush=True)
sys.stdin.read()
"""


def test_children_end_with_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", HAS_CHILDREN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        children = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(children) == 2
    for child in children:
        assert is_readable(child, WAIT_S), "it lives on"
        os.close(child)


ENDS_WITHOUT_A_WORD = """
from coop_consumer.executors.children import Children
from coop_consumer.executors.processes import CHUNK_S
from tests.support.desk import RemoteWorker
children = Children(RemoteWorker("nowhere"), 2, "test")
children.start()
print("started", flush=True)
"""


def test_a_process_that_forgets_its_children_ends_all_the_same() -> None:
    run = subprocess.run(
        [sys.executable, "-c", ENDS_WITHOUT_A_WORD],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert (run.stdout, run.stderr) == ("started\n", "")


class Prints(Worker):
    """Prints into a buffer, as standard output is no terminal here."""

    def process(self, record: Record) -> None:
        sys.stdout.write(f"line {record.offset}\n")

    def teardown(self) -> None:
        sys.stdout.write("teardown\n")


@pytest.fixture
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes buffer what they print."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.mark.usefixtures("buffered")
def test_what_handlers_print_is_written_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    with Crew(Prints(), Script(), 2, executor="process") as crew:
        crew.produce(*[b"k%d" % number for number in range(50)])
        crew.until_done(50)
        crew.style.call(crew.style.worker.teardown)
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == sorted([f"line {n}" for n in range(50)] + ["teardown"] * 2)


class PrintsAndDies(Prints):
    def process(self, record: Record) -> None:
        if record.key == b"deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        super().process(record)


@pytest.mark.usefixtures("buffered")
def test_what_handlers_printed_in_chunks_before_is_written_though_their_process_is_killed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Crew(PrintsAndDies(), Script(), 1, executor="process", **PARKS) as crew:
        crew.produce(b"a")
        crew.until_done(1)
        crew.produce(b"deadly")
        crew.until_failed(1)
    assert capfd.readouterr().out == "line 0\n"


class StopsAProgram(Worker):
    def process(self, _: Record) -> None:
        with subprocess.Popen(["sleep", "60"]) as program:
            program.terminate()
            try:
                program.wait(WAIT_S)
            finally:
                program.kill()
        if program.returncode != -signal.SIGTERM:
            raise OSError(f"exit code {program.returncode}")


def test_programs_that_handlers_start_heed_sigterm() -> None:
    with Crew(StopsAProgram(), Script(), 1, executor="process") as crew:
        crew.produce(b"a")
        crew.until_done(1)
    assert crew.member.core.state.counters.failures == 0


class KnowsWhereItIs(Worker):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def setup(self, _: Context) -> None:
        atexit.register((self._folder / "has said goodbye").touch)

    def process(self, _: Record) -> None:
        if Path.cwd() != self._folder:
            raise OSError(f"this is {Path.cwd()}")


def test_a_child_is_where_its_parent_is_and_says_goodbye(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Crew(KnowsWhereItIs(tmp_path), Script(), 1, executor="process") as crew:
        crew.produce(b"a")
        crew.until_done(1)
    assert crew.member.core.state.counters.failures == 0
    assert (tmp_path / "has said goodbye").exists()


@pytest.fixture
def ignoring_sigchld() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("ignoring_sigchld")
def test_children_are_replaced_and_end_where_the_program_ignores_sigchld(tmp_path: Path) -> None:
    crew = Crew(Forks(tmp_path / "forked"), Script(), 1, executor="process", **PARKS)
    with crew:
        crew.produce(b"a")
        crew.until_failed(1)
        ((_, attempt),) = crew.member.core.state.partitions[T0].tenures[0].attempts.items()
    os.kill(int((tmp_path / "forked").read_text()), signal.SIGKILL)
    assert "its exit code is not known: this program ignores SIGCHLD?" in attempt.error


class Lingers(Worker):
    """Leaves a thread behind that never ends."""

    def setup(self, _: Context) -> None:
        threading.Thread(target=threading.Event().wait).start()

    def process(self, _: Record) -> None: ...


def test_a_child_whose_threads_do_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_END_S", 0.1)
    with Crew(Lingers(), Script(), 1, executor="process") as crew:
        crew.produce(b"a")
        crew.until_done(1)
    assert not multiprocessing.active_children()


class ClosesItsPipes(Worker):
    """Its handler of key `b` closes all that its process has open."""

    def process(self, record: Record) -> None:
        if record.key == b"b":
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def test_a_handler_that_closes_the_pipes_of_its_process_does_not_repeat_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "_END_S", 0.1)  # it would wait for a thread at the closed pipe
    with Crew(ClosesItsPipes(), Script(), 1, executor="process", **PARKS) as crew:
        crew.produce(b"a", b"b")
        crew.until_failed(1)
        crew.until_done(1)
    assert crew.member.core.state.counters.failures == 1


class BreaksItsStreams(Worker):
    """Its handler replaces the streams by what exits."""

    def process(self, _: Record) -> None:
        class Stream(io.StringIO):
            def flush(self) -> None:
                sys.exit(7)

        sys.stdout = sys.stderr = Stream()


def test_a_stream_that_exits_ends_no_child() -> None:
    with Crew(BreaksItsStreams(), Script(), 1, executor="process", **PARKS) as crew:
        crew.produce(b"a", b"b")
        crew.until_done(2)
    assert crew.member.core.state.counters.failures == 0
