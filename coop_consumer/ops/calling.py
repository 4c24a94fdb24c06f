"""Who waits for an answer, so that a member's thread under full load lets answers be made soon.

In: requests, for an ASGI app, and what wakes the server's event loop. Out: how many wait for the
beginning of their answer. An answer passes several threads, and each of them waits 5 ms for the
interpreter while another thread computes. What only goes on, as a page's events do, counts no more.
"""

from __future__ import annotations

from selectors import DefaultSelector
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from selectors import SelectorKey

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Calls(Protocol):
    """What counts them; only the server's thread writes.

    Attributes:
        callers: How many wait.
    """

    callers: int


class Calling:
    """Middleware that counts.

    Args:
        app: The app.
        calls: What counts.
    """

    def __init__(self, app: ASGIApp, calls: Calls) -> None:
        self._app = app
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer. Forms do not count: the rest of one may never come."""
        if scope.get("method") != "GET":
            await self._app(scope, receive, send)
            return
        calls, waits = self._calls, True
        calls.callers += 1

        def answered() -> None:
            nonlocal waits
            if waits:
                calls.callers -= 1
                waits = False

        async def send_and_count(message: Message) -> None:
            answered()
            await send(message)

        try:
            await self._app(scope, receive, send_and_count)
        finally:
            answered()


class Awake(DefaultSelector):
    """Counts an event loop from when something wakes it until it has nothing left to do.

    To accept a connection, read from it and write to it are calls of the system. Each gives up the
    interpreter, and the loop waits for it anew, up to 5 ms each time.

    Args:
        calls: What counts.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls
        self._is_awake = False

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait for what wakes it. With a `timeout` of 0 the loop has callbacks to call."""
        if timeout is None or timeout > 0:
            self._rest()
        found = super().select(timeout)
        if found and not self._is_awake:
            self._calls.callers += 1
            self._is_awake = True
        return found

    def close(self) -> None:
        """Count no more."""
        self._rest()
        super().close()

    def _rest(self) -> None:
        if self._is_awake:
            self._calls.callers -= 1
            self._is_awake = False
