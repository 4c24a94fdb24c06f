"""The worker process's end of the connection to its parent, `coop-consumer run`.

Room: `coop_consumer.cli`. In: one environment variable and one inherited socket. Out: lines to the
parent with the present member id; the socket of `ops.address`, which the parent keeps for the next
process; the parent's signals; the end of this process after the parent's end. A signal of the
parent is one byte. So the process can tell a signal that a service manager sends to both processes
from a second signal. What must hold: without a parent the process ends, in
order if that is quick: nobody else would end it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import MutableMapping
from time import sleep
from typing import NamedTuple, Protocol

from coop_consumer import forks
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""How long a process without a parent may take to end. Most handlers end sooner. Nobody can hurry
one that hangs, and its member keeps the ranges for as long."""
_NUMBERS_MAX = 16
_BY_SIGNAL = 128

VARIABLE = "COOP_CONSUMER_SEAT"
"""The parent sets it, only for its worker process."""

JOINED, LEFT, HEALTH, PORT, NAMED = "joined", "left", "health", "port", "named"
"""The first words of lines to the parent. With `PORT` comes a socket, with `NAMED` JSON."""


class Signalled(Protocol):
    """Notified about signals."""

    def __call__(self, number: int, *, passed_on: bool = False) -> None:
        """As `WorkerPool.signalled`."""


class ParentsOrders(NamedTuple):
    """What a new process gets from its parent.

    Attributes:
        socket: The number of the inherited socket.
        takes_over: The member id of a dead process, to join with, or "".
        leaves: The member id of a dead process: only make it leave, then end; or "".
        listener: The number of the inherited socket that listens at `listens_at`; -1: none does.
        listens_at: The address, as the dead process's settings had it.
    """

    socket: int
    takes_over: str = ""
    leaves: str = ""
    listener: int = -1
    listens_at: str = ""

    def told(self) -> str:
        """As the environment has it."""
        return json.dumps(self)


def orders_from(environment: MutableMapping[str, str]) -> ParentsOrders | None:
    """The parent's orders, removed from the environment; None: there is no parent."""
    told = environment.pop(VARIABLE, None)
    return None if told is None else ParentsOrders(*json.loads(told))


class ParentsSeat:
    """What the parent keeps: a seat in the group, and the port of `ops.address`.

    See `coop_consumer.kafka.membership.Seat` and `coop_consumer.ops.serving.PortKeeper`.
    """

    def __init__(self, orders: ParentsOrders) -> None:
        self._parent = socket.socket(fileno=orders.socket)
        self._parent.set_inheritable(False)  # what the worker starts would keep it open
        self._takes_over = orders.takes_over
        self._listener: socket.socket | None = None
        self._listens_at = orders.listens_at
        if orders.listener >= 0:
            self._listener = socket.socket(fileno=orders.listener)
            self._listener.set_inheritable(False)
        self._signalled: Signalled = _end_at_once
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """The bond is the worker process's, not its children's."""
        self._parent.close()
        if self._listener is not None:
            self._listener.close()

    def take(self) -> str:
        """The predecessor's member id, once."""
        member, self._takes_over = self._takes_over, ""
        return member

    def joined(self, member: str) -> None:
        """Tell the parent."""
        self.kept("")  # nobody has asked for it: `ops.address` is not set any more
        self._send_line(f"{JOINED} {member}\n")

    def left(self) -> None:
        """Tell the parent."""
        self._send_line(f"{LEFT}\n")

    def named(self, group: str, member: str) -> None:
        """Tell the parent whose process this is, for its lines of the log."""
        self._send_line(f"{NAMED} {json.dumps({'group': group, 'member': member})}\n")

    def tells_health(self) -> None:
        """Tell the parent that this process writes the file of `--health-file` from now on."""
        self._send_line(f"{HEALTH}\n")

    def kept(self, address: str) -> socket.socket | None:
        """What listens there since an earlier process, once. Another address frees that one."""
        listener, self._listener = self._listener, None
        if listener is not None and address != self._listens_at:
            listener.close()
            return None
        return listener

    def keep(self, address: str, listener: socket.socket) -> None:
        """Hand it to the parent, which answers there once this process has fallen."""
        with contextlib.suppress(OSError):  # it has gone, and `follow_parent` sees to that
            socket.send_fds(self._parent, [f"{PORT} {address}\n".encode()], [listener.fileno()])

    def _send_line(self, line: str) -> None:
        with contextlib.suppress(OSError):  # it has gone, and `follow_parent` sees to that
            self._parent.sendall(line.encode())

    def follow_parent(self) -> None:
        """From now on, obey the parent's signals; end when it has gone, in order or after 5 s."""
        threading.Thread(target=self._follow, name="coop-parent", daemon=True).start()

    def pass_signals_to(self, signalled: Signalled) -> None:
        """Pass the parent's signals to these; until then, a signal ends the process at once."""
        self._signalled = signalled

    def _follow(self) -> None:
        with contextlib.suppress(OSError):
            while numbers := self._parent.recv(_NUMBERS_MAX):
                for number in numbers:
                    self._signalled(number, passed_on=True)
        told = "the parent of this worker process has ended; this process ends, too"
        log.error(told, extra=LogEvent.PROCESS_PARENT_GONE.extra())
        self._signalled(signal.SIGTERM)
        sleep(_PATIENCE_S)
        os.kill(os.getpid(), signal.SIGKILL)


def _end_at_once(number: int, *, passed_on: bool = False) -> None:  # noqa: ARG001 - a `Signalled`
    os._exit(_BY_SIGNAL + number)
