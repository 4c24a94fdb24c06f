"""The command line without a broker: bad input of every kind, help, exit codes."""

from __future__ import annotations

import logging
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from assignors import WHOLE, TopicPartition, key_hash
from coop_consumer import cli
from coop_consumer.admin.deciding import refuse_unknown
from coop_consumer.admin.target import Target
from coop_consumer.broker import DetachedBroker, running_detached
from coop_consumer.broker.errors import DetachedBrokerError
from coop_consumer.broker.process import ProcessIdentity
from coop_consumer.cli.app import COMMANDS, app
from coop_consumer.cli.decide import _Choice
from coop_consumer.cli.options import Connection
from coop_consumer.cli.run import OPS_ADDRESS, run
from coop_consumer.cli.worker import load_worker
from coop_consumer.errors import ConfigError, DataLossError, ExitCode, WorkerImportError
from coop_consumer.kafka.topics import LATEST, at_time
from coop_consumer.status.errors import GroupMissingError
from coop_consumer.status.model import RecordStatus
from coop_consumer.status.seen import GroupSeen, PartitionSeen
from offsets import ProgressStore
from tests.unit.test_pages import refusal

NOWHERE = "127.0.0.1:1"
START = "coop-consumer broker start"
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "cli.md"


pytestmark = pytest.mark.usefixtures("logging_as_it_was")


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting from outside, no broker of this machine, and a folder to import from."""
    monkeypatch.delenv("COOP_BOOTSTRAP", raising=False)
    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


# -- the whole -------------------------------------------------------------------------------------


def test_the_table_of_commands_says_what_the_commands_say_of_themselves() -> None:
    for name, entry in COMMANDS.items():
        command = app.get_command(click.Context(app), name)
        assert command is not None
        assert command.name == name
        assert command.short_help == entry.summary


def test_every_command_is_documented() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`{name}" not in text] == []


def test_help_lists_commands_and_exit_codes_and_the_page_says_the_same() -> None:
    shown = " ".join(invoke("--help").stdout.split())
    text = DOCUMENTATION.read_text(encoding="utf-8")
    for code in ExitCode:
        assert f"{int(code)} {code.meaning}" in shown
        assert f"| {int(code)} | {code.meaning} |" in text


def test_help_loads_neither_kafka_nor_a_terminal_library() -> None:
    program = (
        "import sys; from coop_consumer.cli.app import app; app(['--help'], standalone_mode=False);"
        "print(sorted({'confluent_kafka', 'kafka', 'rich', 'pyspark'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "[]"


def test_without_its_extra_the_script_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "NEEDED", ("click", "a_library_that_is_not_there"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == ExitCode.USAGE
    assert "pip install 'coop-consumer[cli]'" in capsys.readouterr().err


def test_an_unknown_command_is_a_usage_error_that_names_the_nearest() -> None:
    told = invoke("stauts", "g")
    assert told.exit_code == ExitCode.USAGE
    assert "No such command 'stauts'. The nearest is status." in told.stderr
    assert "nearest" not in invoke("qqqqqq").stderr


def test_an_error_nobody_knows_is_one_line_and_its_traceback_is_for_debug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr("coop_consumer.cli.options.parse_option", broken)
    arguments = ["status", "g", "--bootstrap", NOWHERE, "--config", "a=b"]
    told = invoke(*arguments)
    assert told.exit_code == ExitCode.BROKEN
    assert told.stderr.startswith("error: RuntimeError: out of cheese")
    assert "Traceback" not in told.stderr
    assert "Traceback" in invoke(*arguments, "--log-level", "debug").stderr


def test_an_error_of_ours_says_which_member_of_which_group_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = DataLossError("orders", 3, WHOLE, 40, 99, "stop")
    error.add_note("This ended member m1 of group billing.")

    def ended(*_: object) -> None:
        raise error

    monkeypatch.setattr("coop_consumer.cli.options.parse_option", ended)
    told = invoke("status", "g", "--bootstrap", NOWHERE, "--config", "a=b")
    assert told.exit_code == ExitCode.STOPPED
    assert told.stderr == f"error: {error}\nThis ended member m1 of group billing.\n"


# -- connection ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [["status", "g"], ["reset", "g", "--to", "earliest"], ["doctor"]]
)
def test_without_a_broker_named_the_way_to_name_one_is_told(command: list[str]) -> None:
    told = invoke(*command)
    assert told.exit_code == ExitCode.USAGE
    assert "Give --bootstrap host:port, or set COOP_BOOTSTRAP" in told.stderr


def test_an_unreachable_broker_is_one_line_with_exit_code_3(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path))
    monkeypatch.setattr("coop_consumer.kafka.topics.Topics.check_broker.__defaults__", (0.3,))
    told = invoke("status", "g", "--bootstrap", NOWHERE)
    assert told.exit_code == ExitCode.UNAVAILABLE
    assert told.stderr.startswith(f"error: bootstrap.servers={NOWHERE}: no broker answered")
    [_, *hint] = told.stderr.splitlines()
    assert hint.pop(0) == "bootstrap.servers was given by --bootstrap."
    assert hint == ["No Kafka at hand? This runs one on this machine:", f"    {START}"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--config", "commit.intervall.ms=5"], "The nearest name is commit.interval.ms"),
        (["--config", "commit.interval.ms"], "--config needs name=value"),
        (["--config-file", "missing.properties"], "missing.properties cannot be read"),
        (["--config", "max.attempts=0"], "max.attempts=0"),
    ],
)
def test_a_wrong_setting_is_told_with_the_right_one(arguments: list[str], text: str) -> None:
    told = invoke("status", "g", "--bootstrap", NOWHERE, *arguments)
    assert told.exit_code == ExitCode.USAGE
    assert text in told.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "0", "86401", "soon"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("status g", "--watch"),
        ("scale g", "--watch"),
        ("exporter g", "--every"),
        ("web g", "--every"),
        ("probe live", "--timeout"),
    ],
)
def test_a_time_that_nobody_can_wait_is_refused_before_anything_is_asked(
    command: str, option: str, seconds: str
) -> None:
    told = invoke(*command.split(), option, seconds)
    assert told.exit_code == ExitCode.USAGE
    assert f"'{option}': {seconds} is no time to wait; write 0." in told.stderr
    assert told.stderr.endswith(" to 86400 (seconds)\n")


@pytest.mark.parametrize(("seconds", "problem"), [(9, "below 10"), (86_401, "above 86400")])
def test_a_target_out_of_its_bounds_is_told_with_a_reason_for_that_bound(
    seconds: int, problem: str
) -> None:
    told = invoke(
        "scale", "g", "--bootstrap", NOWHERE, "--config", f"scale.drain.target.s={seconds}"
    )
    assert told.exit_code == ExitCode.USAGE
    assert f"scale.drain.target.s={seconds} is {problem}: " in told.stderr
    assert "new members take some seconds to start, and no autoscaler is needed" in told.stderr


def test_no_workers_at_all_is_told_with_the_reason() -> None:
    told = invoke("scale", "g", "--bootstrap", NOWHERE, "--config", "workers=0")
    assert "workers=0 is below 1: without a worker nothing is processed" in told.stderr


def test_the_nearest_setting_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coop_consumer.kafka.topics.Topics.check_broker.__defaults__", (0.2,))
    monkeypatch.setenv("COOP_BOOTSTRAP", "127.0.0.1:2")
    settings = tmp_path / "a.properties"
    settings.write_text("bootstrap.servers=127.0.0.1:3\n", encoding="utf-8")
    chain = [
        ([], "127.0.0.1:2"),
        (["--config-file", str(settings)], "127.0.0.1:3"),
        (["--config", "bootstrap.servers=127.0.0.1:4"], "127.0.0.1:4"),
        (["--bootstrap", "127.0.0.1:5"], "127.0.0.1:5"),
    ]
    given: list[str] = []
    for more, expected in chain:
        given += more
        assert f"bootstrap.servers={expected}: no broker" in invoke("status", "g", *given).stderr


def test_a_command_without_a_file_reads_the_one_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coop_consumer.kafka.topics.Topics.check_broker.__defaults__", (0.2,))
    monkeypatch.setenv("COOP_BOOTSTRAP", "127.0.0.1:2")
    named, given = tmp_path / "named.properties", tmp_path / "given.properties"
    named.write_text("bootstrap.servers=127.0.0.1:3\nclient.id=c\n", encoding="utf-8")
    given.write_text("client.id=d\n", encoding="utf-8")
    monkeypatch.setenv("COOP_CONFIG_FILE", str(named))
    assert "bootstrap.servers=127.0.0.1:3: no broker" in invoke("status", "g").stderr
    told = invoke("status", "g", "--config", "bootstrap.servers=127.0.0.1:4").stderr
    assert "bootstrap.servers=127.0.0.1:4: no broker" in told
    told = invoke("status", "g", "--config-file", str(given)).stderr
    assert "bootstrap.servers=127.0.0.1:2: no broker" in told, "one file is read, not both"
    monkeypatch.setenv("COOP_CONFIG_FILE", "missing.properties")
    told = invoke("status", "g")
    assert told.exit_code == ExitCode.USAGE
    assert told.stderr.startswith("error: COOP_CONFIG_FILE=missing.properties cannot be read")
    monkeypatch.setenv("COOP_CONFIG_FILE", "")
    assert "bootstrap.servers=127.0.0.1:2: no broker" in invoke("status", "g").stderr


def test_placeholders_work_on_the_command_line_and_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T_SECRET", "hunter2")
    settings = tmp_path / "a.properties"
    settings.write_text(
        "client.id=${env:T_SECRET}\nmax.attempts=${env:T_SECRET}\n", encoding="utf-8"
    )
    told = invoke("doctor", "--bootstrap", NOWHERE, "--config-file", str(settings))
    assert told.exit_code == ExitCode.USAGE
    assert told.stderr.startswith("error: max.attempts=*** is not a whole number")
    told = invoke("status", "g", "--bootstrap", NOWHERE, "--config", "client.id=${env:T_NONE}")
    assert "client.id=${env:T_NONE}: there is no such environment variable" in told.stderr
    connection = Connection(None, (("bootstrap.servers", "${env:T_SECRET}:1"),), None)
    assert connection.words == ("--bootstrap", "${env:T_SECRET}:1")
    assert connection.config("g").bootstrap_servers == "hunter2:1"
    file = Connection(str(settings), (), None, is_file_from_environment=True)
    assert file.words == ()


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        (Connection(None, (), "b:1"), ("--bootstrap", "b:1")),
        (
            Connection(None, (("progress.topic", "p"), ("client.id", "c")), "b:1"),
            ("--bootstrap", "b:1", "--config", "progress.topic=p", "--config", "client.id=c"),
        ),
        (Connection(None, (("bootstrap.servers", "b:2"),), "b:1"), ("--bootstrap", "b:2")),
        (Connection("app.properties", (), "b:1"), ("--config-file", "app.properties")),
    ],
    ids=["the environment", "with settings", "the option", "a file"],
)
def test_who_reads_a_command_elsewhere_has_none_of_this_shells_variables(
    connection: Connection, words: tuple[str, ...]
) -> None:
    """A page's command without its broker began with `bootstrap.servers is missing`."""
    assert connection.words_elsewhere("nobody") == words


