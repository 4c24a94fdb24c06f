"""`/livez` and `/readyz` of an `OpsServer`: whether a member is alive, and whether it is ready.

In: how to ask a member how it is. Out: routes. The server's own thread answers at once, because
nothing of a `Health` is waited for. So no scrape under way delays a probe. Needs the extra `web`.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coop_consumer.ops.health import Diagnosis, live, ready

if TYPE_CHECKING:
    from coop_consumer.ops.health import Health


def health_routes(health: Callable[[], Health]) -> list[Route]:
    """The routes: 200 for yes, 503 for no, each with its reasons as JSON.

    Args:
        health: Returns at once; any thread may call it.
    """

    def route(path: str, judge: Callable[[Health], Diagnosis]) -> Route:
        async def answer(request: Request) -> Response:
            del request
            found = judge(health())
            status = HTTPStatus.OK if found.ok else HTTPStatus.SERVICE_UNAVAILABLE
            return JSONResponse(found.as_json(), status)

        return Route(path, answer)

    return [route("/livez", live), route("/readyz", ready)]
