"""What a request to an `OpsServer` says, beside its path. Needs the extra `web`."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

_FIELDS_MAX = 20


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; of a field that comes twice the last. No field if it is none."""
    try:
        body = await request.body()
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except (ClientDisconnect, ValueError):
        return {}


def who_of(request: Request) -> str:
    """The address of a client, for the log."""
    return "an unknown address" if request.client is None else request.client.host


def path_of(request: Request) -> str:
    """The path by which routes are chosen, decoded.

    `request.url` is no substitute: starlette 1.0.0 parses it from text that begins with the header
    Host, so a client may choose its path (CVE-2026-48710), and have it raise.
    """
    path: str = request.scope["path"]
    return path


def address_of(request: Request) -> str:
    """Path and query as they were asked for: a group's name may hold an escaped `?`."""
    raw: bytes = request.scope.get("raw_path", b"/")
    path, query = raw.partition(b"?")[0], request.scope.get("query_string", b"")
    return (path + (b"?" + query if query else b"")).decode("ascii", "replace")