def test_who_reads_a_command_elsewhere_gets_the_broker_of_a_file_that_a_variable_names(
    tmp_path: Path,
) -> None:
    named = tmp_path / "app.properties"
    named.write_text("bootstrap.servers=b:3\nclient.id=c\n", encoding="utf-8")
    connection = Connection(str(named), (), "b:1", is_file_from_environment=True)
    assert connection.words_elsewhere("nobody") == ("--bootstrap", "b:3")


# -- run -------------------------------------------------------------------------------------------

MODULE = """
from coop_consumer import Worker
NUMBER = 7
class Good(Worker):
    def process(self, record): pass
class Batches(Worker):
    def process_batch(self, records): pass
class AsyncBatches(Worker):
    async def process_batch(self, records): pass
class Async(Worker):
    async def process(self, record): pass
class Both(Good, Batches): pass
class Yields(Worker):
    def process(self, record): yield record
ready_made = Batches()
class Idle(Worker): pass
class Needy(Worker):
    def __init__(self, url): pass
    def process(self, record): pass
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[str]:
    """The name of a module of workers, importable from the current directory."""
    name = f"jobs_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    yield name
    sys.modules.pop(name, None)


def test_a_worker_is_found_in_the_current_directory(jobs: str) -> None:
    assert type(load_worker(f"{jobs}:Good")).__name__ == "Good"


@pytest.mark.parametrize("name", ["Batches", "AsyncBatches", "Async"])
def test_a_worker_of_any_style_is_taken(jobs: str, name: str) -> None:
    assert type(load_worker(f"{jobs}:{name}")).__name__ == name


def test_an_instance_is_taken_as_a_pool_takes_it(jobs: str) -> None:
    worker = load_worker(f"{jobs}:ready_made")
    assert worker is load_worker(f"{jobs}:ready_made")
    assert type(worker).__name__ == "Batches"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("{jobs}", "it is not of the form module:Class"),
        (":Good", "it is not of the form module:Class"),
        ("{jobs}:Goood", "{jobs}.py, has no Goood; it has Good"),
        ("folder:Good", "module folder, the folder {here}/folder, has no Good; it has no Worker"),
        ("{jobs}:NUMBER", "it does not derive from coop_consumer.Worker"),
        ("{jobs}:Both", "it has both process and process_batch"),
        ("{jobs}:Yields", "its process yields"),
        ("{jobs}:Idle", "it has no process(self, record)"),
        ("{jobs}:Needy", "Needy() raised TypeError"),
        ("no_such_module:Good", "no module no_such_module"),
        ("no_such_package.inner:Good", "no module no_such_package"),
    ],
)
def test_a_worker_that_cannot_be_had_is_told_before_any_broker_is_asked(
    jobs: str, tmp_path: Path, spec: str, text: str
) -> None:
    (tmp_path / "folder").mkdir()  # Python takes a folder for a module, too
    told = invoke("run", spec.format(jobs=jobs), "-t", "orders", "-g", "g", "--bootstrap", NOWHERE)
    assert told.exit_code == ExitCode.USAGE
    assert text.format(jobs=jobs, here=tmp_path) in told.stderr


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("import not_installed_here", "imports not_installed_here, which is not installed"),
        ("1 / 0", "raised ZeroDivisionError"),
        ("def (", "raised SyntaxError"),
        ("import sys; sys.exit(0)", "raised SystemExit: 0"),
    ],
)
def test_a_module_that_fails_is_told_with_its_reason(
    tmp_path: Path, source: str, text: str
) -> None:
    name = f"bad_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    with pytest.raises(WorkerImportError, match=re.escape(text)):
        load_worker(f"{name}:Worker")


def test_a_group_is_needed_to_run(jobs: str) -> None:
    told = invoke("run", f"{jobs}:Good", "-t", "orders", "--bootstrap", NOWHERE)
    assert told.exit_code == ExitCode.USAGE
    assert "group.id is missing" in told.stderr


@pytest.mark.parametrize(
    "arguments",
    [["-g", "g"], ["-t", ",", "-g", "g"], ["-t", "a", "-w", "0"], ["-t", "a", "--until", "noon"]],
)
def test_wrong_arguments_of_run_are_usage_errors(jobs: str, arguments: list[str]) -> None:
    told = invoke("run", f"{jobs}:Good", "--bootstrap", NOWHERE, *arguments)
    assert told.exit_code == ExitCode.USAGE


def test_one_core_is_not_for_processes(jobs: str) -> None:
    told = invoke("run", f"{jobs}:Good", "-t", "a", "-g", "g", "--one-core", "--executor=process")
    assert told.exit_code == ExitCode.USAGE
    assert "--one-core is for threads" in told.stderr


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("--ops {worker}", OPS_ADDRESS),
        ("--ops {worker} -g g", OPS_ADDRESS),
        ("{worker} --ops", OPS_ADDRESS),
        ("{worker} --ops -g g", OPS_ADDRESS),
        ("--ops 127.0.0.1:9474 {worker}", "127.0.0.1:9474"),
        ("--ops=localhost:9474 {worker}", "localhost:9474"),
        ("{worker}", None),
    ],
)
def test_a_worker_is_no_address_to_answer_at(words: str, address: str | None) -> None:
    context = run.make_context("run", words.format(worker="billing:Billing").split())
    assert (context.params["worker"], context.params["ops"]) == ("billing:Billing", address)


@pytest.mark.parametrize("command", ["web", "exporter"])
@pytest.mark.parametrize("address", ["nonsense", ":0", "localhost", "localhost:65536"])
def test_a_text_that_is_no_address_is_told_before_anything_else(command: str, address: str) -> None:
    told = invoke(command, "--bootstrap", NOWHERE, "--address", address)

    assert told.exit_code == ExitCode.USAGE
    assert f"'--address': {address} is no address; write host:port" in told.stderr


def test_a_page_without_its_extra_names_the_extra_and_asks_no_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    told = invoke("web", "billing", "--bootstrap", NOWHERE)

    assert told.exit_code == ExitCode.USAGE
    assert "error: coop-consumer web needs jinja2, not installed here" in told.stderr
    assert "pip install 'coop-consumer[web]'" in told.stderr
    assert "Traceback" not in told.stderr
    assert NOWHERE not in told.stderr


def test_an_exporter_without_its_extras_is_named_and_not_an_option_that_nobody_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    told = invoke("exporter", "billing", "--bootstrap", NOWHERE)
    assert told.exit_code == ExitCode.USAGE
    assert "error: coop-consumer exporter needs prometheus_client, not installed" in told.stderr
    assert "--address" not in told.stderr


def test_an_option_that_needs_an_extra_is_told_without_a_second_blank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    told = invoke("exporter", "billing", "--bootstrap", NOWHERE, "--otel")
    assert told.exit_code == ExitCode.USAGE
    assert "error: --otel needs the package opentelemetry-api" in told.stderr


def test_a_page_whose_port_is_in_use_says_so_before_it_looks_at_a_group() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = invoke("web", "billing", "--bootstrap", NOWHERE, "--address", address)

    assert told.exit_code == ExitCode.USAGE
    assert f"--address={address} is in use" in told.stderr
    assert "is watched" not in told.stderr


# -- wrong words -----------------------------------------------------------------------------------


def lacking(command: click.Command, *words: str) -> Iterator[tuple[str, ...]]:
    """All commands that need words, by their own words."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from lacking(inner, *words, name)
    elif any(it.required for it in command.params):
        yield words


