"""Clients of what a process serves over HTTP: they ask in turn, or never read, and are timed.

In: an address, a path. Out: how long answers took. `bare_server` is the least that a probe can take
on a machine: it does nothing but answer, in a process of its own, beside the same load.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.error import URLError
from urllib.request import urlopen

ANSWER_S = 10.0
_DEAF_ASK = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_DEAF_TIMES = 200
_BARE = """
import sys, uvicorn
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", lifespan="off", loop="asyncio")
"""


@dataclass(slots=True)
class Scrapes:
    """What scrapes came to.

    Attributes:
        took_ms: How long each took.
        bytes: The size of the largest answer.
    """

    took_ms: list[float] = field(default_factory=list)
    bytes: int = 0


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def asking(address: str, path: str, every_s: float) -> Iterator[Scrapes]:
    """Ask what runs in the block for this, time and again."""
    found, ending = Scrapes(), threading.Event()

    def ask() -> None:
        while not ending.wait(every_s):
            begun_s = time.monotonic()
            try:
                with urlopen(f"http://{address}{path}", timeout=ANSWER_S) as answer:
                    size = len(answer.read())
            except (URLError, ConnectionError):  # it has not begun, is not ready, or has ended
                continue
            found.took_ms.append(1_000 * (time.monotonic() - begun_s))
            found.bytes = max(found.bytes, size)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ending.set()
        thread.join()


@contextmanager
def never_reading(address: str, count: int) -> Iterator[None]:
    """So many clients of what runs in the block: they ask, again and again, and read nothing."""
    host, _, port = address.rpartition(":")
    ending = threading.Event()

    def ask() -> None:
        with ExitStack() as stack:
            clients: list[socket.socket] = []
            while not ending.wait(0.1):
                if len(clients) < count:
                    try:
                        client = socket.create_connection((host, int(port)), timeout=ANSWER_S)
                    except OSError:  # it has not begun
                        continue
                    clients.append(stack.enter_context(client))
                    client.setblocking(False)
                    try:
                        client.send(_DEAF_ASK * _DEAF_TIMES)
                    except OSError:  # it takes no more
                        continue

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@contextmanager
def bare_server() -> Iterator[str]:
    """The address of a server that does nothing but answer."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", _BARE, str(port)])  # noqa: S603 - it is ours
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
