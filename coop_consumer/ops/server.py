"""An HTTP server in a thread of its own, for probes and scrapes. Needs the extra `web`.

In: an address, routes. Out: answers, on an event loop of this thread. A client that never reads, or
never asks, costs a socket and a buffer, and holds up nobody: answers are computed on other threads,
before they are sent. We write no HTTP: starlette and uvicorn do.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from coop_consumer import forks
from coop_consumer.config.addresses import another_port, host_of
from coop_consumer.errors import ConfigError, CoopConsumerError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.calling import Awake, Calls

log = logging.getLogger(__name__)

_BACKLOG = 128
_UNREAD_MS = 30_000
"""A connection whose client takes nothing for so long is cut off by the kernel."""
_KEEP_ALIVE_S = 75
_CLOSE_S = 1.0
_SAMPLE_S = 10.0
_UVICORNS = ("uvicorn.error", "uvicorn.access")


def _nothing_but(routes: Sequence[BaseRoute]) -> Callable[[Request, Exception], Response]:
    """The answer at any other path: what there is."""
    paths = [it.path for it in routes if isinstance(it, Route) and "GET" in (it.methods or ())]
    shown = [re.sub(r"{(\w+)(:path)?}", lambda it: it[1].upper(), path) for path in paths]
    text = f"There is nothing at this path. This server answers at {', '.join(shown)}.\n"

    def answer(request: Request, error: Exception) -> Response:
        del request, error
        return PlainTextResponse(text, HTTPStatus.NOT_FOUND)

    return answer


class OpsServer:
    """Serves routes until `close`.

    Args:
        address: host:port; port 0: any free one.
        routes: What it answers.
        setting: The setting or option that has the address, for errors.
        remedy: How to choose another one, for errors: a clause without a full stop. An example
            follows.
        group: Names the thread.
        middleware: What a request passes on its way to the routes.
        sample: Called every ten seconds, on another thread, while it serves. What it raises of
            ours leaves a hole.
        calls: Counts while the server is at work; None: nobody needs to know.
        listener: A socket that listens there already; it is closed with the server.
        closed: Called when the server is closed.

    Attributes:
        address: Where it listens, with the port that it has got.
        listener: The socket that listens.

    Raises:
        ConfigError: The port is in use, or the host is not one of this machine's.
    """

    def __init__(
        self,
        address: str,
        routes: Sequence[BaseRoute],
        *,
        setting: str,
        remedy: str,
        group: str,
        middleware: Sequence[Middleware] = (),
        sample: Callable[[], object] | None = None,
        calls: Calls | None = None,
        listener: socket.socket | None = None,
        closed: Callable[[], object] = bool,
    ) -> None:
        self.listener = _listening(address, setting, remedy) if listener is None else listener
        host, port, *_ = self.listener.getsockname()
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        config = uvicorn.Config(
            Starlette(
                routes=list(routes),
                middleware=list(middleware),
                exception_handlers={HTTPStatus.NOT_FOUND: _nothing_but(routes)},
            ),
            loop="asyncio",  # else uvloop, if there is one: 10 ms more, and no use here
            lifespan="off",
            ws="none",
            log_config=None,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        self._server = uvicorn.Server(config)
        self._sample = sample
        self._calls = calls
        self._closed = closed
        self._end: Callable[[], object] = bool  # once it serves: ends that, on any thread
        self._thread = threading.Thread(target=self._run, name=f"coop-ops-{group}", daemon=True)
        self._quiet = _Quiet(self._thread)
        forks.watch(self)

    def start(self) -> None:
        """Start the thread; clients may connect already, and wait until it answers."""
        for name in _UVICORNS:
            logging.getLogger(name).addFilter(self._quiet)
        self._thread.start()

    def shut_in_fork(self) -> None:
        """In a forked child: the parent answers, and the port is free once it has ended."""
        with suppress(OSError):
            self.listener.close()

    def close(self) -> None:
        """Answer nobody any more, and free the port."""
        self._closed()
        self._server.should_exit = True  # if it has not begun
        self._quiet.is_ending = True
        with suppress(RuntimeError):  # it has just ended by itself
            self._end()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)
        self.listener.close()
        for name in _UVICORNS:
            logging.getLogger(name).removeFilter(self._quiet)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop) as runner:
                runner.run(self._serve())
        except asyncio.CancelledError:
            return  # `close` wants it so
        except Exception:
            told = (
                "the server at %s has ended: nobody answers there any more. Members go on, and "
                "nothing is lost. Start the process again in a quiet moment, and report this, with "
                "its traceback"
            )
            log.exception(told, self.address, extra=LogEvent.OPS_SERVER_FAILED.extra())

    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(None if self._calls is None else Awake(self._calls))

    async def _serve(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "asyncio.run makes one"
        self._end = lambda: loop.call_soon_threadsafe(task.cancel)
        samples = None if self._sample is None else loop.create_task(_samples(self._sample))
        try:
            await self._server.serve(sockets=[self.listener])
        finally:
            self._end = bool
            if samples is not None:
                samples.cancel()
            # uvicorn's own end takes 0.2 s, and waits for clients that never read.
            for listener in getattr(self._server, "servers", ()):
                listener.close()
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()


async def _samples(sample: Callable[[], object]) -> None:
    while True:
        with suppress(CoopConsumerError):  # nobody answers: there is no figure
            await run_in_threadpool(sample)
        await asyncio.sleep(_SAMPLE_S)


class _Quiet(logging.Filter):
    """Drops what uvicorn logs for each request and start, on one thread: others may use it, too.

    Its warnings are about what clients send, as a request that is no HTTP. Any stranger could fill
    the log with them.

    Attributes:
        is_ending: What is answered now is cut off: drop all that is logged of that, too.
    """

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__()
        self._thread = thread
        self.is_ending = False

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread.ident:
            return True
        return record.levelno >= logging.ERROR and not self.is_ending


class SharedAnswer:
    """An answer that is computed on another thread, once for all who wait when that begins.

    So many clients cost no more than two. Whoever asks gets what is computed after that.

    Args:
        compute: Makes the answer.
    """

    def __init__(self, compute: Callable[[], Response]) -> None:
        self._compute = compute
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Response] | None = None

    async def get(self) -> Response:
        """The answer as of now."""
        if self._next is None:
            self._next = asyncio.create_task(self._made())
        return await asyncio.shield(self._next)

    async def _made(self) -> Response:
        async with self._turn:
            self._next = None  # who comes from now on waits for the one after this
            return await run_in_threadpool(self._compute)


def _listening(address: str, setting: str, remedy: str) -> socket.socket:
    host, port = host_of(address), address.rpartition(":")[2]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            problem = f"={address} is in use: another process, or another pool, listens there"
            remedy = f"End what listens there, or {remedy}, as in {another_port(address)}"
        else:
            problem = f"={address} is no address to listen at ({error})"
            example = another_port(address, "127.0.0.1")
            remedy = f"Name a host of this machine and a free port: {remedy}, as in {example}"
        raise ConfigError(setting, problem, remedy) from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
    return found
