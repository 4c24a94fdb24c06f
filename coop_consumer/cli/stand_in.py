"""An HTTP server that answers in place of a worker process which has fallen.

Room: `coop_consumer.cli`; the parent loads it once a process has fallen, so without Kafka and
click. In: the socket at which worker processes listen; how long the next process is away. Out:
answers: alive, and not ready, because it is replaced. Nothing else is known here. Python's own
server suffices for a second or two.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from coop_consumer.ops.health import Diagnosis

_LOOK_S = 0.05
_UNREAD_S = 2.0
"""A client that sends or takes nothing for so long is cut off."""


class StandIn(ThreadingTCPServer):
    """Answers from `start` until `end`.

    Args:
        listener: Where clients come; it stays open.
        ready: The answer to `/readyz`, as of now.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, ready: Callable[[], Diagnosis]) -> None:
        super().__init__(("", 0), _Answering, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._ready = ready
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_LOOK_S,), name="coop-stand-in", daemon=True
        )

    def start(self) -> None:
        """Begin to answer, on other threads."""
        self._thread.start()

    def end(self) -> None:
        """Take no more clients. Blocks for 50 ms at most."""
        self.shutdown()
        self._thread.join()

    def answer(self, path: str) -> tuple[HTTPStatus, Diagnosis]:
        """What a path is answered: only `/livez` is a yes."""
        if path.partition("?")[0] == "/livez":
            return HTTPStatus.OK, Diagnosis()
        return HTTPStatus.SERVICE_UNAVAILABLE, self._ready()

    def handle_error(self, *_: object) -> None:
        """A client that has gone, or breaks the protocol, is nobody's concern."""


class _Answering(BaseHTTPRequestHandler):
    timeout = _UNREAD_S
    server: StandIn

    def do_GET(self) -> None:
        status, diagnosis = self.server.answer(self.path)
        text = json.dumps(diagnosis.as_json()).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing: the log tells of the process that fell."""
