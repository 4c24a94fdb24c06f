"""Child processes that end with their parent, tried with small commands instead of a broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coop_consumer.broker.process import GuardedProcess, ProcessIdentity

WAIT_S = 20.0

PARENT = """\
import sys
from pathlib import Path
from coop_consumer.broker.process import GuardedProcess
log = Path(sys.argv[1])
child = GuardedProcess.start(["/bin/sh", "-c", "sleep 1000 & echo $!; wait"], log)
while not (grandchild := log.read_text()):
    pass
if "release" in sys.argv:
    child.release()
print(child.pid, grandchild, flush=True)
sys.stdin.read()
"""
"""Has a child that has a child, tells their pids, and waits."""


@dataclass(frozen=True, slots=True)
class Family:
    """Three generations of processes."""

    parent: subprocess.Popen[str]
    child: ProcessIdentity
    grandchild: ProcessIdentity


@contextmanager
def family(log: Path, *arguments: str) -> Iterator[Family]:
    """Three generations that run; none is left at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(log), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child, grandchild = map(ProcessIdentity.of, map(int, parent.stdout.readline().split()))
        try:
            yield Family(parent, child, grandchild)
        finally:
            parent.kill()
            child.signal(signal.SIGKILL)
            grandchild.signal(signal.SIGKILL)


def test_whole_family_ends_when_the_parent_is_killed(tmp_path: Path) -> None:
    with family(tmp_path / "log") as running:
        assert running.child.is_alive()
        assert running.grandchild.is_alive()
        running.parent.kill()
        assert running.child.wait(WAIT_S)
        assert running.grandchild.wait(WAIT_S)


def test_whole_family_ends_when_the_parent_exits(tmp_path: Path) -> None:
    with family(tmp_path / "log") as running:
        running.parent.communicate()  # closes its input, which it waits for
        assert running.parent.returncode == 0
        assert running.child.wait(WAIT_S)
        assert running.grandchild.wait(WAIT_S)


def test_released_child_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    with family(tmp_path / "log", "release") as running:
        running.parent.kill()
        running.parent.wait()
        # A guard that had not been released would have acted by the time a new process has run.
        subprocess.run(["true"], check=True)
        assert running.child.is_alive()
        assert running.grandchild.is_alive()


def test_exit_code_and_output_are_the_commands(tmp_path: Path) -> None:
    process = GuardedProcess.start(["/bin/sh", "-c", "echo hello; exit 3"], tmp_path / "log")
    assert process.wait(WAIT_S) == 3
    assert (tmp_path / "log").read_text() == "hello\n"


def test_command_that_does_not_exist_says_so_in_the_log(tmp_path: Path) -> None:
    process = GuardedProcess.start(["/no/such/java"], tmp_path / "log")
    assert process.wait(WAIT_S) == 127
    assert "/no/such/java" in (tmp_path / "log").read_text()


def test_killed_process_is_gone_and_killing_it_again_is_harmless(tmp_path: Path) -> None:
    process = GuardedProcess.start(["sleep", "1000"], tmp_path / "log")
    identity = ProcessIdentity.of(process.pid)
    process.kill()
    process.kill()
    assert process.exit_code() == -signal.SIGKILL
    assert not identity.is_alive()


def test_other_process_with_the_same_id_is_not_taken_for_it() -> None:
    mine = ProcessIdentity.of(os.getpid())
    namesake = ProcessIdentity(os.getpid(), mine.started + "0")
    assert mine.is_alive()
    assert not namesake.is_alive()
    namesake.signal(signal.SIGKILL)  # would end this test run


def test_process_that_never_was_is_not_alive() -> None:
    assert not ProcessIdentity.of(2**22 + 1).is_alive()