@pytest.mark.parametrize("words", [*lacking(app)], ids=" ".join)
def test_a_missing_word_is_told_with_a_command_that_has_all(words: tuple[str, ...]) -> None:
    told = invoke(*words)
    assert told.exit_code == ExitCode.USAGE
    line = r"Missing (?:argument|option) .*As in: coop-consumer (.*?)(?:\. Choose from:)?$"
    found = re.search(line, told.stderr, re.MULTILINE)
    assert found is not None, told.stderr
    assert found[1].startswith(" ".join(words))
    assert refusal(shlex.split(found[1])) == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run a:B --workers many", "many is no whole number of 1 or more; write one, as in --work"),
        ("run a:B --workers 0", "0 is no whole number of 1 or more; write one, as in --workers 64"),
        ("topic create a --partitions 0", "0 is no whole number from 1 to 100000; write one, as"),
        ("broker start --port 70000", "70000 is no whole number from 1 to 65535; write one, as in"),
        ("retry g a-1 x", "'OFFSET': x is no whole number of 0 or more; write one, as in 43"),
    ],
)
def test_a_number_that_is_none_is_told_with_its_range_and_an_example(words: str, told: str) -> None:
    """click said `is not a valid integer range`, and named none."""
    ended = invoke(*words.split())
    assert ended.exit_code == ExitCode.USAGE
    assert told in ended.stderr


