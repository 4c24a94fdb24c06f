"""`/api/status/GROUP` and `/api/scale/GROUP` of an `OpsServer`: what the commands print as JSON.

In: the last looks at groups. Out: routes. `GET /api/status/G` is `coop-consumer status G --json`,
and `/api/scale/G` is `scale G --json`, of a look that is at most as old as the time between two.
While looks fail, or do not come back, they answer with an error, as the commands do: no old number
is taken for a new one. Needs the extra `web`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from time import time_ns
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coop_consumer.errors import AuthorizationError, CoopConsumerError
from coop_consumer.status.as_json import as_json, scale_as_json
from coop_consumer.status.errors import GroupMissingError

if TYPE_CHECKING:
    from coop_consumer.ops.feed import Feeds
    from coop_consumer.ops.group_metrics import GroupLook

_RETRY_S = "2"
_OLD_MS = 30_000
"""A group that nobody has on a page is looked at every 10 s. A look may wait 10 s for brokers."""


def api_routes(
    feeds: Feeds, now_ms: Callable[[], int] = lambda: time_ns() // 1_000_000
) -> list[Route]:
    """The routes.

    Args:
        feeds: The groups that are looked at.
        now_ms: The clock: Unix time.
    """

    def route(path: str, written: Callable[[GroupLook], str]) -> Route:
        made: dict[str, tuple[GroupLook, str]] = {}
        turn = asyncio.Lock()

        async def text_of(group: str, look: GroupLook) -> str:
            """Written once for each look, on another thread: 2,000 partitions take 70 ms."""
            async with turn:
                if group not in made or made[group][0] is not look:
                    made[group] = look, await run_in_threadpool(written, look)
                return made[group][1]

        async def answer(request: Request) -> Response:
            group = request.path_params["group"]
            feed = feeds.get(group)
            if feed is None:
                shown = ", ".join(feeds.names())
                if not shown:  # just begun: it looks for groups
                    return _failed("No group was found yet.", HTTPStatus.SERVICE_UNAVAILABLE)
                text = f"group {group}: is not watched here. Watched are: {shown}."
                return _failed(text, HTTPStatus.NOT_FOUND)
            now = feed.now
            if now.failing_since_ms or now.look is None:
                return _of_error(now.error)
            old_ms = now_ms() - now.seen_at_ms
            if old_ms > _OLD_MS:
                text = f"group {group}: was last seen {old_ms // 1_000} s ago. A look is under way."
                return _failed(text, HTTPStatus.SERVICE_UNAVAILABLE)
            text = await text_of(group, now.look)
            return Response(text, media_type="application/json")

        return Route(path, answer)

    return [
        route("/api/status/{group:path}", _status),
        route("/api/scale/{group:path}", _scale),
    ]


def _status(look: GroupLook) -> str:
    assert look.status is not None, "a look that succeeded has one"
    return json.dumps(as_json(look.status)) + "\n"


def _scale(look: GroupLook) -> str:
    assert look.status is not None, "a look that succeeded has one"
    assert look.advice is not None, "a look that succeeded has one"
    return json.dumps(scale_as_json(look.status, look.advice), allow_nan=False) + "\n"


def _of_error(error: CoopConsumerError | None) -> Response:
    match error:
        case GroupMissingError():
            return _failed(str(error), HTTPStatus.NOT_FOUND)
        case AuthorizationError():
            return _failed(str(error), HTTPStatus.FORBIDDEN)
        case CoopConsumerError():
            return _failed(str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        case None:
            return _failed("The group was not seen yet.", HTTPStatus.SERVICE_UNAVAILABLE)


def _failed(text: str, status: HTTPStatus) -> Response:
    return JSONResponse({"error": text}, status, {"retry-after": _RETRY_S})
