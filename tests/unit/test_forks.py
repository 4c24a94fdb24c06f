"""Forks: a forked child of a handler ends, processes nothing, and leaves the parent alone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from coop_consumer import Context, Record, Worker
from coop_consumer.config import Config
from coop_consumer.executors import ManualExecutor
from coop_consumer.signals import TakenSignals
from coop_consumer.state.keyed import KeyedState
from coop_consumer.styles import event_loop
from streams_adapter import launch
from streams_adapter.control import Desk
from streams_adapter.planned import Plan
from tests.support.crew import WAIT_S, Crew, Script
from tests.unit.core_member import WHOLE, TableMember

if TYPE_CHECKING:
    from streams_adapter.task import LaunchOrder

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

OTHERS = [b"k%d" % number for number in range(50)]
EXIT_CODES = {"returns": 0, "exits": 7, "raises": 1}


def come_back(how: str) -> None:
    """What a forked child does that was to end itself."""
    if how == "exits":
        sys.exit(7)
    if how == "raises":
        raise OSError("no table here")


class Forking:
    """Forks at one record, and writes a byte for each record that a child goes on to process."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.parent = os.getpid()
        self.heard, self.told = os.pipe()
        os.set_blocking(self.heard, False)
        self.exit_codes: list[int] = []

    def handle(self, record: Record) -> None:
        if os.getpid() != self.parent:
            os.write(self.told, b"!")
        elif record.key == b"forks":
            pid = os.fork()
            if pid == 0:
                come_back(self.how)
            else:
                self.exit_codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def processed_in_children(self) -> bytes:
        os.close(self.told)
        try:
            return os.read(self.heard, 100)
        except BlockingIOError:
            return b"somebody has the pipe open"
        finally:
            os.close(self.heard)


class OnThreads(Worker):
    def __init__(self, forking: Forking) -> None:
        self.forking = forking

    def process(self, record: Record) -> None:
        self.forking.handle(record)


class InBatches(Worker):
    def __init__(self, forking: Forking) -> None:
        self.forking = forking

    def process_batch(self, records: Sequence[Record]) -> None:
        for record in records:
            self.forking.handle(record)
            if os.getpid() != self.forking.parent:
                return


class OnLoop(Worker):
    def __init__(self, forking: Forking) -> None:
        self.forking = forking

    async def process(self, record: Record) -> None:
        await asyncio.sleep(0)
        self.forking.handle(record)
        await asyncio.sleep(0)


class BatchesOnLoop(Worker):
    def __init__(self, forking: Forking) -> None:
        self.forking = forking

    async def process_batch(self, records: Sequence[Record]) -> None:  # type: ignore[override]
        for record in records:
            self.forking.handle(record)
            await asyncio.sleep(0)


@pytest.mark.parametrize("how", list(EXIT_CODES))
@pytest.mark.parametrize(
    ("worker", "executor", "workers"),
    [
        (OnThreads, "thread", 1),
        (OnThreads, "thread", 4),
        (InBatches, "thread", 2),
        (OnThreads, "inline", 1),
        (InBatches, "inline", 1),
        (OnLoop, "thread", 50),
        (BatchesOnLoop, "thread", 10),
    ],
)
def test_a_forked_child_that_comes_back_from_a_handler_ends_and_processes_nothing(
    worker: Callable[[Forking], Worker], executor: str, workers: int, how: str
) -> None:
    forking = Forking(how)
    with Crew(worker(forking), Script(), workers, executor=executor, batch_max_records=3) as crew:
        crew.produce(*OTHERS[:5], b"forks", *OTHERS)
        crew.until_done(len(OTHERS) + 6)
    assert forking.exit_codes == [EXIT_CODES[how]]
    assert forking.processed_in_children() == b""


def test_a_child_that_comes_back_on_asyncios_own_loop_ends_before_other_tasks_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_loop, "_new_event_loop", asyncio.new_event_loop)
    forking = Forking("returns")
    with Crew(OnLoop(forking), Script(), 50) as crew:
        crew.produce(*OTHERS[:5], b"forks", *OTHERS)
        crew.until_done(len(OTHERS) + 6)
    assert forking.exit_codes == [0]
    assert forking.processed_in_children() == b""


def test_a_child_of_the_members_own_thread_ends_too() -> None:
    forking = Forking("returns")
    with Crew(OnThreads(forking), Script(), 1) as crew:
        crew.produce(b"a")
        crew.until_done(1)
        crew.executor._cost_s = 1e-6  # type: ignore[attr-defined] # as after many quick records
        crew.executor.help(lambda: None, lambda: None)
        crew.member.produce(b"forks", *OTHERS)
        # It becomes a worker's thread: the handler waits for its child for too long.
        helper = threading.Thread(target=crew.executor.help, args=(lambda: None, lambda: None))
        helper.start()
        crew.until_done(len(OTHERS) + 2)
    helper.join()
    assert forking.exit_codes == [0]
    assert forking.processed_in_children() == b""


class ForksInChild(Worker):
    """In a worker process: raises if a child of it ended otherwise than it should."""

    def __init__(self, how: str) -> None:
        self.how = how

    def process(self, _: Record) -> None:
        pid = os.fork()
        if pid == 0:
            come_back(self.how)
            return
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != EXIT_CODES[self.how]:
            raise OSError(f"exit code {code}")


class BatchForksInChild(ForksInChild):
    def process_batch(self, records: Sequence[Record]) -> None:
        super().process(records[0])

    process = Worker.process  # type: ignore[assignment]