# -- reset, retry, skip, broker, demo --------------------------------------------------------------

STARTED = DetachedBroker(
    "default", "127.0.0.1:9092", "4", "data", False, "log", ProcessIdentity(1, ""), 0
)


@pytest.mark.parametrize(
    "text", ["yesterday", "", "-5", "1.5", "2026-13-01", "9" * 19, "9" * 23, "9" * 5_000, "\u0663"]
)
def test_a_place_that_is_none_is_told_with_the_possible_ones(text: str) -> None:
    told = invoke("reset", "g", "--to", text, "--bootstrap", NOWHERE)
    assert told.exit_code == ExitCode.USAGE
    assert "Give earliest, latest, committed, an offset, an ISO 8601 time, or Unix" in told.stderr


def test_places_are_ends_offsets_and_times() -> None:
    assert Target.parse("latest") == Target("latest")
    assert Target.parse("committed") == Target("committed")
    assert Target.parse("1200") == Target("offset", 1_200)
    assert Target.parse("1700000000000") == Target("time", 1_700_000_000_000)
    assert Target.parse("2023-11-14T22:13:20") == Target("time", 1_700_000_000_000)
    assert Target.parse("2023-11-14T23:13:20+01:00") == Target("time", 1_700_000_000_000)


@pytest.mark.parametrize("time_ms", [-1, -2, -62_135_596_800_000])
def test_a_time_before_1970_is_not_the_end(time_ms: int) -> None:
    """-1 and -2 are the protocol's words for the end and the beginning."""
    assert vars(at_time(time_ms)) == vars(at_time(0)) != vars(LATEST)


