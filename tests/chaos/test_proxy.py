"""The proxy cuts what it says, and nothing else."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coop_consumer.broker.ports import free_ports
from tests.chaos.proxy import LOOPBACK, Proxy

HELD_S = 0.2
WAIT_S = 10.0


@contextmanager
def echo(port: int) -> Iterator[None]:
    """A server that sends back what comes, for one connection."""
    with socket.create_server((LOOPBACK, port)) as server:
        server.settimeout(WAIT_S)

        def serve() -> None:
            connected, _ = server.accept()
            connected.settimeout(WAIT_S)
            with connected, contextlib.suppress(ConnectionResetError):
                while chunk := connected.recv(100):
                    connected.sendall(chunk)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(WAIT_S)


@contextmanager
def connection() -> Iterator[tuple[socket.socket, Proxy, int]]:
    """A connection through the proxy, which has carried something; the proxy and its port."""
    front, behind = free_ports(2)
    with (
        echo(behind),
        Proxy(front, behind) as proxy,
        socket.create_connection((LOOPBACK, front), WAIT_S) as ours,
    ):
        ours.sendall(b"first")
        assert ours.recv(100) == b"first"
        yield ours, proxy, front


def test_what_is_held_comes_when_the_network_is_whole_again() -> None:
    with connection() as (ours, proxy, _):
        proxy.hold(to_broker=False, to_member=True)
        ours.sendall(b"second")
        ours.settimeout(HELD_S)
        with pytest.raises(TimeoutError):
            ours.recv(100)
        proxy.open()
        ours.settimeout(WAIT_S)
        assert ours.recv(100) == b"second"


def test_a_reset_ends_connections_and_new_ones_are_refused_until_it_opens() -> None:
    with connection() as (ours, proxy, front):
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            receive_until_end(ours)
        with socket.create_connection((LOOPBACK, front), WAIT_S) as refused:
            assert receive_until_end(refused) == b""


def receive_until_end(ours: socket.socket) -> bytes:
    return b"".join(iter(lambda: ours.recv(100), b""))
