"""Handlers of signals: what they may interrupt, what they are told, and what they leave alone."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from coop_consumer import Record, Worker
from coop_consumer.signals import Latch, elsewhere, in_handler
from tests.support.crew import WAIT_S, Crew, Script

Found = list[bool]


@pytest.fixture
def found() -> Iterator[Found]:
    """What handlers of SIGUSR1 have found; the test puts one in place."""
    before = signal.getsignal(signal.SIGUSR1)
    yield []
    signal.signal(signal.SIGUSR1, before)


class Handling:
    def __init__(self, found: Found) -> None:
        self.found = found

    def handle(self, _: int, __: object) -> None:
        self.found.append(in_handler())


def made_of(found: Found) -> dict[str, Callable[..., object]]:
    def deeper(_number: int, _frame: object) -> None:
        Handling(found).handle(0, None)

    return {
        "lambda": lambda *_: found.append(in_handler()),
        "method": Handling(found).handle,
        "deeper": deeper,
    }


@pytest.mark.parametrize("kind", ["lambda", "method", "deeper"])
def test_code_that_a_handler_calls_knows_it(found: Found, kind: str) -> None:
    signal.signal(signal.SIGUSR1, made_of(found)[kind])
    signal.raise_signal(signal.SIGUSR1)
    assert found == [True]
    assert not in_handler()


def test_a_thread_that_a_handler_starts_is_not_in_it(found: Found) -> None:
    ended = threading.Event()

    def note() -> None:
        found.append(in_handler())
        ended.set()

    signal.signal(signal.SIGUSR1, lambda *_: elsewhere(note))
    signal.raise_signal(signal.SIGUSR1)
    assert ended.wait(WAIT_S)
    assert found == [False]


def test_a_latch_opens_with_its_future_for_all_who_wait() -> None:
    future: Future[None] = Future()
    latch = Latch(future)
    assert not latch.wait(0)
    future.set_result(None)
    assert latch.wait(None)
    assert latch.wait(0)


class Asks(Worker):
    """Notes whether its style knows that the worker's own code asks."""

    def __init__(self) -> None:
        self.answers: list[bool] = []
        self.is_inside: Callable[[], bool] = lambda: False

    def process(self, _: Record) -> None:
        self.answers.append(self.is_inside())

    def flush(self) -> None:
        self.answers.append(self.is_inside())


class AsksOnLoop(Asks):
    async def process(self, _: Record) -> None:  # type: ignore[override]
        self.answers.append(self.is_inside())

    async def flush(self) -> None:  # type: ignore[override]
        self.answers.append(self.is_inside())


@pytest.mark.parametrize(
    ("worker", "executor"), [(Asks, "thread"), (Asks, "inline"), (AsksOnLoop, "thread")]
)
def test_a_workers_own_code_is_told_from_others(worker: type[Asks], executor: str) -> None:
    asks = worker()
    with Crew(asks, Script(), 1, executor=executor) as crew:
        asks.is_inside = crew.style.is_inside
        crew.produce(b"a")
        crew.until_done(1)
        crew.style.flush()
        assert not crew.style.is_inside()
    assert asks.answers == [True, True]


REAPS = """
import ctypes, os, subprocess
from coop_consumer.cli.supervisor import reap_orphans
ctypes.CDLL(None).prctl(36, 1)  # orphans below become this process's, as those of process 1
own = subprocess.Popen(["sleep", "60"])
made = subprocess.run(["sh", "-c", "sleep 60 >&- 2>&- & echo $!"], stdout=subprocess.PIPE)
orphan = int(made.stdout)
os.kill(orphan, 9)
os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
reap_orphans(own.pid)
try:
    os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
except ChildProcessError:
    print("reaped")
own.terminate()
os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
reap_orphans(own.pid)
print(own.wait())
"""

GETS_NO_PROCESS = """
import errno, logging, subprocess, sys
from coop_consumer.cli import restarts, supervisor
restarts.PAUSE_S = 0.0
logging.basicConfig(stream=sys.stdout, format="%(message)s")
steps = sys.argv[1].split()
def run_again(orders):
    step = steps.pop(0)
    if step == "refused":
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
    program = {
        "falls": "import os; os.write({0}, b'joined m-1' + bytes([10])); os.kill(os.getpid(), 9)",
        "ends": "import os; os.write({0}, b'left' + bytes([10]))",
    }[step]
    line = [sys.executable, "-c", program.format(orders.socket)]
    return subprocess.Popen(line, pass_fds=[orders.socket])
supervisor._run_again = run_again
with supervisor.Supervisor() as parent:
    print("exit code", parent.run())
"""