@pytest.mark.parametrize("command", ["retry", "skip"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["orders", "5"],
        ["orders-", "5"],
        ["-3", "5"],
        ["orders-3", "--", "-1"],
        ["orders-3"],
        ["orders-" + "9" * 5_000, "5"],
        ["orders-3", "9" * 5_000],
    ],
)
def test_a_record_is_named_by_topic_partition_and_offset(
    command: str, arguments: list[str]
) -> None:
    told = invoke(command, "g", "--bootstrap", NOWHERE, *arguments)
    assert told.exit_code == ExitCode.USAGE
    assert not re.search(r"'\[|\]'", told.stderr), "a bracket of the usage line"


@pytest.mark.parametrize("command", ["retry", "skip"])
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "choose by --all, --error, --topic, --key"),
        (["orders-3"], "Name the record's OFFSET, too"),
        (["orders-3", "5", "--all"], "not both"),
        (["orders-3", "--error", "x"], "Name the record's OFFSET, too"),
        (["--error", ""], "To choose all: --all"),
        (["--error", " ", "--topic", "orders"], "To choose all: --all"),
    ],
)
def test_parked_records_are_named_by_place_or_chosen_by_options(
    command: str, arguments: list[str], why: str
) -> None:
    told = invoke(command, "g", *arguments, "--bootstrap", NOWHERE)
    assert told.exit_code == ExitCode.USAGE
    assert why in " ".join(told.stderr.split())


