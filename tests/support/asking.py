"""An HTTP server of the library in the test's process, asked by any client a test makes up."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from coop_consumer.ops.server import OpsServer

WAIT_S = 20.0
FORM = "application/x-www-form-urlencoded"


@contextmanager
def serving(
    routes: Sequence[BaseRoute], middleware: Sequence[Middleware] = ()
) -> Iterator[OpsServer]:
    """A server of these routes, on a free port."""
    server = OpsServer(
        "127.0.0.1:0",
        routes,
        setting="--address",
        remedy="give --address another port",
        group="billing",
        middleware=middleware,
    )
    server.start()
    try:
        yield server
    finally:
        server.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    text: str


def ask(
    server: OpsServer,
    path: str,
    method: str = "GET",
    *,
    fields: Mapping[str, str] | None = None,
    **headers: str,
) -> Answer:
    """Ask it; a header's name has underscores for dashes, `Host` may be any."""
    host, _, port = server.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    body = None if fields is None else urlencode(fields)
    if body is not None:
        given.setdefault("Content-Type", FORM)
    try:
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read().decode())
    finally:
        connection.close()
