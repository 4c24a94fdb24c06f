"""The log of real processes as JSON: lines of the parent, the member, its children, the user."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from coop_consumer.errors import ExitCode
from coop_consumer.log_events import LogEvent
from tests.support.command import Command
from tests.support.job import Job

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
Start = Callable[..., Command]


def line_of(run: Command, event: str) -> dict[str, Any]:
    """The next line of the log about an event."""
    found: dict[str, Any] = json.loads(run.wait_for(f'"event": "{event}"'))
    return found


def test_parent_and_worker_process_write_json(job: MakeJob, started: Start) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Led", "--log-format", "json")
    begun = line_of(run, LogEvent.MEMBER_STARTED)
    assert (begun["group"], begun["level"]) == (orders.group, "info")
    assert begun["member"]
    fallen = int(run.wait_for("begin 0").rsplit(maxsplit=1)[-1])
    os.kill(fallen, signal.SIGKILL)
    told = line_of(run, LogEvent.PROCESS_FELL)
    assert told["process"] == run.process.pid
    assert "was killed by SIGKILL" in told["message"]
    run.wait_for("begin 0")
    run.let_all_go()


def test_children_write_json_with_what_the_user_gives_as_extra(
    job: MakeJob, started: Start
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Logging", "--executor", "process", "--log-format=json")
    line: dict[str, Any] = json.loads(run.wait_for('"paid"'))
    assert (line["message"], line["logger"], line["bill"]) == ("paid", "billing", 0)
    assert line["group"] == orders.group
    assert line["member"]


@pytest.mark.parametrize("keys", ["text", "hash", "none"])
def test_a_parked_record_is_a_line_with_its_facts_and_with_a_key_as_far_as_allowed(
    job: MakeJob, started: Start, keys: str
) -> None:
    orders = job(**{"max.attempts": 1})
    orders.produce(["anna"])
    run = started(orders, "Failing", "--log-format", "json", "--log-keys", keys)
    line = line_of(run, LogEvent.RECORD_PARKED)
    assert (line["topic"], line["partition"], line["offset"]) == (orders.topic, 0, 0)
    assert (line["attempt"], line["error"]) == (1, "ValueError")
    assert ("anna" in json.dumps(line)) == (keys == "text")
    match keys:
        case "text":
            assert line["key"] == "anna"
        case "hash":
            assert line["key"].startswith("hash ")
        case _:
            assert "key" not in line


def test_what_ends_the_command_is_a_line_of_json_too(job: MakeJob, started: Start) -> None:
    run = started(job(), "NoSuchWorker", "--log-format", "json")
    line = line_of(run, LogEvent.COMMAND_FAILED)
    assert "led.py, has no NoSuchWorker" in line["message"]
    assert run.end() == ExitCode.USAGE
