"""How a browser shows that its user knows the secret of an `OpsServer`. Needs the extra `web`.

In: a secret, requests. Out: a page with a form, then a cookie. The cookie is of `SameSite=Strict`,
so no other site can use it, and no script can read it.
"""

from __future__ import annotations

import html
import logging
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from coop_consumer.log_events import LogEvent
from coop_consumer.ops.requests import address_of, form_of, path_of, who_of
from coop_consumer.plain_text import printable

if TYPE_CHECKING:
    from coop_consumer.ops.token_file import TokenFile

log = logging.getLogger(__name__)

PATH = "/login"
_WARN_EVERY_S = 60.0


class SignIn:
    """The way in by a secret.

    Args:
        token: The secret.
    """

    def __init__(self, token: TokenFile) -> None:
        self._token = token
        self._warned_s = -_WARN_EVERY_S

    def has_token(self, request: Request, given: str) -> bool:
        """Whether what a program gives is the secret; if not, the log says so, once a minute."""
        is_token = self._token.is_token(given)
        now_s = monotonic()
        if not is_token and now_s - self._warned_s >= _WARN_EVERY_S:
            self._warned_s = now_s
            told = "a client at %s has given a wrong token for %s"
            who = who_of(request)
            extra = LogEvent.OPS_TOKEN_WRONG.extra(who=who)
            log.warning(told, who, printable(path_of(request)), extra=extra)
        return is_token

    def has_cookie(self, request: Request) -> bool:
        """Whether a browser has signed in."""
        return self._token.is_cookie(request.cookies.get(_cookie_name(request), ""))

    def is_open(self, request: Request) -> bool:
        """Whether what let a request in, token or cookie, still counts."""
        secret = secret_in(request)
        return self.has_cookie(request) if secret is None else self._token.is_token(secret)

    def refused(self, request: Request) -> Response:
        """For whoever has neither: a form for people, a line for programs."""
        return _page(request, HTTPStatus.UNAUTHORIZED, next_path=address_of(request))

    async def answer(self, request: Request) -> Response:
        """The page at `PATH`, or what its form leads to."""
        if request.method in {"GET", "HEAD"}:
            next_path = request.query_params.get("next", "")
            return _page(request, HTTPStatus.OK, next_path=next_path)
        fields = await form_of(request)
        next_path = fields.get("next", "")
        if not self.has_token(request, fields.get("token", "").strip()):
            return _page(request, HTTPStatus.FORBIDDEN, next_path=next_path)
        answer = RedirectResponse(_own_path(next_path), HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            _cookie_name(request),
            self._token.cookie,
            httponly=True,
            samesite="strict",
            secure=request.scope.get("scheme") == "https",
        )
        return answer


def secret_in(request: Request) -> str | None:
    """What a program gives as the secret; None: nothing. A proxy has schemes of its own."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def _cookie_name(request: Request) -> str:
    """A name for each port: browsers give all servers of a host the same cookies."""
    server = request.scope.get("server")
    return f"coop_{server[1] if server else ''}"


def _own_path(path: str) -> str:
    r"""The path if it is one of this server's, else "/".

    Browsers take `//name` and `/\name` for another server, and leave out tabs and line ends.

    >>> _own_path("/group/a%20b?x=1"), _own_path("//evil.example"), _own_path("/\t/evil.example")
    ('/group/a%20b?x=1', '/', '/')
    """
    is_path = path.startswith("/") and path[1:2] not in {"/", "\\"}
    is_plain = path.isascii() and path.isprintable() and " " not in path
    return path if is_path and is_plain else "/"


_HTML = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{again}<title>Sign in: coop-consumer</title>
<link rel="icon" href="/static/icon.svg">
<link rel="stylesheet" href="/static/page.css">
</head>
<body>
<main id="login">
<h1>Sign in</h1>
{wrong}<form method="post" action="/login">
<p><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<input type="hidden" name="next" value="{next_path}">
<button type="submit">Sign in</button></p>
</form>
<p>It is in the file that <code>--token-file</code> (<code>ops.token.file</code>) names.</p>
</main>
</body>
</html>
"""
_WRONG = '<p role="alert">This is not the token.</p>\n'
_AGAIN = '<meta http-equiv="refresh" content="0">\n'


def _page(request: Request, status: HTTPStatus, *, next_path: str) -> Response:
    is_wrong = status == HTTPStatus.FORBIDDEN
    if "text/html" not in request.headers.get("accept", ""):
        what = "This is not the token" if is_wrong else "A token is missing"
        text = f"{what}. Give it as Authorization: Bearer TOKEN.\n"
        return PlainTextResponse(text, status, {"www-authenticate": "Bearer"})
    # A link from elsewhere, as in a message about an alert: for its navigation a browser keeps a
    # cookie of SameSite=Strict back. For that of this page itself it does not.
    is_link = request.headers.get("sec-fetch-site") == "cross-site"
    text = _HTML.format(
        again=_AGAIN if is_link and status == HTTPStatus.UNAUTHORIZED else "",
        wrong=_WRONG if is_wrong else "",
        next_path=html.escape(_own_path(next_path)),
    )
    return HTMLResponse(text, status)
