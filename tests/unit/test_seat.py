"""The worker process's end of its bond with the parent: ports that stay open, and its own end."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from coop_consumer.cli import seat as module
from coop_consumer.cli.seat import ParentsOrders, ParentsSeat

WAIT_S = 20.0
ADDRESS = "127.0.0.1:9464"


@dataclass
class Bond:
    """The parent's end, and orders with the other one."""

    parent: socket.socket
    orders: ParentsOrders

    def seat(self, listener: socket.socket | None = None) -> ParentsSeat:
        """The process's end; it inherits a port from an earlier one."""
        if listener is None:
            return ParentsSeat(self.orders)
        number = os.dup(listener.fileno())
        return ParentsSeat(self.orders._replace(listener=number, listens_at=ADDRESS))


@pytest.fixture
def bond() -> Iterator[Bond]:
    ours, theirs = socket.socketpair()
    ours.settimeout(WAIT_S)
    with ours:
        yield Bond(ours, ParentsOrders(theirs.detach()))


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_port_goes_to_the_parent_and_from_it_to_the_next_process(bond: Bond) -> None:
    with listening() as listener:
        bond.seat().keep(ADDRESS, listener)
        said, [number], _, _ = socket.recv_fds(bond.parent, 100, 1)
        assert said == f"port {ADDRESS}\n".encode()
        with socket.socket(fileno=number) as copy:
            assert copy.getsockname() == listener.getsockname()


def test_the_parent_is_told_whose_process_it_is(bond: Bond) -> None:
    bond.seat().named("a\ngroup", "b-1")
    said = bond.parent.recv(100)
    assert said.count(b"\n") == 1
    assert said == b'named {"group": "a\\ngroup", "member": "b-1"}\n'


def test_the_port_of_an_earlier_process_is_taken_once(bond: Bond) -> None:
    with listening() as listener:
        its = bond.seat(listener)
        found = its.kept(ADDRESS)
        assert found is not None
        assert found.getsockname() == listener.getsockname()
        assert not found.get_inheritable()
        assert its.kept(ADDRESS) is None
        found.close()


@pytest.mark.parametrize("asks", [True, False], ids=["another-address", "none"])
def test_a_port_that_is_not_wanted_any_more_is_closed(bond: Bond, asks: bool) -> None:
    listener = listening()
    its = bond.seat(listener)
    if asks:
        assert its.kept("127.0.0.1:9474") is None
    else:
        its.joined("m-1")
    place = listener.getsockname()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place, WAIT_S)


def test_a_process_whose_parent_is_gone_ends_in_order_or_else_at_once(
    bond: Bond, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[tuple[int, int]] = []
    is_over = threading.Event()

    def kill(process: int, number: int) -> None:
        signals.append((process, number))
        is_over.set()

    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(os, "kill", kill)
    its = bond.seat()
    its.pass_signals_to(
        lambda number, *, passed_on=False: signals.append((-int(passed_on), number))
    )
    its.follow_parent()
    bond.parent.close()
    assert is_over.wait(WAIT_S)
    assert signals == [(0, signal.SIGTERM), (os.getpid(), signal.SIGKILL)]
