"""`coop-consumer run` and signals: what runs is finished, and no exit code tells a lie."""

from __future__ import annotations

import signal
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer import CooperativeConsumer
from coop_consumer.broker import EmbeddedBroker
from tests.support.brokers import MakeBroker
from tests.support.command import Command
from tests.support.job import Job
from tests.support.stock import eventually
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
Start = Callable[..., Command]

NOW = {"shutdown.timeout.ms": 0}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_finish_commits_it_and_leaves(
    job: MakeJob, started: Start, number: signal.Signals
) -> None:
    orders = job(**NOW)
    orders.produce(["a", "b", "a"])
    run = started(orders)
    run.wait_for("begin 0")
    run.process.send_signal(number)
    run.wait_for("still waiting for 1 running record")
    run.go_on()
    assert run.end() == 0
    orders.wait_until_empty()
    assert orders.committed()[0][0] == 1


def test_a_signal_that_the_kernel_gives_to_another_thread_is_heard_all_the_same(
    job: MakeJob, started: Start
) -> None:
    """Python would tell the main thread of it once that wakes, and nothing else wakes it."""
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Signalled", "--no-supervise")
    assert run.end() == 0
    assert orders.committed()[0][0] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once_and_what_ran_comes_again(
    job: MakeJob, started: Start, number: signal.Signals
) -> None:
    orders = job(**NOW)
    orders.produce(["a"])
    run = started(orders)
    run.wait_for("begin 0")
    run.process.send_signal(number)
    run.wait_for("still waiting for 1 running record")
    run.process.send_signal(number)
    assert run.end() == 128 + number
    again = started(orders)
    again.wait_for("begin 0")


@pytest.mark.parametrize("options", [(), ("--no-supervise",)])
def test_a_sighup_has_it_read_its_settings_again_and_take_on_the_number_of_workers(
    job: MakeJob, started: Start, options: tuple[str, ...]
) -> None:
    orders = job(**NOW)
    orders.produce(["a"])
    run = started(orders, "Led", *options)
    run.wait_for("begin 0")
    run.file.write_text("workers=2\ncommit.interval.ms=50\n", encoding="utf-8")
    run.process.send_signal(signal.SIGHUP)
    run.wait_for("in force from the next start on: commit.interval.ms")
    orders.produce(["b"])
    run.wait_for("begin 1")
    run.file.write_text("wrokers=3\n", encoding="utf-8")
    run.process.send_signal(signal.SIGHUP)
    run.wait_for("nothing has changed: wrokers is unknown")
    run.process.terminate()
    run.wait_for("still waiting for 2 running records")
    run.let_all_go()
    assert run.end() == 0


def test_a_sighup_changes_the_number_of_worker_processes(job: MakeJob, started: Start) -> None:
    orders = job()
    run = started(orders, "Led", "--executor", "process")
    orders.produce(["a"])
    first = run.wait_for("begin").split()[-1]
    run.file.write_text("workers=2\n", encoding="utf-8")
    run.process.send_signal(signal.SIGHUP)
    run.wait_for("settings read again, 2 workers")
    orders.produce([f"key {number}" for number in range(20)])
    second = {run.wait_for("begin").split()[-1] for _ in range(20)} - {first}
    assert len(second) == 1
    run.process.terminate()
    assert run.end() == 0


def test_a_signal_during_setup_ends_it_in_order_before_its_first_record(
    job: MakeJob, started: Start
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "LedSetup")
    run.wait_for("getting ready")
    run.process.send_signal(signal.SIGTERM)
    run.go_on()
    run.wait_for("has left")
    assert run.end() == 0
    assert orders.committed() == {}


def test_a_sighup_during_setup_changes_nothing_and_says_so(job: MakeJob, started: Start) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "LedSetup")
    run.wait_for("getting ready")
    run.file.write_text("workers=2\n", encoding="utf-8")
    run.process.send_signal(signal.SIGHUP)
    run.wait_for("nothing has changed: resize(): this pool does not run")
    run.go_on()
    run.wait_for("begin 0")
    run.let_all_go()
    run.process.terminate()
    assert run.end() == 0


