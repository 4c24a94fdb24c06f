"""A launch's desk and its tasks' lines: reports come in, "stop" goes out, strangers stay out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from coop_consumer.errors import MisuseError
from streams_adapter.control import Address, Desk, Report, line_to
from tests.stock import eventually

REPORT = Report(3, 0, "app-1-3", "vm", records=7, ranges=("t-0[00..7f]",), seconds=1.5)


@pytest.fixture
def desk() -> Iterator[Desk]:
    it = Desk("127.0.0.1", "127.0.0.1", 0, "secret")
    yield it
    it.close()


def test_the_newest_report_of_each_attempt_is_kept(desk: Desk) -> None:
    newer, again = replace(REPORT, records=9), replace(REPORT, attempt=1)
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


def test_a_task_whose_driver_is_gone_ends(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as driver:
        port = driver.getsockname()[1]
        with line_to(Address("127.0.0.1", port, "secret")) as line:
            accepted, _ = driver.accept()
            assert not line.is_told_to_stop()
            accepted.close()
            eventually(line.is_told_to_stop)
            line.tell(REPORT)


def test_who_does_not_know_the_secret_is_not_heard(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    stranger_to = Address(desk.address.host, desk.address.port, "guess")
    with line_to(stranger_to) as stranger:
        stranger.tell(REPORT)
        eventually(stranger.is_told_to_stop)  # its connection is closed
    assert desk.reports() == []
    assert "none of our tasks" in caplog.text


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