def test_a_key_is_the_bytes_of_the_command_line() -> None:
    key, place = b"\xff", TopicPartition("orders", 0)
    parked = RecordStatus(5, key, True, key_hash(key), -1, 5, True, "no", 0, "", "")
    for text, fits in ((os.fsdecode(key), True), ("x", False)):
        choice = _Choice(
            place=None, offset=None, everything=False, error=None, topics=(), keys=(text,),
            dry_run=True,
        )  # fmt: skip
        assert choice.fits(place, parked) is fits


def test_no_record_of_a_group_that_nobody_knows_is_said_to_be_done() -> None:
    log = ProgressStore("g")
    place = TopicPartition("orders", 0)
    seen = PartitionSeen(place, bytes(16), 0, 9, None, log.partition(bytes(16), 0))
    with pytest.raises(GroupMissingError, match="group g: does not exist"):
        refuse_unknown(GroupSeen("g", "Dead", "", (), (seen,), {}, 0))
    refuse_unknown(
        GroupSeen("g", "Empty", "", (), (seen,), {}, 0, topics_committed=frozenset({"orders"}))
    )


def test_the_first_start_of_a_broker_tells_that_it_fetches_its_jars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fetch(*_: object, **__: object) -> DetachedBroker:
        logging.getLogger("coop_consumer.broker.jars").info("fetching Apache Kafka")
        return STARTED

    monkeypatch.setattr("coop_consumer.cli.broker.start_detached", fetch)
    told = invoke("broker", "start")
    assert "fetching Apache Kafka" in told.stderr
    assert told.stdout.startswith("broker default: ended\n")


@pytest.mark.parametrize("port", [9092, 23_000])
def test_a_broker_that_was_started_tells_the_line_to_paste_and_a_taken_port(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    started = replace(STARTED, bootstrap_servers=f"127.0.0.1:{port}")
    monkeypatch.setattr("coop_consumer.cli.broker.start_detached", lambda *_: started)
    told = invoke("broker", "start")
    assert told.stdout.endswith(f"\n\nexport COOP_BOOTSTRAP=127.0.0.1:{port}\n")
    assert ("port 9092 is taken" in told.stderr) is (port != 9092)
    assert "is taken" not in invoke("broker", "start", "--port", str(port)).stderr
    monkeypatch.setenv("COOP_BOOTSTRAP", f"127.0.0.1:{port}")
    assert "export" not in invoke("broker", "start").stdout


def test_a_second_start_of_a_broker_tells_where_it_runs_and_starts_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """README may be pasted twice: it ended with code 2, and without the line to paste."""

    def start(*_: object) -> DetachedBroker:
        raise DetachedBrokerError("default", "runs already", "Use it, or stop it first")

    running = replace(STARTED, keeps_data=True, data_dir=str(tmp_path / "data"))
    monkeypatch.setattr("coop_consumer.cli.broker.status_detached", lambda _: running)
    monkeypatch.setattr("coop_consumer.cli.broker.start_detached", start)
    address = running.bootstrap_servers
    port = address.rpartition(":")[2]
    for words in ((), ("--port", port), ("--data", "data")):
        told = invoke("broker", "start", *words)
        assert told.exit_code == 0, told.output
        assert told.stdout.endswith(f"\n\nexport COOP_BOOTSTRAP={address}\n")
        assert "is taken" not in told.stderr
    for words in (("--port", "1"), ("--data", "elsewhere")):
        told = invoke("broker", "start", *words)
        assert told.exit_code == ExitCode.USAGE
        assert "runs already" in told.stderr


def test_a_port_that_another_broker_of_ours_has_is_told_with_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path))
    first = replace(STARTED, bootstrap_servers="127.0.0.1:9092")
    second = replace(STARTED, name="two", bootstrap_servers="127.0.0.1:23000")
    monkeypatch.setattr("coop_consumer.cli.broker.start_detached", lambda *_: second)
    monkeypatch.setattr("coop_consumer.cli.broker.running_detached", lambda: [first, second])
    told = invoke("broker", "start", "--name", "two").stderr
    assert "port 9092 is taken by broker default\n" in told


