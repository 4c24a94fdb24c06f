"""A machine that gives too little: one message, an exit code of its own, and no abort."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, KafkaException

from coop_consumer.broker import FolderError, start_detached
from coop_consumer.broker.jars import cache_home
from coop_consumer.broker.node import NodeRunner
from coop_consumer.broker.settings import Node, NodePorts
from coop_consumer.cli import limits
from coop_consumer.cli.app import app
from coop_consumer.config import Config
from coop_consumer.errors import (
    DiskFullError,
    ExitCode,
    OutOfFilesError,
    OutOfMemoryError,
    OutOfThreadsError,
    exit_code_of,
    lacking,
    lacking_in,
)
from coop_consumer.kafka.clients import making

LIMITED = """
import resource, sys
from coop_consumer.cli.limits import refuse_too_little
from coop_consumer.errors import OutOfResourceError
resource.setrlimit(getattr(resource, sys.argv[1]), (int(sys.argv[2]), int(sys.argv[2])))
try:
    refuse_too_little(64, has_threads=True)
except OutOfResourceError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def limited(kind: str, limit: int) -> tuple[int, str]:
    """How the look ends under a limit, and what it says."""
    line = [sys.executable, "-c", LIMITED, kind, str(limit)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_too_few_files_are_said_before_anything_starts() -> None:
    code, told = limited("RLIMIT_NOFILE", 30)
    assert code == ExitCode.FILES, told
    assert "the limit is 30" in told
    assert "ulimit -n" in told


def test_too_few_threads_are_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([None] * 7)

    def start(wait: Callable[[], object], _: tuple[()]) -> None:
        if next(left, "none") == "none":
            raise RuntimeError("can't start new thread")
        assert wait

    monkeypatch.setattr(limits, "start_new_thread", start)
    with pytest.raises(OutOfThreadsError, match=r"7 of 104 could be started.*ulimit -u"):
        limits.refuse_too_little(64, has_threads=True)


COMMANDS = (
    "status billing", "doctor", "retry billing --all", "skip billing --all", "release billing",
    "reset billing --to latest", "policy get", "policy set accept.range.fetch=true --topic t",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_makes_a_client_that_gets_no_file(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (20, 20))
    ended = CliRunner().invoke(app, [*command.split(), "--bootstrap", "127.0.0.1:1"])
    assert ended.exit_code == ExitCode.FILES, ended.output
    assert "the limit is 20" in ended.output


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_makes_a_client_that_gets_no_thread(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(limits, "start_new_thread", refuse)
    ended = CliRunner().invoke(app, [*command.split(), "--bootstrap", "127.0.0.1:1"])
    assert ended.exit_code == ExitCode.THREADS, ended.output
    assert "0 of 20 could be started" in ended.output


# The level stays for the tests that follow.
WATCHING = (
    "exporter --address 127.0.0.1:0 --log-level warning",
    "web --address 127.0.0.1:0 --log-level warning",
)


@pytest.mark.parametrize("command", WATCHING)
@pytest.mark.parametrize("groups", [[], ["a", "b", "c"]])
def test_no_group_is_watched_by_clients_that_get_no_file(
    command: str, groups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is enough for one look, with which the command begins."""
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (150, 150))
    line = [*command.split(), *groups, "--bootstrap", "127.0.0.1:1"]
    ended = CliRunner().invoke(app, line)
    assert ended.exit_code == ExitCode.FILES, ended.output
    assert "the limit is 150" in ended.output


@pytest.mark.parametrize("command", WATCHING)
def test_so_many_groups_are_watched_as_there_are_threads_for(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, left = limits.start_new_thread, iter(range(150))

    def limited_start(wait: Callable[..., object], args: tuple[()]) -> int:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        return start(wait, args)

    monkeypatch.setattr(limits, "start_new_thread", limited_start)
    groups = [f"group-{number}" for number in range(50)]
    ended = CliRunner().invoke(app, [*command.split(), *groups, "--bootstrap", "127.0.0.1:1"])
    assert ended.exit_code == ExitCode.THREADS, ended.output
    assert "130 of 210 could be started" in ended.output, "20 were for the first look"


def test_one_group_is_watched_where_a_look_is_possible_and_little_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (used + 100, used + 100))
    limits.refuse_too_little_for_watches(1, 1)
    with pytest.raises(OutOfFilesError):
        limits.refuse_too_little_for_watches(2, 2)


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_more_workers_than_the_machine_has_threads_for_are_refused_before_one_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, executor: str
) -> None:
    """A number with some zeros too many took all threads of the machine, then all memory."""
    most = tmp_path / "threads-max"
    most.write_text("30000\n", encoding="ascii")
    monkeypatch.setattr(limits, "_MOST_THREADS", (most, tmp_path / "missing"))
    begun: list[object] = []
    monkeypatch.setattr(limits, "start_new_thread", lambda *call: begun.append(call))
    told = asked_to_run(tmp_path, monkeypatch, "def", "--executor", executor)
    assert told.exit_code == ExitCode.THREADS, told.output
    assert "of 30,000 that this machine has for all processes" in told.stderr
    assert "run fewer workers" in told.stderr
    assert len(begun) <= limits.LOOK_THREADS


def test_the_tasks_of_an_event_loop_need_no_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "start_new_thread", lambda *_: None)
    told = asked_to_run(tmp_path, monkeypatch, "async def")
    assert told.exit_code == ExitCode.USAGE, told.output
    assert "workers=100000000 are more than one member can use" in told.stderr


def asked_to_run(folder: Path, monkeypatch: pytest.MonkeyPatch, handler: str, *more: str) -> Result:
    """`coop-consumer run` with far too many workers."""
    (folder / "jobs_of_limits.py").write_text(
        "from coop_consumer import Worker\n\nclass Job(Worker):\n"
        f"    {handler} process(self, record):\n        pass\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "jobs_of_limits", sys)  # is taken away at the end
    del sys.modules["jobs_of_limits"]
    words = ("-t", "orders", "-g", "g", "--bootstrap", "127.0.0.1:1", "--no-supervise")
    asked = ("run", "jobs_of_limits:Job", *words, "--workers", "100000000", *more)
    return CliRunner().invoke(app, asked)


def test_threads_that_no_memory_is_left_for_are_a_matter_of_memory() -> None:
    code, told = limited("RLIMIT_AS", 400_000_000)
    assert code == ExitCode.MEMORY, told
    assert "of 104 could be started" in told
    assert "ulimit -v" in told


def test_a_usual_limit_is_enough() -> None:
    assert limited("RLIMIT_NOFILE", 256) == (0, "")


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DiskFullError, 9),
        (OSError(errno.EMFILE, "Too many open files"), OutOfFilesError, 10),
        (MemoryError(), OutOfMemoryError, 11),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), OutOfMemoryError, 11),
        (RuntimeError("can't start new thread"), OutOfThreadsError, 12),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), OutOfThreadsError, 12),
    ],
)
def test_each_lack_has_a_message_and_an_exit_code_of_its_own(
    error: Exception, kind: type[Exception], code: int
) -> None:
    found = lacking(error)
    assert type(found) is kind
    assert exit_code_of(error) == code
    late = ValueError("a store fails")
    late.__cause__ = error
    if not isinstance(error, BlockingIOError):  # which a socket says of another thing
        assert type(lacking(late)) is kind


def test_a_client_that_gets_no_thread_does_not_blame_a_setting() -> None:
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})
    why = "Failed to create thread: Resource temporarily unavailable (11)"
    refused = KafkaError(KafkaError._CRIT_SYS_RESOURCE, why)
    with pytest.raises(OutOfThreadsError, match="Failed to create thread"), making(config):
        raise KafkaException(refused)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ERROR java.io.IOException: No space left on device", DiskFullError),
        ("# There is insufficient memory for the Java Runtime Environment", OutOfMemoryError),
        ("java.lang.OutOfMemoryError: unable to create native thread", OutOfThreadsError),
        ("java.net.SocketException: Too many open files", OutOfFilesError),
        ("Could not allocate compressed class space: 1073741824 bytes", OutOfMemoryError),
        ("Failed to allocate initial concurrent mark overflow mark stack.", OutOfMemoryError),
        ("[0.010s][error  ][gc,task  ] Failed to create worker thread", OutOfThreadsError),
        ("Cannot create VM thread. Out of system resources.", OutOfThreadsError),
    ],
)
def test_a_broker_that_lacks_something_is_no_riddle(
    tmp_path: Path, line: str, kind: type[Exception]
) -> None:
    node = Node(1, NodePorts(1, 2, 3), tmp_path)
    runner = NodeRunner(node, ("/bin/echo", line))
    runner.launch()
    assert runner._process is not None
    runner._process.wait()
    found = runner.failure("ended with exit code 1")
    assert type(found) is kind
    assert line in str(found)
    assert str(node.log_path) in str(found)


def test_other_ends_of_a_broker_show_their_log() -> None:
    assert lacking_in("ERROR the port is taken\nbye") is None


def homeless(_: type[Path]) -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_user_without_a_home_is_told_how_to_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", classmethod(homeless))
    for variable in ("COOP_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(FolderError, match=r"Set HOME, or COOP_STATE_DIR=FOLDER") as caught:
        start_detached("nobodys")
    assert exit_code_of(caught.value) is ExitCode.USAGE
    with pytest.raises(FolderError, match=r"COOP_CACHE_DIR=FOLDER"):
        cache_home({})


def test_a_full_disk_is_said_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "broker.json")

    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DiskFullError, match=r"broker\.json"):
        start_detached("full")


def test_notes_that_may_not_be_written_are_a_matter_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "lock")

    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(FolderError, match="Permission denied"):
        start_detached("refused")
