"""Who may ask a server: names, origins, a token, and what browsers are told."""

from __future__ import annotations

import asyncio
import http.client
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from coop_consumer.errors import ConfigError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops import guard
from coop_consumer.ops.guard import Door, Guard, guarded_by
from coop_consumer.ops.requests import form_of
from coop_consumer.ops.server import OpsServer
from coop_consumer.ops.token_file import TokenFile
from tests.support.asking import Answer, ask, serving

SECRET = "correct-horse-battery-staple"  # noqa: S105
LOCAL = Door(host="127.0.0.1")
HTML = "text/html,application/xhtml+xml"
CROSS = "https://evil.example"


async def answered(request: Request) -> Response:
    return PlainTextResponse(f"{request.method} {(await form_of(request)).get('x', '')}")


ROUTES = [
    Route(path, answered, methods=["GET", "POST"])
    for path in ("/", "/group/{group:path}", "/static/page.css", "/metrics", "/livez", "/readyz")
]


@contextmanager
def guarded(door: Door) -> Iterator[OpsServer]:
    with serving(ROUTES, guarded_by(door)) as server:
        yield server


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.fixture
def with_token(token_file: Path) -> Iterator[OpsServer]:
    with guarded(
        Door(host="127.0.0.1", token=TokenFile(str(token_file), "--token-file"))
    ) as server:
        yield server


def origin(server: OpsServer) -> str:
    return f"http://{server.address}"


def sign_in(server: OpsServer, secret: str = SECRET, next_path: str = "/") -> Answer:
    fields = {"token": secret, "next": next_path}
    return ask(server, "/login", "POST", fields=fields, Origin=origin(server), Accept=HTML)


def cookie_of(answer: Answer) -> str:
    return str(answer.headers["set-cookie"]).partition(";")[0]


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost:8080", "127.0.0.1", "[::1]:9464", "10.1.2.3", "a.localhost"],
    ids=["localhost", "loopback", "in brackets", "in digits", "below localhost"],
)
def test_a_server_answers_to_its_own_names_and_to_addresses_in_digits(host: str) -> None:
    with guarded(LOCAL) as server:
        assert ask(server, "/", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9464", "127.0.0.1.evil.example", ""],
    ids=["a name", "with a port", "with digits before it", "none"],
)
def test_a_name_that_is_not_its_own_is_refused(host: str) -> None:
    with guarded(LOCAL) as server:
        answer = ask(server, "/", Host=host)
    assert answer.status == 403
    assert "--allowed-host" in answer.text


def test_a_name_that_is_allowed_is_its_own() -> None:
    with guarded(Door(host="127.0.0.1", hosts=frozenset({"Ops.example.com"}))) as server:
        assert ask(server, "/", Host="ops.EXAMPLE.com:443").status == 200
        assert ask(server, "/", Host="ops.example.org").status == 403


def test_a_refused_name_is_no_markup() -> None:
    with guarded(LOCAL) as server:
        answer = ask(server, "/", Host="<script>alert(1)</script>", Accept=HTML)
    assert answer.status in {400, 403}
    assert answer.headers["content-type"].startswith("text/plain")


def test_probes_and_metrics_are_answered_under_any_name() -> None:
    with guarded(LOCAL) as server:
        for path in ("/livez", "/readyz", "/metrics"):
            assert ask(server, path, Host="billing-0.billing.svc:9464").status == 200


# ---- origins -------------------------------------------------------------------------------------


def test_a_form_of_its_own_passes() -> None:
    with guarded(LOCAL) as server:
        answer = ask(server, "/", "POST", fields={"x": "1"}, Origin=origin(server))
    assert (answer.status, answer.text) == (200, "POST 1")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": CROSS},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=["another site", "nobody", "another port", "cross-site", "same-site"],
)
def test_a_form_of_another_site_is_refused(headers: dict[str, str]) -> None:
    with guarded(LOCAL) as server:
        answer = ask(server, "/", "POST", fields={"x": "1"}, **headers)
    assert answer.status == 403
    assert "another site" in answer.text


@pytest.mark.parametrize("sent", ["http://[::1", "http://[::1]x", "//"])
def test_an_origin_that_is_none_is_refused(sent: str) -> None:
    with guarded(LOCAL) as server:
        answer = ask(server, "/", "POST", fields={"x": "1"}, Origin=sent)
    assert answer.status == 403


