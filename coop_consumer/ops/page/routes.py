"""The paths of groups: the list, a page for each, what changes, static files. Needs `web`.

In: the feeds of groups. Out: routes for an `OpsServer`. Nothing here asks a broker: pages show the
last looks. A group's name may have any character, a slash too: so it is the last part of a path.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from coop_consumer.ops.feed import Feeds, GroupFeed, Listener, Listing
from coop_consumer.ops.page import rendering
from coop_consumer.ops.page.group_page import OLD_MS, group_page
from coop_consumer.ops.page.groups_page import groups_page
from coop_consumer.ops.page.letters import Letters
from coop_consumer.ops.page.own_page import PageHost
from coop_consumer.ops.page.stream import LivePage, Shown

_REFRESH_MIN_S, _REFRESH_MAX_S = 2, 3_600
_OLD_IN_LIST = 3
"""A group whose page nobody has open is looked at less often."""
_OF_A_POD = "KUBERNETES_SERVICE_HOST"
"""Kubernetes sets it in every container."""
_KEPT = "public, max-age=31536000, immutable"
_STATIC_FILES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def page_routes(
    feeds: Feeds,
    *,
    allows: frozenset[str] = frozenset(),
    options: Sequence[str] = (),
    has_list: bool = True,
    old_ms: int = OLD_MS,
    listing: Callable[[], Listing | None] = lambda: None,
) -> list[BaseRoute]:
    """The routes.

    Args:
        feeds: The groups that are shown.
        allows: The actions that are offered.
        options: Words that commands need to find the groups.
        has_list: `/` is a list, also of one group; else it leads to that one.
        old_ms: A picture that is older is called old.
        listing: What the search for groups has come to; it returns None if groups are named.
    """
    rendering.warm()
    live = _LivePages(feeds, allows, tuple(options), old_ms, listing)

    async def start(request: Request) -> Response:
        names = feeds.names()
        if len(names) == 1 and not has_list:
            return RedirectResponse(f"/group/{quote(names[0], safe='')}")
        return await live_response(request, live.list, rendering.GROUPS_SECTIONS, "/events")

    async def list_events(request: Request) -> Response:
        del request
        return live.list.events()

    return [
        Route("/", start),
        Route("/events", list_events),
        *_routes_of(live, "All groups" if has_list else ""),
        static_route(),
    ]


def own_group_routes(
    feeds: Feeds, *, allows: frozenset[str] = frozenset(), options: Sequence[str] = ()
) -> list[BaseRoute]:
    """The paths of its group beside those of a member's own page; see `page_routes`."""
    live = _LivePages(feeds, allows, tuple(options), OLD_MS, lambda: None)
    return _routes_of(live, "This member")


def _routes_of(live: _LivePages, up: str) -> list[BaseRoute]:
    """A page for each group; `up` is what `/` is called."""

    async def group(request: Request) -> Response:
        name = request.path_params["group"]
        page = live.of(name)
        if page is None:
            return HTMLResponse(rendering.missing_page(name), HTTPStatus.NOT_FOUND)
        events = f"/events/{quote(name, safe='')}"
        return await live_response(request, page, rendering.GROUP_SECTIONS, events, up=up)

    async def events(request: Request) -> Response:
        page = live.of(request.path_params["group"])
        return Response(status_code=HTTPStatus.NOT_FOUND) if page is None else page.events()

    return [Route("/group/{group:path}", group), Route("/events/{group:path}", events)]


def static_route() -> Route:
    """The stylesheet, the script and the icon."""

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC_FILES:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        is_named = request.query_params.get("v") == rendering.static_hash(name)
        headers = {"cache-control": _KEPT if is_named else "no-cache"}
        contents, kind = rendering.static_file(name), _STATIC_FILES[name]
        return Response(contents, media_type=kind, headers=headers)

    return Route("/static/{name}", static)


async def live_response(
    request: Request,
    live: LivePage,
    sections: tuple[tuple[str, str], ...],
    events: str,
    *,
    up: str = "",
) -> Response:
    """A page as it is now."""
    shown = await live.now()
    every_s = refresh_s(request)
    html = rendering.live_page(
        shown.page, shown.parts, sections, events=events, every_s=every_s, up=up
    )
    return HTMLResponse(html)


def refresh_s(request: Request) -> int:
    """After how many seconds a browser without scripts is to look again; 0: never."""
    asked = request.query_params.get("every", "")
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 6):
        return 0
    return min(max(int(asked), _REFRESH_MIN_S), _REFRESH_MAX_S)


class _LivePages:
    """The pages of groups as somebody asks for them; all on the server's loop."""

    def __init__(
        self,
        feeds: Feeds,
        allows: frozenset[str],
        options: tuple[str, ...],
        old_ms: int,
        listing: Callable[[], Listing | None],
    ) -> None:
        self._old_ms = old_ms
        self._listing = listing
        self._feeds = feeds
        self._allows = allows
        self._options = options
        self._made: dict[str, LivePage] = {}
        self.list = LivePage(self._list, self._listening_to_all)

    def of(self, group: str) -> LivePage | None:
        """The page of a group; None: it is not shown."""
        feed = self._feeds.get(group)
        if feed is None:
            return None
        feed.touch()
        if group not in self._made:
            self._made[group] = LivePage(self._maker(feed), feed.listening)
        return self._made[group]

    def _maker(self, feed: GroupFeed) -> Callable[[], Shown]:
        letters = Letters()

        def make() -> Shown:
            series = () if feed.history is None else feed.history.series()
            now = feed.now
            page = group_page(
                now,
                letters,
                series,
                now_ms(),
                options=self._options,
                old_ms=self._old_ms,
                here=PageHost(platform.node(), is_pod=_OF_A_POD in os.environ),
            )
            parts = rendering.group_parts(page, has_view=page.view is not None, allows=self._allows)
            return Shown(page.title, page.version, {**parts, "stale": page.stale}, page)

        return make

    def _list(self) -> Shown:
        found = [self._feeds.get(name) for name in self._feeds.names()]
        states = [feed.now for feed in found if feed is not None]
        old_ms = _OLD_IN_LIST * self._old_ms
        page = groups_page(states, now_ms(), old_ms, self._listing(), self._options)
        parts = {**rendering.groups_parts(page), "stale": ""}
        return Shown(page.title, page.version, parts, page)

    @contextmanager
    def _listening_to_all(self, call: Listener) -> Iterator[None]:
        """Listen to the groups that there are now; others show at the next beat."""
        with ExitStack() as stack:
            for name in self._feeds.names():
                if (feed := self._feeds.get(name)) is not None:
                    stack.enter_context(feed.listening(call, watches=False))
            yield


def now_ms() -> int:
    """Unix time in ms."""
    return time.time_ns() // 1_000_000
