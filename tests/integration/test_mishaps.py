"""What happens to a member while it runs: the log says what, where, what now, what helps, and soon.

How soon is read from the lines: either they say it, or their times do. The limits are five times
what the docs promise or more, as a busy machine is no defect.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from coop_consumer.errors import ExitCode
from coop_consumer.plain_text import command
from tests.support import stock
from tests.support.job import Job
from tests.support.pages import Background
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

WORKERS = """
import os
import threading

from coop_consumer import Worker


class Prints(Worker):
    def process(self, record):
        print(f"done {record.offset} in {os.getpid()}\\n", end="", flush=True)


class Hangs(Worker):
    def process(self, record):
        threading.Event().wait()


class Unpaid(Worker):
    def process(self, record):
        raise ConnectionRefusedError("db-7:5432")
"""

Start = Callable[..., Background]


def said_at(run: Background, text: str) -> datetime:
    """The time of the first line of a log that contains a text."""
    line = next(line for line in run.printed.splitlines() if text in line)
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007 - as logged


def command_of(orders: Job, action: str, *words: object) -> str:
    """A command about a job's group, whole: as a reader pastes it from a line."""
    where = "--bootstrap", str(orders.client["bootstrap.servers"])
    return command(action, orders.group, *words, options=where)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Run a worker on a job: `start(orders, "Hangs", max_attempts=1)`. Gone after the test."""
    (tmp_path / "mishaps.py").write_text(WORKERS, encoding="utf-8")
    with ExitStack() as started:

        def run(orders: Job, worker: str, **settings: object) -> Background:
            given = {**orders.settings, **{it.replace("_", "."): v for it, v in settings.items()}}
            options = [f"--config={name}={value}" for name, value in given.items()]
            words = ["run", f"mishaps:{worker}", "--topics", orders.topic, *options]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            line = [sys.executable, "-m", "coop_consumer.cli", *words]
            found = Background(line, tmp_path, environment)
            started.callback(found.put_away)
            return found

        yield run


def test_a_handler_that_hangs_is_named_with_its_line(job: Callable[..., Job], start: Start) -> None:
    orders = job()
    orders.produce(["a"])
    run = start(orders, "Hangs", max_processing_ms=1_000, shutdown_timeout_ms=100)
    run.wait_for("Set time-outs for its calls, or raise max.processing.ms")
    assert f"{orders.topic}-0 offset 0 (key b'a'): its handler has run for" in run.printed
    assert "threading.Event().wait()" in run.printed
    assert f"`{command_of(orders, 'status')}` shows how the record stands" in run.printed
    [ran_ms] = re.findall(r"its handler has run for (\d+) ms", run.printed)
    assert int(ran_ms) <= 5 * 1_000, "max.processing.ms is 1,000"
    run.press_ctrl_c()
    run.wait_for("about to leave, still waiting for 1 running record, not abandoning them")
    run.press_ctrl_c()
    assert run.end() == 128 + signal.SIGINT, run.printed


def test_a_dependency_that_is_away_holds_records_back_and_parks_none(
    job: Callable[..., Job], start: Start
) -> None:
    orders = job()
    orders.produce(stock.keys_of(100, 100))
    run = start(orders, "Unpaid")
    run.wait_for("Look after what the handlers depend on; circuit.share=0 turns this off")
    assert "ConnectionRefusedError: db-7:5432" in run.printed
    [results] = re.findall(r"of the last (\d+) results", run.printed)
    assert int(results) <= 100, "as many workers, and some more, had begun by then"
    run.interrupt()


def test_a_record_that_is_given_up_is_told_with_the_commands_that_help(
    job: Callable[..., Job], start: Start
) -> None:
    orders = job()
    orders.produce(["a"])
    run = start(orders, "Unpaid", max_attempts=1)
    run.wait_for("Parked: its key waits, others go on")
    for action in ("retry", "skip"):
        assert f"`{command_of(orders, action, f'{orders.topic}-0', 0)}`" in run.printed
    assert "failed 1 time, last with" in run.printed
    run.interrupt()


def test_a_process_that_is_killed_is_replaced(job: Callable[..., Job], start: Start) -> None:
    orders = job()
    orders.produce(["a"])
    run = start(orders, "Prints")
    run.wait_for("done 0 in ")
    killed = datetime.now()  # noqa: DTZ005 - as logged
    os.kill(int(run.printed.partition("done 0 in ")[2].split()[0]), signal.SIGKILL)
    run.wait_for("was killed by SIGKILL")
    run.wait_for("starting again now")
    assert said_at(run, "starting again now") - killed < timedelta(seconds=5)
    orders.produce(["a"])
    run.wait_for("done 1 in ")
    run.interrupt()


def test_the_twin_of_a_static_member_takes_its_place(job: Callable[..., Job], start: Start) -> None:
    orders = job()
    orders.produce(["a"])
    first = start(orders, "Prints", group_instance_id="billing-1")
    first.wait_for("done 0 in ")
    twin = start(orders, "Prints", group_instance_id="billing-1")
    assert first.end() == ExitCode.CONFLICT, first.printed
    assert "another process has joined under this name" in first.printed
    assert "Give every running process a name of its own" in first.printed
    assert "joining again" not in first.printed
    joined, told = said_at(twin, "generation "), said_at(first, "another process has joined")
    assert told - joined < timedelta(seconds=5), "a member shows life twice a second"
    orders.produce(["a"])
    twin.wait_for("done 1 in ")
    twin.interrupt()


def test_a_broker_that_goes_away_is_waited_for(
    fresh_broker: Callable[..., EmbeddedBroker], group_id: str, start: Start
) -> None:
    broker = fresh_broker()
    client = broker.client_config()
    create_topic(AdminClient(client), "orders")
    orders = Job(client, AdminClient(client), group_id, "orders")
    orders.produce(["a"])
    run = start(orders, "Prints")
    run.wait_for("done 0 in ")
    broker.kill()
    run.wait_for("no broker answers since")
    assert "Check that the brokers run, and the network" in run.printed
    doctor = command("doctor", "--group", orders.group, "--bootstrap", broker.bootstrap_servers)
    assert f"`{doctor}`" in run.printed
    [silent_s] = re.findall(r"no broker answers since [\d:]+, for (\d+) s", run.printed)
    assert int(silent_s) <= 10, "two seconds are promised"
    broker.restart()
    run.wait_for("a broker answers again, after")
    orders.produce(["a"])
    run.wait_for("done 1 in ")
    run.interrupt()