@pytest.mark.parametrize(
    ("steps", "code", "tries"), [("refused", 12, 0), ("falls refused refused ends", 0, 2)]
)
def test_a_worker_process_that_cannot_be_started_is_told_and_tried_again_once_it_had_joined(
    steps: str, code: int, tries: int
) -> None:
    command = [sys.executable, "-c", GETS_NO_PROCESS, steps]
    run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (run.stdout.splitlines()[-1:], run.stderr) == ([f"exit code {code}"], "")
    assert "no worker process could be started: no further thread or process" in run.stdout
    assert "ulimit -u" in run.stdout
    assert run.stdout.count("Trying again in 0 s") == tries


NAMES_ITSELF = """
import errno, json, logging, subprocess, sys
from coop_consumer.cli import restarts, supervisor
restarts.PAUSE_S = 0.0
class Facts(logging.Handler):
    def emit(self, record):
        found = vars(record)
        print(*(found.get(name) for name in ("event", "group", "member")), flush=True)
logging.basicConfig(handlers=[Facts()])
LINES = b'named {"group": "a b", "member": "b-1"}' + bytes([10]) + b"joined b-1-id" + bytes([10])
PROGRAM = "import os; os.write({0}, {1!r}); os.kill(os.getpid(), 9)"
steps = ["falls", "refused", "ends"]
def run_again(orders):
    step = steps.pop(0)
    if step == "refused":
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
    program = PROGRAM.format(orders.socket, LINES)
    if step == "ends":
        program = f"import os; os.write({orders.socket}, b'left' + bytes([10]))"
    return subprocess.Popen([sys.executable, "-c", program], pass_fds=[orders.socket])
supervisor._run_again = run_again
with supervisor.Supervisor() as parent:
    parent.run()
    parent._has_left = lambda _: False
    parent._leave("b-1-id")
"""


def test_lines_of_the_parent_name_the_group_and_the_member_of_its_worker_process() -> None:
    command = [sys.executable, "-c", NAMES_ITSELF]
    run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    events = ["process.fell", "process.not_started", "member.not_left"]
    assert (run.stdout.splitlines(), run.stderr) == ([f"{it} a b b-1" for it in events], "")


LEAVES_IN_VAIN = """
import os, signal, subprocess
from coop_consumer.cli import supervisor
supervisor._run_again = lambda orders: subprocess.Popen(["sleep", "600"])
supervisor._LEAVE_TIMEOUTS_S = (600.0, 600.0, 0.0)
with supervisor.Supervisor() as parent:
    parent._ends_asked = 1
    os.kill(os.getpid(), signal.SIGTERM)
    print(parent._has_left("b-1-id"), parent._signals())
    print(parent._has_left("b-1-id"), parent._leave_s)
    parent._ends_asked = 3
    print(parent._leave_s)
"""


def test_after_a_second_signal_the_parent_does_not_wait_for_brokers_that_are_away() -> None:
    """It tried for 15 s to leave for the worker process. What it reads meanwhile is heeded."""
    command = [sys.executable, "-c", LEAVES_IN_VAIN]
    run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    lines = [f"False [{signal.SIGTERM.value}]", "False 0.0", "0.0"]
    assert (run.stdout.splitlines(), run.stderr) == (lines, "")


HAS_IGNORED = """
import signal
from coop_consumer.cli.supervisor import Supervisor
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
with Supervisor():
    print(signal.getsignal(signal.SIGHUP).name, callable(signal.getsignal(signal.SIGTERM)))
    print(callable(signal.getsignal(signal.SIGCHLD)))
"""


@pytest.mark.parametrize(
    ("program", "lines"),
    [(REAPS, ["reaped", "-15"]), (HAS_IGNORED, ["SIG_IGN True", "True"])],
)
def test_the_parent_of_run_reaps_orphans_alone_and_leaves_ignored_signals_ignored(
    program: str, lines: list[str]
) -> None:
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (run.stdout.splitlines(), run.stderr) == (lines, "")