async def to_the_guard(headers: dict[str, str], method: str = "GET", path: str = "/") -> int:
    """The status that a guard answers; 200: the app answers."""
    started: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response()(scope, receive, send)

    async def send(message: Message) -> None:
        started.extend([message["status"]] if "status" in message else [])

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "scheme": "http",
        "server": ("127.0.0.1", 9464),
        "query_string": b"",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    }
    await Guard(app, Door(host="0.0.0.0"))(scope, receive, send)  # noqa: S104
    return started[0]


def test_what_is_served_to_all_is_told_by_the_path_that_is_routed_and_not_by_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """starlette 1.0.0 makes a URL of the header Host and the path (CVE-2026-48710)."""

    def url(self: Request) -> URL:
        return URL(f"http://{self.headers['host']}{self.scope['path']}")

    monkeypatch.setattr(Request, "url", property(url))
    for host in ("127.0.0.1/livez?", "127.0.0.1/metrics#", "127.0.0.1/static/x?"):
        assert asyncio.run(to_the_guard({"host": host}, path="/group/billing")) == 403


@pytest.mark.parametrize(
    ("length", "status"), [("9" * 5_000, 413), ("9" * 19, 413), ("\xb2", 411), ("", 411)]
)
def test_a_length_that_is_none_is_refused(length: str, status: int) -> None:
    headers = {"host": "127.0.0.1", "content-length": length}
    assert asyncio.run(to_the_guard(headers, "POST")) == status


def test_no_decision_is_made_by_the_url() -> None:
    folder = Path(guard.__file__).parent
    found = [
        path.name for path in folder.rglob("*.py") if "request.url." in path.read_text("utf-8")
    ]
    assert found == []


def test_another_site_may_link_here_and_may_not_read() -> None:
    with guarded(LOCAL) as server:
        link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
        script = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}
        assert ask(server, "/", **link).status == 200
        assert ask(server, "/", **script).status == 403


def test_a_form_without_a_length_or_with_a_huge_one_is_refused() -> None:
    with guarded(LOCAL) as server:
        own = {"Origin": origin(server)}
        assert ask(server, "/", "POST", Transfer_Encoding="chunked", **own).status == 411
        assert ask(server, "/", "POST", fields={"x": "y" * 20_000}, **own).status == 413


# ---- headers -------------------------------------------------------------------------------------


def test_every_answer_tells_browsers_what_they_may_do() -> None:
    with guarded(LOCAL) as server:
        found = [ask(server, "/"), ask(server, "/nowhere"), ask(server, "/", Host="evil.example")]
    assert [it.status for it in found] == [200, 404, 403]
    for answer in found:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


# ---- the token -----------------------------------------------------------------------------------


def test_without_the_token_a_browser_gets_a_form_and_a_program_a_line(
    with_token: OpsServer,
) -> None:
    page = ask(with_token, "/group/a%2Fb?x=%3C", Accept=HTML)
    line = ask(with_token, "/metrics")
    assert (page.status, line.status) == (401, 401)
    assert 'type="password"' in page.text
    assert 'value="/group/a%2Fb?x=%3C"' in page.text
    assert "<form" not in line.text
    assert line.headers["www-authenticate"] == "Bearer"


def test_a_program_sends_the_token_and_may_ask_by_any_name(with_token: OpsServer) -> None:
    given = {"Authorization": f"Bearer {SECRET}", "Host": "billing-web.default.svc"}
    assert ask(with_token, "/metrics", **given).status == 200
    assert ask(with_token, "/", **given).status == 200


