"""The line between a launch and its running tasks: reports one way, "stop" the other way.

In: reports of tasks, from their hosts. Out: the newest report of every attempt, and a "stop" for
tasks. Spark's driver learns of a task only once it has ended. So our driver listens on a port of
its own, and each task connects, with a secret that came along with its code. A report is a line of
JSON: nothing that comes over the wire is executed.

A connection may break while both sides live. Only the word "stop" is a stop: a task connects again,
and gives up once the driver could not be reached for long.
"""

from __future__ import annotations

import hmac
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from io import BufferedIOBase
from socketserver import StreamRequestHandler, ThreadingTCPServer

from coop_consumer.errors import MisuseError
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

WAIT_S = 10.0
"""For a connection, and for whoever connects to say who it is."""
LOST_S = 60.0
"""A task that does not reach its driver for so long could not be stopped: it gives up. One that
says nothing for so long is not there, as far as the driver can tell."""
DRAINED = "drained"
_SECRET_MAX = 256
_STOP = b"stop\n"


@dataclass(frozen=True, slots=True)
class Report:
    """What an attempt of a task has done so far.

    Attributes:
        task: The task's number, 0 to tasks - 1.
        attempt: 0, and one more each time Spark starts the task again; from 0 again if it starts
            all of them again, as it does with `barrier`.
        attempt_id: Spark's number of the attempt, unique in the application.
        member: Its name in the group.
        host: Where it ran.
        records: How many it has processed.
        retries: How often it tried a record again that had failed.
        failures: How many calls raised.
        ranges: The key ranges that it held, as text.
        seconds: For how long it has run.
        uncommitted: How many of the records it had not committed yet. What it has not at its end
            comes again; of one that was killed nobody knows what it did since its last report.
        ended: "" while it runs, and for ever if it was killed; "drained" at its end; or the error.
    """

    task: int
    attempt: int
    attempt_id: int
    member: str
    host: str
    records: int = 0
    retries: int = 0
    failures: int = 0
    ranges: tuple[str, ...] = field(default_factory=tuple)
    seconds: float = 0.0
    uncommitted: int = 0
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a launch listens, and the secret that lets a task in: a line of text."""

    host: str
    port: int
    secret: str = field(repr=False)


class Desk:
    """The driver's side: listens, keeps the newest report of each attempt, and says "stop".

    Args:
        bind: The address to listen at.
        host: Where tasks find it.
        port: On which port; 0: any.
        secret: Lets tasks in.

    Raises:
        MisuseError: It cannot listen there.
    """

    def __init__(self, bind: str, host: str, port: int, secret: str) -> None:
        self._lock = threading.Lock()
        self._reports: dict[tuple[int, int], Report] = {}
        self._lines: set[BufferedIOBase] = set()
        self._stops = False
        desk = self

        class Visit(StreamRequestHandler):
            timeout = WAIT_S

            def handle(self) -> None:
                with suppress(OSError):
                    said = self.rfile.readline(_SECRET_MAX).strip()
                    if hmac.compare_digest(said, secret.encode()):
                        self.connection.settimeout(LOST_S)
                        desk._hear(self.rfile, self.wfile)
                    else:
                        extra = LogEvent.LAUNCH_STRANGER.extra()
                        told = (
                            "%s connected without the secret of this launch, and was turned away. "
                            "Find out who scans this port"
                        )
                        log.warning(told, self.client_address[0], extra=extra)

        class Server(ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 128

        try:
            self._server = Server((bind, port), Visit)
        except OSError as error:
            raise MisuseError(
                "launch_workers()",
                f"the driver cannot listen at {bind}:{port} ({error})",
                "Set spark.driver.bindAddress, or another control_port",
            ) from error
        self.address = Address(host, self._server.server_address[1], secret)
        threading.Thread(
            target=self._server.serve_forever, name="coop-launch-desk", daemon=True
        ).start()

    def reports(self) -> list[Report]:
        """The newest of each attempt, by task, in the order of attempts."""
        with self._lock:
            return [report for _, report in sorted(self._reports.items())]

    def served(self) -> int:
        """How many tasks are connected, or have ended as they should."""
        with self._lock:
            drained = {report.task for report in self._reports.values() if report.ended == DRAINED}
            return len(drained) + len(self._lines)

    def note(self, report: Report) -> None:
        """Take a report, however it came here."""
        with self._lock:
            self._reports[report.task, report.attempt_id] = report

    def stop(self) -> None:
        """Tell all tasks to drain and end, those that connect later, too."""
        with self._lock:
            self._stops = True
            for line in self._lines:
                _say_stop(line)

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def _hear(self, told: BufferedIOBase, line: BufferedIOBase) -> None:
        with self._lock:
            self._lines.add(line)
            if self._stops:
                _say_stop(line)
        try:
            for report in told:
                if not report.endswith(b"\n"):
                    break  # the connection broke in the middle of it
                said = json.loads(report)
                self.note(Report(**said | {"ranges": tuple(said["ranges"])}))
        finally:
            with self._lock:
                self._lines.discard(line)


def _say_stop(line: BufferedIOBase) -> None:
    with suppress(OSError):
        line.write(_STOP)


class Line:
    """A task's side: a connection that is made again when it breaks. One thread.

    Args:
        address: The driver's.

    Raises:
        MisuseError: It cannot be reached.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: socket.socket | None = None
        self._heard = b""
        self._is_told = False
        self._held_s = time.monotonic()
        try:
            self._connect()
        except OSError as error:
            raise self._unreachable(error) from error

    def tell(self, report: Report) -> None:
        """Send a report; into the void if the driver is not there now."""
        if self._connection is not None:
            self._held_s = time.monotonic()  # it has lasted since the report before
        try:
            connection = self._connection or self._connect()
            connection.sendall(json.dumps(asdict(report)).encode() + b"\n")
        except OSError as error:
            self._break(error)

    def is_told_to_stop(self) -> bool:
        """Whether the driver has said so.

        Raises:
            MisuseError: Nobody can know: it has not been reached for `LOST_S`.
        """
        self._listen()
        is_lost = self._connection is None and time.monotonic() - self._held_s > LOST_S
        if is_lost and not self._is_told:
            raise self._unreachable(self._broken_by)
        return self._is_told

    def close(self) -> None:
        """End it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> socket.socket:
        where = (self._address.host, self._address.port)
        self._connection = socket.create_connection(where, WAIT_S)
        self._connection.sendall(self._address.secret.encode() + b"\n")
        self._heard = b""
        return self._connection

    def _listen(self) -> None:
        connection = self._connection
        if connection is None or not select.select([connection], [], [], 0)[0]:
            return
        try:
            said = connection.recv(len(_STOP))
        except OSError as error:
            self._break(error)
            return
        if not said:
            self._break(ConnectionError("it was closed"))
        self._heard = (self._heard + said)[: len(_STOP)]
        self._is_told |= self._heard == _STOP

    def _break(self, error: OSError) -> None:
        self._broken_by = error
        if self._connection is not None:
            extra = LogEvent.LAUNCH_LINE_BROKE.extra(error=error)
            told = (
                "the line to the driver broke (%s), and is made again. Nothing is lost. If this "
                "line comes again and again, look after the network to the driver"
            )
            log.warning(told, error, extra=extra)
        self.close()

    def _unreachable(self, error: OSError) -> MisuseError:
        host, port = self._address.host, self._address.port
        return MisuseError(
            "launch_workers()",
            f"{socket.gethostname()} does not reach the driver at {host}:{port} ({error})",
            "Open that port, or choose one that is open by control_port; tasks learn the driver's "
            "name from spark.driver.host",
        )


@contextmanager
def line_to(address: Address) -> Iterator[Line]:
    """Connect to the driver.

    Raises:
        MisuseError: It cannot be reached.
    """
    with closing(Line(address)) as line:
        yield line
