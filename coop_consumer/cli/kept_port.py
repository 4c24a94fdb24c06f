"""The port of `ops.address`, which stays open while worker processes come and go.

Room: `coop_consumer.cli`; the parent's, so without Kafka and click. In: the listening socket, from
the worker process that has opened it; falls and starts of worker processes. Out: the same socket
for the next one; between two of them, answers by a `StandIn`. What must hold: from the first
process to the last no client is refused, as one copy of the socket is always open.
"""

from __future__ import annotations

from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING

from coop_consumer.ops.health import Diagnosis, restarting

if TYPE_CHECKING:
    import socket

    from coop_consumer.cli.stand_in import StandIn


class KeptPort:
    """At most one listening socket.

    Attributes:
        address: The address that the worker process was configured with; "": there is no socket.
    """

    def __init__(self) -> None:
        self.address = ""
        self._listener: socket.socket | None = None
        self._stand_in: StandIn | None = None
        self._due_s = 0.0

    @property
    def number(self) -> int:
        """The socket's, for the next process to inherit; -1: there is none."""
        return -1 if self._listener is None else self._listener.fileno()

    def keep(self, address: str, listener: socket.socket) -> None:
        """Keep this socket: a worker process answers there from now on."""
        self.close()
        self.address, self._listener = address, listener

    def joined(self) -> None:
        """A worker process is at work. If it does not answer there by now, it never will."""
        if self._stand_in is not None:
            self.close()

    def fallen(self, pause_s: float = 0.0) -> None:
        """No worker process answers: do so instead. The next one starts in so many seconds."""
        self._due_s = monotonic() + pause_s
        if self._listener is not None and self._stand_in is None:
            made = import_module("coop_consumer.cli.stand_in").StandIn
            self._stand_in = made(self._listener, self._ready)
            self._stand_in.start()

    def close(self) -> None:
        """Answer nobody, and free the port unless a worker process has it."""
        if self._stand_in is not None:
            self._stand_in.end()
        if self._listener is not None:
            self._listener.close()
        self.address, self._listener, self._stand_in = "", None, None

    def _ready(self) -> Diagnosis:
        return restarting(self._due_s - monotonic())