def test_a_wrong_token_is_refused_and_told_to_the_log_once(
    with_token: OpsServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = [ask(with_token, "/", Authorization="Bearer guess") for _ in range(3)]
    assert [it.status for it in found] == [403, 403, 403]
    [line] = [it for it in caplog.records if vars(it).get("event") == LogEvent.OPS_TOKEN_WRONG]
    assert "127.0.0.1" in line.getMessage()
    assert "guess" not in line.getMessage()
    assert vars(line)["who"] == "127.0.0.1"


def test_a_proxys_own_login_is_no_wrong_token(with_token: OpsServer) -> None:
    cookie = cookie_of(sign_in(with_token))
    assert ask(with_token, "/", Authorization="Basic YW5uOmE=", Cookie=cookie).status == 200


def test_probes_and_assets_need_no_token(with_token: OpsServer) -> None:
    for path in ("/livez", "/readyz", "/static/page.css"):
        assert ask(with_token, path).status == 200


def test_a_browser_signs_in_once(with_token: OpsServer) -> None:
    answer = sign_in(with_token, next_path="/group/billing")
    assert (answer.status, answer.headers["location"]) == (303, "/group/billing")
    said = answer.headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    assert SECRET not in said, "other servers of this host get the cookie"
    assert ask(with_token, "/", Cookie=cookie_of(answer)).status == 200
    assert ask(with_token, "/", Cookie=f"{cookie_of(answer)}0").status == 401


def test_a_wrong_token_in_the_form_is_refused(with_token: OpsServer) -> None:
    answer = sign_in(with_token, "guess")
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text


def test_a_browser_is_sent_nowhere_else_after_it_has_signed_in(with_token: OpsServer) -> None:
    for elsewhere in (
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "/\t/evil.example",
    ):
        assert sign_in(with_token, next_path=elsewhere).headers["location"] == "/"


def test_another_site_cannot_sign_a_browser_in(with_token: OpsServer) -> None:
    fields = {"token": SECRET}
    assert ask(with_token, "/login", "POST", fields=fields, Origin=CROSS).status == 403


def test_a_link_from_elsewhere_asks_again_by_itself(with_token: OpsServer) -> None:
    """The browser keeps the cookie back: the site with the link has begun that navigation."""
    link = ask(with_token, "/", Accept=HTML, Sec_Fetch_Site="cross-site")
    again = ask(with_token, "/", Accept=HTML, Sec_Fetch_Site="same-origin")
    assert 'http-equiv="refresh"' in link.text
    assert "refresh" not in again.text


def test_a_new_token_counts_at_once_and_ends_what_the_old_one_opened(
    with_token: OpsServer, token_file: Path
) -> None:
    old = cookie_of(sign_in(with_token))
    token_file.write_text("another-secret-of-ours")
    assert ask(with_token, "/", Cookie=old).status == 401
    assert ask(with_token, "/", Authorization="Bearer another-secret-of-ours").status == 200
    token_file.write_text("")  # somebody is writing it
    assert ask(with_token, "/", Authorization="Bearer another-secret-of-ours").status == 200


@pytest.mark.parametrize("by", ["cookie", "token"])
def test_a_new_token_ends_a_stream_that_the_old_one_opened(token_file: Path, by: str) -> None:
    goes_on = threading.Semaphore(1)

    async def stream(_: Request) -> Response:
        async def parts() -> AsyncIterator[str]:
            while True:
                await run_in_threadpool(goes_on.acquire)
                yield "data: 1\n\n"

        return StreamingResponse(parts(), media_type="text/event-stream")

    door = Door(host="127.0.0.1", token=TokenFile(str(token_file), "--token-file"))
    with serving([Route("/events", stream)], guarded_by(door)) as server:
        given = {"Cookie": cookie_of(sign_in(server))}
        if by == "token":
            given = {"Authorization": f"Bearer  {SECRET}"}
        host, _, port = server.address.rpartition(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=20.0)) as connection:
            connection.request("GET", "/events", headers=given)
            answer = connection.getresponse()
            assert answer.readline() == b"data: 1\n"
            token_file.write_text("another-secret-of-ours")
            goes_on.release()
            assert answer.read() == b"\n"  # it ends in order
        goes_on.release(2)  # a thread may wait


@pytest.mark.parametrize(
    "text",
    [None, "", "short", "ä" * 20, "line one of it\nline two of it"],
    ids=["missing", "empty", "short", "not ASCII", "two lines"],
)
def test_a_file_without_a_good_secret_is_refused_at_the_start(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        TokenFile(str(path), "--token-file")
    assert str(raised.value).startswith("--token-file")
    assert "secrets.token_urlsafe" in str(raised.value)
    assert "line one" not in str(raised.value)


# ---- beyond this machine -------------------------------------------------------------------------


def test_a_page_that_others_reach_without_a_secret_says_what_to_do_and_metrics_go_on() -> None:
    with guarded(Door(host="0.0.0.0")) as server:  # noqa: S104
        page, metrics = ask(server, "/"), ask(server, "/metrics")
    assert (page.status, metrics.status) == (403, 200)
    assert "--token-file" in page.text


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.7", "ops.example.com"],  # noqa: S104
    ids=["all", "all of version 6", "one", "a name"],
)
def test_a_door_to_the_network_is_not_local(host: str) -> None:
    assert not Door(host=host).is_local


def test_the_name_in_the_address_is_known() -> None:
    assert Door(host="ops.example.com").knows("ops.example.com")
