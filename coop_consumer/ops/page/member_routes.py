"""The paths of a member's own page: the page, what changes, the stack of a handler. Needs `web`.

In: how to ask a member what it is at. Out: routes for an `OpsServer`. The member is asked every two
seconds while somebody looks, and not at all otherwise. One answer serves all who look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from assignors import TopicPartition
from coop_consumer.core.glimpse import Glimpse
from coop_consumer.errors import CoopConsumerError
from coop_consumer.ops.page import rendering
from coop_consumer.ops.page.member_page import MemberPage, member_page
from coop_consumer.ops.page.routes import live_response, static_route
from coop_consumer.ops.page.shown import error_shown, stack_shown
from coop_consumer.ops.page.stream import LivePage, Shown

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.ops.feed import HistoryLine, Listener
    from coop_consumer.ops.health import Health

EVERY_S = 2.0
_OFFSET_DIGITS = 19


@dataclass(frozen=True, slots=True)
class MemberInside:
    """How to ask a member.

    Attributes:
        config: Its configuration.
        metrics: Returns what it counts.
        health: Returns how it is, at once.
        glimpse: Returns what it does.
        stack: Returns the stack of a handler, by partition and offset of its record.
        series: Returns its history.
    """

    config: Config
    metrics: Callable[[], MemberMetrics]
    health: Callable[[], Health]
    glimpse: Callable[[], Glimpse]
    stack: Callable[[TopicPartition, int], str]
    series: Callable[[], tuple[HistoryLine, ...]] = tuple


def member_routes(inside: MemberInside, *, allows: frozenset[str] = frozenset()) -> list[BaseRoute]:
    """The routes.

    Args:
        inside: How to ask the member.
        allows: The actions that are offered.
    """
    maker = _Maker(inside, allows)
    live = LivePage(maker.make, _Beats().listening)

    async def page(request: Request) -> Response:
        return await live_response(request, live, rendering.MEMBER_SECTIONS, "/events")

    async def events(request: Request) -> Response:
        del request
        return live.events()

    async def running(request: Request) -> Response:
        place = _place(request)
        if place is None:
            return Response("no such record\n", HTTPStatus.NOT_FOUND, media_type="text/plain")
        try:
            stack = await run_in_threadpool(inside.stack, *place)
        except CoopConsumerError as error:
            stack = error_shown(str(error))
        html = rendering.stack_page(f"{place[0]}@{place[1]}", stack_shown(stack))
        return HTMLResponse(html, HTTPStatus.OK if stack else HTTPStatus.NOT_FOUND)

    return [
        Route("/", page),
        Route("/events", events),
        Route("/running/{topic}/{partition}/{offset}", running),
        static_route(),
    ]


class _Maker:
    """Makes the page; one call at a time."""

    def __init__(self, inside: MemberInside, allows: frozenset[str]) -> None:
        self._inside = inside
        self._allows = allows
        self._version = 0
        self._options = inside.config.command_options

    def make(self) -> Shown:
        inside, config = self._inside, self._inside.config
        self._version += 1
        metrics, error = None, ""
        glimpse = Glimpse()
        try:
            metrics = inside.metrics()
            glimpse = inside.glimpse()
        except CoopConsumerError as raised:
            error = error_shown(str(raised))
        page: MemberPage = member_page(
            inside.health(),
            metrics,
            glimpse,
            inside.series(),
            version=self._version,
            keys=config.log_keys,
            error=error,
            options=self._options,
        )
        parts = rendering.member_parts(page, allows=self._allows)
        return Shown(page.title, page.version, {**parts, "stale": page.stale}, page)


class _Beats:
    """One beat for all who listen: so all get the same page. On one loop."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def listening(self, call: Listener) -> Iterator[None]:
        """Have this called every two seconds, for the length of a block."""
        self._listeners.append(call)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._beat())
        try:
            yield
        finally:
            self._listeners.remove(call)
            if not self._listeners:
                self._task.cancel()
                self._task = None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            for call in list(self._listeners):
                call()


def _place(request: Request) -> tuple[TopicPartition, int] | None:
    params = request.path_params
    partition, offset = params["partition"], params["offset"]
    if not all(
        it.isascii() and it.isdecimal() and len(it) <= _OFFSET_DIGITS for it in (partition, offset)
    ):
        return None
    return TopicPartition(params["topic"], int(partition)), int(offset)
