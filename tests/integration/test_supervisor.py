"""`coop-consumer run` as two processes: the parent sees to it that no member stays away for long.

Sessions are longer than any test waits: what happens here does not happen by their end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.support.command import Command
from tests.support.job import Job
from tests.support.journal import WAIT_S

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
Start = Callable[..., Command]

LONG = {"session.timeout.ms": round(WAIT_S * 4_000), "shutdown.timeout.ms": 0}


def worker_pid(line: str) -> int:
    """The worker process that printed a line."""
    return int(line.rsplit(maxsplit=1)[-1])


def test_a_worker_process_that_is_killed_is_replaced_and_its_member_stays(
    job: MakeJob, started: Start
) -> None:
    orders = job(**LONG)
    orders.produce(["a"])
    run = started(orders)
    joined = run.wait_for("generation 1 ")
    fallen = worker_pid(run.wait_for("begin 0"))
    os.kill(fallen, signal.SIGKILL)
    told = run.wait_for("was killed by SIGKILL")
    assert f"worker process {fallen} " in told
    assert "starting again now" in told
    again = run.wait_for("generation 2 ")
    assert again.split("member ")[1] == joined.split("member ")[1]
    assert worker_pid(run.wait_for("begin 0")) != fallen
    run.process.terminate()
    run.wait_for("still waiting for 1 running record")
    run.go_on()
    assert run.end() == 0
    orders.wait_until_empty()
    assert orders.committed()[0][0] == 1


def test_a_static_member_comes_back_without_a_rebalance(job: MakeJob, started: Start) -> None:
    orders = job(**LONG, **{"group.instance.id": "one"})
    orders.produce(["a"])
    run = started(orders)
    run.wait_for("generation 1 ")
    os.kill(worker_pid(run.wait_for("begin 0")), signal.SIGKILL)
    run.wait_for("was killed by SIGKILL")
    run.wait_for("generation 1 ")
    run.wait_for("begin 0")


def test_a_worker_process_that_falls_while_the_command_ends_leaves_no_member_behind(
    job: MakeJob, started: Start
) -> None:
    orders = job(**LONG)
    orders.produce(["a"])
    run = started(orders)
    worker = worker_pid(run.wait_for("begin 0"))
    run.process.terminate()
    run.wait_for("still waiting for 1 running record")
    os.kill(worker, signal.SIGKILL)
    run.wait_for("has left, after its process fell")
    assert run.end() == 128 + signal.SIGKILL
    orders.wait_until_empty()


def test_a_worker_process_that_is_killed_before_it_has_heard_of_a_signal_ends_the_command(
    job: MakeJob, started: Start
) -> None:
    orders = job(**LONG)
    orders.produce(["a"])
    run = started(orders)
    worker = worker_pid(run.wait_for("begin 0"))
    os.kill(worker, signal.SIGSTOP)
    run.process.terminate()
    os.kill(worker, signal.SIGKILL)
    run.wait_for("has left, after its process fell")
    assert run.end() == 128 + signal.SIGKILL


def test_a_worker_process_ends_in_order_when_its_parent_is_killed(
    job: MakeJob, started: Start
) -> None:
    orders = job(**LONG)
    orders.produce(["a"])
    run = started(orders)
    run.wait_for("begin 0")
    run.process.kill()
    run.wait_for("the parent of this worker process has ended")
    run.go_on()
    run.wait_for("has left")
    orders.wait_until_empty()
    assert orders.committed()[0][0] == 1


def test_a_signal_to_both_processes_counts_once_as_a_service_manager_sends_it(
    job: MakeJob, started: Start
) -> None:
    orders = job(**LONG)
    orders.produce(["a"])
    run = started(orders)
    worker = worker_pid(run.wait_for("begin 0"))
    os.kill(worker, signal.SIGTERM)
    run.wait_for("still waiting for 1 running record")
    run.process.terminate()
    os.kill(worker, 0)
    run.go_on()
    assert run.end() == 0


def test_without_supervision_there_is_one_process_whose_fall_is_the_end(
    job: MakeJob, started: Start
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Led", "--no-supervise")
    assert worker_pid(run.wait_for("begin 0")) == run.process.pid
    run.process.kill()
    assert run.end() == -signal.SIGKILL


def test_what_the_worker_process_says_is_wrong_is_handed_on_and_not_tried_again(
    job: MakeJob, started: Start
) -> None:
    run = started(job(), "NoSuchWorker")
    run.wait_for("led.py, has no NoSuchWorker")
    assert run.end() == 2