@pytest.mark.parametrize("how", list(EXIT_CODES))
@pytest.mark.parametrize("worker", [ForksInChild, BatchForksInChild])
def test_a_forked_child_of_a_worker_process_tells_the_parent_nothing(
    worker: Callable[[str], Worker], how: str
) -> None:
    with Crew(worker(how), Script(), 1, executor="process", batch_max_records=3) as crew:
        crew.produce(*OTHERS[:20])
        crew.until_done(20)
    assert crew.member.core.state.counters.failures == 0


class HasChildren(Worker):
    """Uses multiprocessing, as it could on threads; its children must end when told to."""

    def process(self, _: Record) -> None:
        context = multiprocessing.get_context("fork")
        with context.Pool(1) as pool:  # whose end is a terminate()
            assert pool.map(abs, [-1]) == [1]


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_handlers_may_have_children_of_their_own(executor: str) -> None:
    with Crew(HasChildren(), Script(), 1, executor=executor) as crew:
        crew.produce(b"a", b"b")
        crew.until_done(2)
    assert crew.member.core.state.counters.failures == 0


class ForksInSetup(Worker):
    def __init__(self, how: str) -> None:
        self.how = how
        self.exit_code = -1

    def setup(self, _: Context) -> None:
        pid = os.fork()
        if pid == 0:
            come_back(self.how)
        else:
            self.exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def process(self, record: Record) -> None: ...


class ForksInSetupOnLoop(ForksInSetup):
    async def setup(self, context: Context) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().setup(context)

    async def process(self, record: Record) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize("how", list(EXIT_CODES))
@pytest.mark.parametrize("worker", [ForksInSetup, ForksInSetupOnLoop])
def test_a_child_that_comes_back_from_another_method_ends_too(
    worker: Callable[[str], ForksInSetup], how: str
) -> None:
    forks_in_setup = worker(how)
    with Crew(forks_in_setup, Script(), 1) as crew:
        crew.produce(b"a")
        crew.until_done(1)
    assert forks_in_setup.exit_code == EXIT_CODES[how]


def in_fork(call: Callable[[], Any]) -> str:
    """What a call raises in a forked child, or returns."""
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = repr(call())
        except BaseException as error:  # noqa: BLE001 - it is told
            text = f"{type(error).__name__}: {error}"
        os.write(told, text.encode())
        os._exit(0)
    os.close(told)
    os.waitpid(pid, 0)
    with os.fdopen(heard, "rb") as pipe:
        return pipe.read().decode()


def test_a_consumers_records_are_refused_in_a_child_even_if_the_lock_was_held() -> None:
    member = TableMember()
    member.assign(WHOLE)
    executor = ManualExecutor(
        member.core.lanes,
        member.core.state.lock,  # type: ignore[arg-type] # none of its methods is called
        wake=lambda: None,
        is_ending=lambda: False,
        is_pausing=lambda: False,
    )
    told = in_fork(lambda: executor.take(None))
    assert told.startswith("MisuseError: this call: this consumer was made before this process (")


def test_state_is_refused_in_a_child() -> None:
    state = KeyedState({}, lambda *_: None)
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    (record,) = member.core.lanes.ready
    assert isinstance(record, Record)
    told = in_fork(lambda: state.get(record))
    assert told.startswith("MisuseError: context.state: this state was made before this process (")


def test_a_child_has_the_signal_handlers_that_were_there_before() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    taken = TakenSignals((signal.SIGUSR1,), lambda *_: None)
    try:
        assert signal.getsignal(signal.SIGUSR1) is not before
        assert in_fork(lambda: signal.getsignal(signal.SIGUSR1)) == repr(before)
    finally:
        taken.give_back()
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_signal_that_comes_as_soon_as_a_child_is_there_ends_it() -> None:
    taken = TakenSignals((signal.SIGUSR1,), lambda *_: None)
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                threading.Event().wait(WAIT_S)
                os._exit(0)
            os.kill(pid, signal.SIGUSR1)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert code == -signal.SIGUSR1
    finally:
        taken.give_back()
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        taken = TakenSignals((signal.SIGUSR1, signal.SIGUSR2), lambda *_: None)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        taken.give_back()
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


class FakeSpark:
    """Of a session and a context, what a launch and a plan ask for; its job goes on until told."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.told = threading.Event()

    def setJobDescription(self, _: str) -> None: ...  # noqa: N802 - Spark's name

    def accumulator(self, zero: object, _: object) -> FakeSpark:
        self.value = zero
        return self

    def parallelize(self, *_: object) -> FakeSpark:
        return self

    def mapPartitionsWithIndex(self, _: object) -> FakeSpark:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[object]:
        self.told.wait()
        return []


def test_a_launch_is_not_stopped_by_a_child_that_leaves_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launch, "InheritableThread", threading.Thread)
    spark = FakeSpark()
    desk = Desk("127.0.0.1", "127.0.0.1", 0, "secret")
    order = cast("LaunchOrder", None)  # nobody is late, so nobody looks at it
    launched = launch.Launch(cast("Any", spark), "flights", order, 1, desk, barrier=False)
    for call, name in ((launched.stop, "stop()"), (launched.wait, "wait()")):
        told = in_fork(call)
        assert told.startswith(f"MisuseError: {name}: this launch was made before this process (")
    assert in_fork(lambda: launched.__exit__(None, None, None)) == "None"
    spark.told.set()
    assert launched.wait(WAIT_S)


def test_a_plan_is_committed_by_its_parent_alone() -> None:
    config = Config.from_dict({"bootstrap.servers": "nowhere:1", "group.id": "billing"})
    plan = Plan(cast("Any", FakeSpark()), config, (), ())
    told = in_fork(plan.commit)
    assert told.startswith("MisuseError: Plan.commit(): this plan was made before this process (")
    assert in_fork(lambda: plan.__exit__(None, None, None)) == "None"
