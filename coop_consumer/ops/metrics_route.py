"""`/metrics` of an `OpsServer`: what is counted, in the format that a client accepts.

In: an exposition. Out: a route. Needs the extras `metrics` and `web`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from coop_consumer.errors import CoopConsumerError
from coop_consumer.ops.prometheus import content_type_of
from coop_consumer.ops.server import SharedAnswer

if TYPE_CHECKING:
    from coop_consumer.ops.prometheus import Exposition

_KINDS_MAX = 8
"""So many content types are told apart: a client may make up versions of them."""


def metrics_route(exposition: Exposition) -> Route:
    """The route; many clients that ask at once share an answer."""
    answers: dict[str, SharedAnswer] = {}

    async def metrics(request: Request) -> Response:
        kind = content_type_of(request.headers.get("accept", ""))
        if kind not in answers and len(answers) >= _KINDS_MAX:
            kind = content_type_of("")
        if kind not in answers:
            answers[kind] = SharedAnswer(lambda: _answer(lambda: exposition.written(kind)))
        return await answers[kind].get()

    return Route("/metrics", metrics)


def _answer(written: Callable[[], tuple[bytes, str]]) -> Response:
    try:
        text, content_type = written()
    except CoopConsumerError as error:
        return PlainTextResponse(f"{error}\n", status_code=503)
    return Response(text, headers={"content-type": content_type})
