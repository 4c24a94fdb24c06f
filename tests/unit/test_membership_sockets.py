"""A member's open files while no broker lets it in: as many as before, however often it tries."""

from __future__ import annotations

import gc
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, cast
from unittest.mock import patch

import pytest

from coop_consumer.kafka.membership import Membership, MembershipListener, membership
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

TRIES = 12
ROOM = 4
"""What comes and goes: the connects under way, and what the interpreter opens."""


class Count(logging.Handler):
    """Tells when connects have failed so many times."""

    def __init__(self, times: int) -> None:
        super().__init__(logging.ERROR)
        self._left = times
        self.reached = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("Connection failed"):
            self._left -= 1
            if self._left <= 0:
                self.reached.set()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


class Nobody:
    """Hears nothing: the member never gets in."""

    def on_fatal(self, error: Exception) -> None:
        """It has not found a broker."""


@contextmanager
def failing(address: tuple[str, int], **settings: Any) -> Iterator[logging.Logger]:
    """A member that tries to connect there."""
    log = logging.getLogger("kafka.net.manager")
    before, filters = log.level, log.filters
    log.setLevel(logging.ERROR)
    log.filters = []
    quick = {"reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 10}
    member = Membership(
        {"bootstrap_servers": [f"{address[0]}:{address[1]}"], "group_id": "g", **quick, **settings},
        ["orders"],
        "ranges",
        cast(MembershipListener, Nobody()),
        connect_timeout_ms=60_000,
    )
    try:
        with patch.object(membership, "throttle_logs"):  # lines are counted here
            member.start()
            yield log
    finally:
        member.leave(1_000)
        log.setLevel(before)
        log.filters = filters


def fails(log: logging.Logger, times: int) -> None:
    """Wait until so many more connects have failed."""
    count = Count(times)
    log.addHandler(count)
    try:
        assert count.reached.wait(WAIT_S)
    finally:
        log.removeHandler(count)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """It would close in the end what is left open, and hide that it is."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_refused_connects_leave_no_file_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    with failing(address) as log:
        fails(log, 1)
        before = open_files()
        fails(log, TRIES)
        eventually(lambda: open_files() <= before + ROOM)  # other clients come and go


@pytest.mark.usefixtures("no_collector")
def test_handshakes_that_fail_leave_no_file_open() -> None:
    """As with a broker that goes away while TLS is agreed on."""

    def hang_up(server: socket.socket) -> None:
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=hang_up, args=(server,), daemon=True).start()
        with failing(server.getsockname(), security_protocol="SSL") as log:
            fails(log, 1)
            before = open_files()
            fails(log, TRIES)
            eventually(lambda: open_files() <= before + ROOM)
        server.shutdown(socket.SHUT_RDWR)


def test_a_look_up_of_a_name_that_takes_long_is_no_standstill() -> None:
    """The system's look-up blocks the thread of the heartbeats, as long as its name server does."""
    asked, go_on = threading.Event(), threading.Event()

    def slow(*_: Any) -> Any:
        asked.set()
        go_on.wait(WAIT_S)
        raise socket.gaierror("no such name")

    member = Membership(
        {"bootstrap_servers": ["broker.invalid:9092"], "group_id": "g"},
        ["t"],
        "p",
        cast("MembershipListener", Nobody()),
    )
    with patch.object(socket, "getaddrinfo", slow):
        member.start()
        assert asked.wait(WAIT_S)
        assert [*member.stepped_s().values()] == [inf]
        go_on.set()
        member.leave()
    assert member.stepped_s() == {}