# ---- at the limit of open files ----------------------------------------------------------------


def test_a_member_that_may_open_no_more_files_still_commits_and_leaves(
    job: MakeJob, started: Start
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Hoarding", "--no-supervise")
    run.wait_for("begin 0")
    run.process.send_signal(signal.SIGTERM)
    run.go_on()
    assert run.end() == 0
    orders.wait_until_empty()
    assert orders.committed()[0][0] == 1


def test_a_member_that_may_open_no_more_files_ends_though_its_brokers_are_away(
    fresh_broker: MakeBroker, started: Start
) -> None:
    """One of two never came back, and was deaf to SIGTERM."""
    broker = fresh_broker()
    client = broker.client_config()
    admin = AdminClient(client)
    create_topic(admin, "orders")
    orders = Job(client, admin, "billing", "orders", 1, NOW)
    orders.produce(["a"])
    run = started(orders, "Hoarding", "--no-supervise")
    run.wait_for("begin 0")
    broker.kill()
    run.go_on()
    run.wait_for("onnect")
    run.process.send_signal(signal.SIGTERM)
    run.wait_for("still waiting")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM


# ---- while brokers are away --------------------------------------------------------------------


class Lonely(NamedTuple):
    """A member at work on its first record, its job, and its broker, which a test may kill."""

    run: Command
    job: Job
    broker: EmbeddedBroker


@pytest.fixture
def lonely(fresh_broker: MakeBroker, started: Start) -> Lonely:
    broker = fresh_broker()
    client = broker.client_config()
    create_topic(AdminClient(client), "orders")
    orders = Job(client, AdminClient(client), "billing", "orders", 1, NOW)
    orders.produce(["a"])
    run = started(orders)
    run.wait_for("begin 0")
    return Lonely(run, orders, broker)


def test_a_member_whose_work_is_in_the_log_leaves_though_brokers_are_away(
    lonely: Lonely,
) -> None:
    """It waited for them, only to say that its ranges are free."""
    run, orders, broker = lonely
    run.go_on()
    eventually(lambda: orders.committed().get(0, (0,))[0] == 1)
    broker.kill()
    run.wait_for("no broker answers since")
    run.process.terminate()
    run.wait_for("has left")
    assert run.end() == 0


def test_a_second_signal_ends_it_at_once_while_brokers_are_away(lonely: Lonely) -> None:
    """Its parent does not try for 15 s to have it leave."""
    run, _, broker = lonely
    broker.kill()
    run.wait_for("no broker answers since")
    run.process.terminate()
    run.wait_for("still waiting for 1 running record")
    asked_s = monotonic()
    run.process.terminate()
    run.wait_for("cannot leave, as no broker answers")
    assert run.end() == 128 + signal.SIGTERM
    assert monotonic() - asked_s < 12


def test_a_consumer_may_be_closed_in_a_handler_of_a_signal_whatever_that_interrupts(
    job: MakeJob,
) -> None:
    orders = job()
    orders.produce(["a", "b"])
    consumer = CooperativeConsumer(orders.settings)
    before = signal.signal(signal.SIGUSR1, lambda *_: consumer.close())
    try:
        consumer.subscribe([orders.topic])
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 2:
                running = consumer._running
                assert running is not None
                with running.executor.condition:  # as a signal finds it inside of `poll`
                    signal.raise_signal(signal.SIGUSR1)
            consumer.done(record)  # what was in hand then may be finished
    finally:
        signal.signal(signal.SIGUSR1, before)
    consumer.close()  # waits until the other close is through
    assert sorted(seen) == [0, 1]
    orders.wait_until_empty()
    assert orders.committed()[0][0] == 2