def test_a_broker_that_does_not_run_is_found_missing_and_stopped_without_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path / "state"))
    told = invoke("broker", "status")
    assert told.exit_code == ExitCode.MISSING
    assert told.stdout.endswith(f"\n    {START}\n")
    assert invoke("broker", "status", "--name", "b").stdout.endswith(f"{START} --name b\n")
    stopped = invoke("broker", "stop", "--name", "other")
    assert (stopped.exit_code, stopped.stdout) == (0, "broker other: none was running\n")
    assert "is not a name" in invoke("broker", "status", "--name", "a b").stderr


@pytest.mark.parametrize("option", [["--members", "1"], ["--records", "0"], ["--latency", "-1"]])
def test_a_demo_that_cannot_be_run_is_told_before_it_starts(option: list[str]) -> None:
    assert invoke("demo", *option).exit_code == ExitCode.USAGE


@pytest.mark.parametrize("name", ["a\udcff", "a\x00", "", "..", "a b", "x" * 250])
def test_no_command_asks_for_a_topic_or_a_group_that_no_client_can_name(name: str) -> None:
    asked = [
        ["status", "g", "-t", name],
        ["reset", "g", "--to", "earliest", "-t", name],
        ["reset", "g", "--to", "earliest", "-p", f"{name}-0"],
        ["retry", "g", f"{name}-0", "1"],
        ["skip", "g", f"{name}-0", "1"],
        ["release", "g", f"{name}-0"],
        ["policy", "set", "accept.range.fetch=false", "-t", name],
        ["policy", "get", "-t", name],
        ["doctor", "-t", name],
    ]
    asked += [["status", name], ["reset", name, "--to", "earliest"]] if "\x00" in name else []
    for words in asked:
        told = invoke(*words, "--bootstrap", NOWHERE)
        assert told.exit_code == ExitCode.USAGE, (words, told.output)


@pytest.mark.parametrize("group", ["a\udcff", "\x1b[2J"])
@pytest.mark.parametrize(
    "words", [["status"], ["reset", "--to", "earliest"], ["release"], ["retry", "t-0", "1"]]
)
def test_a_group_that_is_no_text_is_refused_at_the_door(group: str, words: list[str]) -> None:
    told = invoke(words[0], group, *words[1:], "--bootstrap", NOWHERE)
    assert told.exit_code == ExitCode.USAGE
    assert told.stderr.startswith("error: group.id=")
    assert "which no client can send" in told.stderr


def test_the_other_name_of_the_brokers_counts_as_the_first(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("metadata.broker.list=file:1\n")
    other = ("metadata.broker.list", "option:1")

    def brokers(*options: tuple[str, str], named: str | None = None) -> str:
        return Connection(named, options, "environment:1").config("billing").bootstrap_servers

    assert brokers() == "environment:1"
    assert brokers(other) == "option:1"
    assert brokers(named=str(file)) == "file:1"
    assert brokers(("bootstrap.servers", "option:2"), named=str(file)) == "option:2"
    with pytest.raises(ConfigError, match="differ"):
        brokers(other, ("bootstrap.servers", "option:2"))


def test_a_note_of_a_broker_that_cannot_be_read_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brokers" / "default" / "broker.json").mkdir(parents=True)
    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path))
    assert running_detached() == []
