"""What browsers that look are sent: a page as it is now, and what has changed since. One loop.

In: how to make a page, when there is something new. Out: HTML, and server-sent events. A page is
made once for all who look, on another thread. A browser gets only the parts that differ from what
it has. A browser that does not read holds up nobody: its connection holds one event at most, and
the kernel cuts it off (`ops.server`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

LIVES_S = 5.0
"""A browser hears at least so often that the server is there."""
STREAMS_MAX = 200
"""So many browsers look at one page at a time. A further one gets the page, and no changes."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A page at one moment.

    Attributes:
        title: Of the window.
        version: The number of the look.
        parts: Its sections as HTML, and `stale` as text.
        page: Its values.
    """

    title: str
    version: int
    parts: Mapping[str, str]
    page: object


class LivePage:
    """One page for all who look at it.

    Args:
        make: Makes the page; on any thread, one call at a time.
        listening: Has a listener called when there is something new, for the length of a block.
    """

    def __init__(
        self,
        make: Callable[[], Shown],
        listening: Callable[[Callable[[], object]], AbstractContextManager[None]],
    ) -> None:
        self._make = make
        self._listening = listening
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Shown] | None = None
        self._streams = 0
        self._written: tuple[Shown | None, Shown, str] | None = None

    async def now(self) -> Shown:
        """The page as of now; all who wait for the next one get the same."""
        if self._next is None:
            self._next = asyncio.create_task(self._made())
        return await asyncio.shield(self._next)

    async def _made(self) -> Shown:
        async with self._turn:
            self._next = None  # who comes from now on waits for the one after this
            return await run_in_threadpool(self._make)

    def events(self) -> StreamingResponse:
        """A stream of what changes, from the whole page on."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        if self._streams >= STREAMS_MAX:
            # A browser asks again after so long.
            return StreamingResponse(
                _once("retry: 15000\n\n"), media_type="text/event-stream", headers=headers
            )
        return StreamingResponse(self._events(), media_type="text/event-stream", headers=headers)

    async def _events(self) -> AsyncIterator[str]:
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def told() -> None:
            loop.call_soon_threadsafe(news.set)

        self._streams += 1
        try:
            with self._listening(told):
                before: Shown | None = None
                yield "retry: 2000\n\n"
                while True:
                    news.clear()
                    shown = await self.now()
                    event, before = self._event(before, shown), shown
                    yield event
                    try:
                        await asyncio.wait_for(news.wait(), LIVES_S)
                    except TimeoutError:
                        continue  # what is old must be called old, though nothing new comes
        finally:
            self._streams -= 1

    def _event(self, before: Shown | None, shown: Shown) -> str:
        """What a browser that has `before` is sent: written once for all that have the same.

        With fifty browsers the loop would else write for 20 ms, while probes wait.
        """
        written = self._written
        if written is None or written[0] is not before or written[1] is not shown:
            had = {} if before is None else before.parts
            changed = {name: html for name, html in shown.parts.items() if had.get(name) != html}
            written = self._written = before, shown, event_of(shown, changed)
        return written[2]


def event_of(shown: Shown, changed: Mapping[str, str]) -> str:
    r"""An event with these parts.

    >>> event_of(Shown("t", 3, {}, None), {"needs": "<b>1</b>"})
    'data: {"title": "t", "version": 3, "parts": {"needs": "<b>1</b>"}}\n\n'
    """
    data = {"title": shown.title, "version": shown.version, "parts": changed}
    return f"data: {json.dumps(data)}\n\n"


async def _once(text: str) -> AsyncIterator[str]:
    yield text
