"""Who may ask an `OpsServer`, and what browsers may do with its answers. Needs the extra `web`.

In: requests, for an ASGI app. Out: those that may pass; to others an answer that says what is
wrong. The dangers are other sites in the browser of somebody who may ask:

- A site gives its own name the address of this server (DNS rebinding), and reads. So the name by
  which a server is asked must be one of its own. An address in digits is nobody's name.
- A site lets the browser send a form here (CSRF). So the origin of what changes something must be
  this server. Each form has a token of its own besides (`confirmations`).
- Records hold text of strangers. All of it is escaped; if that failed, no script of theirs would
  run, because `default-src 'self'` allows our files alone.

A program that knows the secret is no browser that is led: it may ask by any name.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from coop_consumer.config.addresses import is_loopback
from coop_consumer.ops import sign_in
from coop_consumer.ops.refusals import Refusals
from coop_consumer.ops.requests import path_of, who_of
from coop_consumer.ops.sign_in import SignIn
from coop_consumer.plain_text import printable

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from coop_consumer.ops.token_file import TokenFile

_PROBES = frozenset({"/livez", "/readyz"})
"""They have no secret, and are told nothing of records."""
_METRICS = "/metrics"
_STATIC = "/static/"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_FORM_BYTES_MAX = 16_384
_LENGTH_DIGITS = 19

_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    # `no-referrer` would have browsers send "Origin: null" with our own forms (Fetch, 3.1).
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Who may ask.

    Attributes:
        host: Where the server listens: a name or an address.
        token: The secret that opens it; None: whoever reaches a loopback address may ask.
        hosts: Further names by which people and proxies ask for it.
    """

    host: str
    token: TokenFile | None = None
    hosts: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    def knows(self, name: str) -> bool:
        """Whether this is a name of ours, as a `Host` header has it, without its port."""
        own = {"localhost", self.host.lower(), *(it.lower() for it in self.hosts)}
        if not self.is_local:
            own.add(socket.gethostname().lower())
        return name in own or name.endswith(".localhost") or _is_address(name)


def guarded_by(door: Door) -> list[Middleware]:
    """The middleware of an `OpsServer` with this door."""
    return [Middleware(Guard, door=door)]


class _SessionOverError(Exception):
    """A stream has ended, because the secret that has opened it counts no more."""


class Guard:
    """Middleware of an ASGI app.

    Args:
        app: The app.
        door: Who may ask.
    """

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door
        self._sign_in = None if door.token is None else SignIn(door.token)
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        request = Request(scope, receive)
        answer = await self._answer(request)
        if answer is not None:
            await answer(scope, receive, send_with_headers)
        elif self._sign_in is None:
            await self._app(scope, receive, send_with_headers)
        else:
            sends = _while_open(send_with_headers, partial(self._sign_in.is_open, request))
            with suppress(_SessionOverError):
                await self._app(scope, receive, sends)

    async def _answer(self, request: Request) -> Response | None:
        """What it answers itself; None: the app may."""
        path, way_in = path_of(request), self._sign_in
        if path in _PROBES or (path == _METRICS and way_in is None):
            return None
        secret = sign_in.secret_in(request)
        if way_in is not None and secret is not None:
            is_known = way_in.has_token(request, secret)
            return None if is_known else _refused("Authorization: this is not the token.")
        refused = self._misled(request)
        if refused is not None and refused.status_code == HTTPStatus.FORBIDDEN:
            why = bytes(refused.body).decode().strip()
            self._refusals.report(who_of(request), f"{request.method} {path}", why)
        if refused is not None or path.startswith(_STATIC):
            return refused
        if way_in is None:
            return None if self._door.is_local else _refused(_CLOSED)
        if path == sign_in.PATH:
            return await way_in.answer(request)
        return None if way_in.has_cookie(request) else way_in.refused(request)

    def _misled(self, request: Request) -> Response | None:
        """The answer to what another site leads a browser to; None: nothing looks like it."""
        hosts = request.headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""
        if not self._door.knows(_name_in(host)):
            return _refused(
                f"Host: {printable(host) or '(none)'} is no name of this server. Ask by its "
                "address in digits, or name it with --allowed-host (ops.allowed.hosts)."
            )
        if request.method in _READING:
            return _refused("Another site reads here.") if _is_read_by_another(request) else None
        if _is_sent_by_another(request, host):
            return _refused(
                "Origin: another site asks for a change here. If a proxy stands between, let it "
                "pass the header Host on as it is."
            )
        return _refuse_body(request)


def _while_open(send: Send, is_open: Callable[[], bool]) -> Send:
    """Send what an app sends, but end a stream in order once it is not open any more.

    An answer in one message is not asked for again; only streams go on.
    """

    async def sends(message: Message) -> None:
        if message.get("more_body") and not is_open():
            await send({"type": "http.response.body", "body": b""})
            raise _SessionOverError
        await send(message)

    return sends


_CLOSED = (
    "This page is only for the machine on which it runs: the server listens for others, too, and "
    "has no secret. Give it --token-file FILE (ops.token.file), or an address as 127.0.0.1. "
    "Metrics and probes answer as they are, and the log of the member has the stack of a handler "
    "that is overdue (handler.overdue)."
)


def _is_read_by_another(request: Request) -> bool:
    """Whether a script or a picture of another site asks; links from there are welcome."""
    headers = request.headers
    is_embedded = headers.get("sec-fetch-mode", "navigate") != "navigate"
    return is_embedded and headers.get("sec-fetch-site") in {"cross-site", "same-site"}


def _is_sent_by_another(request: Request, host: str) -> bool:
    """Whether a form of another site asks; a program that is no browser names no origin."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}
    try:
        return urlsplit(origin).netloc.lower() != host.lower()
    except ValueError:  # no browser sends such an origin, as "http://[::1"
        return True


def _refuse_body(request: Request) -> Response | None:
    length = request.headers.get("content-length", "")
    if not (length.isascii() and length.isdecimal()):
        return PlainTextResponse("Content-Length is missing.\n", HTTPStatus.LENGTH_REQUIRED)
    if len(length) > _LENGTH_DIGITS or int(length) > _FORM_BYTES_MAX:
        return PlainTextResponse("No form is so large.\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return None


def _refused(text: str) -> Response:
    return PlainTextResponse(f"{text}\n", HTTPStatus.FORBIDDEN)


def _name_in(host: str) -> str:
    """The name or address of a `Host` header, without its port; what is no such header as it is.

    >>> _name_in("Localhost:9464"), _name_in("[::1]:9464"), _name_in("ops.example.com.")
    ('localhost', '::1', 'ops.example.com')
    >>> _name_in("[::1"), _name_in("[::1]x")
    ('[::1', '[::1]x')
    """
    if host.startswith("["):
        inside, closed, port = host[1:].partition("]")
        return inside.lower() if closed and port[:1] in {"", ":"} else host
    return host.partition(":")[0].rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
