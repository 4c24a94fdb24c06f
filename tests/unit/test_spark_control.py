"""A launch's desk and its tasks' lines: reports come in, "stop" goes out, strangers stay out."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from coop_consumer import Worker
from coop_consumer.core.counters import Counters
from coop_consumer.errors import BrokerUnreachableError, MisuseError
from coop_consumer.kafka import patience
from streams_adapter import control, task
from streams_adapter.control import Address, Desk, Report, line_to
from streams_adapter.task import LaunchOrder
from tests.support.stock import eventually

REPORT = Report(3, 0, 17, "app-1-3", "vm", records=7, ranges=("t-0[00..7f]",), seconds=1.5)


@pytest.fixture
def desk() -> Iterator[Desk]:
    it = Desk("127.0.0.1", "127.0.0.1", 0, "secret")
    yield it
    it.close()


@pytest.mark.parametrize("number", [1, 0])
def test_the_newest_report_of_each_attempt_is_kept(desk: Desk, number: int) -> None:
    """A stage that is tried again as a whole, as with barrier, numbers its attempts from 0."""
    newer = replace(REPORT, records=9)
    again = replace(REPORT, attempt=number, attempt_id=29)
    with line_to(desk.address) as line, line_to(desk.address) as other:
        line.tell(REPORT)
        line.tell(newer)
        other.tell(again)
        eventually(desk.reports, lambda found: found == [newer, again])
    ended = replace(again, ended="drained")
    desk.note(ended)
    assert desk.reports() == [newer, ended]


def test_stop_reaches_those_that_are_there_and_those_that_come(desk: Desk) -> None:
    with line_to(desk.address) as line:
        line.tell(REPORT)
        eventually(desk.reports)
        assert not line.is_told_to_stop()
        desk.stop()
        eventually(line.is_told_to_stop)
        with line_to(desk.address) as late:
            eventually(late.is_told_to_stop)


def test_tasks_are_served_that_are_connected_or_have_drained(desk: Desk) -> None:
    drained, fell = replace(REPORT, task=1, ended="drained"), replace(REPORT, task=2)
    for report in (drained, fell):
        desk.note(report)
    assert desk.served() == 1
    with line_to(desk.address) as line:
        line.tell(replace(fell, attempt=1, attempt_id=30))
        eventually(lambda: len(desk.reports()) == 3)
        assert desk.served() == 2
    eventually(desk.served, lambda count: count == 1)


def cut(server: socket.socket, how: str = "reset") -> None:
    """Take a connection, begin a word, and end it; what was not read makes that a reset."""
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as told:
        if how == "closed":
            told.readline()
        connection.sendall(b"sto")


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_a_line_that_breaks_is_no_stop_and_is_made_again(how: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as driver,
        line_to(Address("127.0.0.1", driver.getsockname()[1], "secret")) as line,
    ):
        cut(driver, how)
        eventually(lambda: line.is_told_to_stop() or line._connection is None)
        assert not line.is_told_to_stop()
        line.tell(REPORT)
        connection, _ = driver.accept()
        with connection, connection.makefile("rb") as told:
            assert told.readline() == b"secret\n"
            assert b'"member": "app-1-3"' in told.readline()
            assert not line.is_told_to_stop()
            connection.sendall(b"sto")
            connection.sendall(b"p\n")
            eventually(line.is_told_to_stop)
        assert line.is_told_to_stop(), "whatever becomes of the line afterwards"


def test_a_line_that_is_reset_under_a_report_is_made_again(desk: Desk) -> None:
    with line_to(desk.address) as line:
        line.tell(REPORT)
        eventually(desk.reports)
        assert line._connection is not None
        line._connection.shutdown(socket.SHUT_RDWR)
        line.tell(REPORT)
        newer = replace(REPORT, records=8)
        line.tell(newer)
        eventually(desk.reports, lambda found: found == [newer])
        desk.stop()
        eventually(line.is_told_to_stop)


def test_a_driver_that_is_gone_for_long_is_an_error_and_no_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    with line_to(Address("127.0.0.1", port, "secret")) as line:
        cut(server)
        server.close()
        line.tell(REPORT)
        eventually(lambda: line.is_told_to_stop() or line._connection is None)
        line.tell(REPORT)
        assert not line.is_told_to_stop(), "it may come back"
        monkeypatch.setattr(control, "LOST_S", 0.0)
        with pytest.raises(MisuseError, match=rf"does not reach the driver at 127\.0\.0\.1:{port}"):
            line.is_told_to_stop()


class FakePool:
    """Runs until it is closed; or has ended by itself, if it has nothing to wait for."""

    name, counters = "app-1-3", Counters(finished=7)

    def __init__(self, *waits: Callable[[], object]) -> None:
        self.waits, self.closed = list(waits), not waits

    def wait(self, _: float | None = None) -> bool:
        if self.waits:
            self.waits.pop()()
        return self.closed

    def close(self) -> None:
        self.closed = True

    def assignment(self) -> dict[object, object]:
        return {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.close()
        assert self.wait()


def run(pool: FakePool, address: Address, monkeypatch: pytest.MonkeyPatch) -> list[Report]:
    monkeypatch.setattr(task, "WorkerPool", lambda *_, **__: pool)
    order = LaunchOrder("app-1", Worker, {}, None, None, until_caught_up=True, desk=address)
    return list(task.run_task(order, 3))


def test_a_member_is_where_its_executor_is_unless_the_user_knows_better() -> None:
    address = Address("127.0.0.1", 1, "secret")
    order = LaunchOrder("app-1", Worker, {}, None, None, until_caught_up=True, desk=address)
    assert order.settings(3) == {"host": socket.gethostname(), "group.instance.id": "app-1-3"}
    assert replace(order, config={"host": "rack-1"}).settings(3)["host"] == "rack-1"


def test_a_task_that_has_lost_its_driver_drains_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "LOST_S", 0.0)
    driver = socket.create_server(("127.0.0.1", 0))
    address = Address("127.0.0.1", driver.getsockname()[1], "secret")
    pool = FakePool(driver.close, lambda: cut(driver))
    with pytest.raises(MisuseError, match="does not reach the driver"):
        run(pool, address, monkeypatch)
    assert pool.closed


def test_a_task_that_has_done_all_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    [report] = run(FakePool(), desk.address, monkeypatch)
    assert (report.ended, report.records) == ("drained", 7)
    eventually(desk.reports, lambda found: found == [report])


def test_who_does_not_know_the_secret_is_not_heard(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    stranger_to = Address(desk.address.host, desk.address.port, "guess")
    with line_to(stranger_to) as stranger:
        stranger.tell(REPORT)
        eventually(lambda: stranger.is_told_to_stop() or stranger._connection is None)
    assert desk.reports() == []
    assert "without the secret of this launch, and was turned away" in caplog.text


def test_a_driver_that_cannot_be_reached_is_named(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        pytest.raises(MisuseError, match=rf"does not reach the driver at 127\.0\.0\.1:{port}"),
        line_to(Address("127.0.0.1", port, "secret")),
    ):
        pytest.fail("nobody is there")


def test_a_port_that_is_taken_is_told(desk: Desk) -> None:
    with pytest.raises(MisuseError, match=rf"cannot listen at 127\.0\.0\.1:{desk.address.port}"):
        Desk("127.0.0.1", "127.0.0.1", desk.address.port, "secret")


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_task_that_begins_while_no_broker_answers_waits_and_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    monkeypatch.setattr(patience, "_AGAIN_S", 0.01)
    tries = 0
    pool = FakePool()
    with closing(Desk("127.0.0.1", "127.0.0.1", 0, "secret")) as desk:

        def made(*_: object, **__: object) -> FakePool:
            nonlocal tries
            tries += 1
            if is_stopped:
                desk.stop()
                raise BrokerUnreachableError("b:9092", "timed out")
            if tries < 4:
                raise BrokerUnreachableError("b:9092", "timed out")
            return pool

        monkeypatch.setattr(task, "WorkerPool", made)
        order = LaunchOrder(
            "app-1", Worker, {}, None, None, until_caught_up=True, desk=desk.address
        )
        [report] = task.run_task(order, 3)
    assert (report.member, report.ended) == ("app-1-3", "drained")
    assert report.records == (0 if is_stopped else 7)
    assert is_stopped or tries == 4
