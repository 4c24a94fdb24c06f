"""The HTTP server: an address in use, absent packages, clients that never read or never ask."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import pytest

from coop_consumer.config import Config
from coop_consumer.core.glimpse import Glimpse
from coop_consumer.core.metrics import MemberMetrics
from coop_consumer.errors import ConfigError, MemberSilentError
from coop_consumer.member.breath import Breath
from coop_consumer.ops.actions import Asked, Intent, Operator, PageAction
from coop_consumer.ops.feed import GroupFeed
from coop_consumer.ops.health import Health, HealthPhase
from coop_consumer.ops.health_routes import health_routes
from coop_consumer.ops.metrics_route import metrics_route
from coop_consumer.ops.prometheus import Exposition, MemberCollector
from coop_consumer.ops.server import OpsServer
from coop_consumer.ops.serving import refuse_without_packages, refuse_without_web, served
from coop_consumer.status.errors import NotParkedError
from tests.support.asking import ask
from tests.unit.full_metrics import full_metrics

WAIT_S = 20.0
BEGUN = Health("billing", "m1", HealthPhase.RUNNING, is_member=True)


def full() -> MemberMetrics:
    return full_metrics()


@contextmanager
def serving(
    metrics: Callable[[], MemberMetrics] = full,
    address: str = "127.0.0.1:0",
    health: Callable[[], Health] = lambda: BEGUN,
) -> Iterator[OpsServer]:
    exposition = Exposition(MemberCollector(metrics), lambda: ())
    server = OpsServer(
        address,
        [metrics_route(exposition), *health_routes(health)],
        setting="ops.address",
        remedy="set ops.address",
        group="billing",
    )
    server.start()
    try:
        yield server
    finally:
        server.close()


def nobody() -> Operator:
    raise AssertionError("actions are not allowed")


class GroupOfNobody:
    """The feed of a group that nobody asks for."""

    def names(self) -> Sequence[str]:
        return ("billing",)

    def get(self, group: str) -> GroupFeed | None:
        return GroupFeed(group) if group == "billing" else None

    def close(self) -> None:
        """Nothing runs."""


class Deaf:
    """An operator that knows each action, and can carry none out."""

    allows = frozenset(PageAction)

    def look(self, asked: Asked) -> Intent:
        raise NotParkedError("orders", 3, 43, f"cannot {asked.action}")

    def carry_out(self, asked: Asked) -> str:
        raise NotImplementedError(asked)


def serve(parsed: Config, operator: Callable[[], Operator] = nobody) -> OpsServer | None:
    """What a member with this configuration serves."""
    return served(
        parsed,
        full,
        lambda: BEGUN,
        figures_of_children=str,
        operator=operator,
        group=GroupOfNobody,
        glimpse=Glimpse,
        stack=lambda *_: "",
        calls=Breath(),
    )


def get(server: OpsServer, path: str = "/metrics", method: str = "GET") -> tuple[int, bytes]:
    host, _, port = server.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_scrape_is_answered() -> None:
    with serving() as server:
        status, text = get(server)

    assert status == 200
    assert b'coop_member_info{group="billing",member="m1"' in text


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=x",
        "text/plain; version=1.x",
        "text/plain;version=\xb2",
    ],
)
def test_who_accepts_what_does_not_exist_gets_plain_text(accept: str) -> None:
    with serving() as server:
        answer = ask(server, "/metrics", Accept=accept)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_probes_are_answered_with_their_reasons() -> None:
    frozen = replace(BEGUN, is_member=False, idle_s={"coop-member-billing": 12.0})
    with serving() as server:
        assert get(server, "/livez") == get(server, "/readyz") == (200, b'{"ok":true,"reasons":[]}')
    with serving(health=lambda: frozen) as server:
        (alive, why), (is_ready, _) = get(server, "/livez"), get(server, "/readyz")
    assert (alive, is_ready) == (503, 503)
    [reason] = json.loads(why)["reasons"]
    assert (reason["reason"], reason["subject"]) == ("frozen", "coop-member-billing")


def test_a_scrape_that_takes_long_delays_no_probe() -> None:
    is_asked, goes_on = threading.Event(), threading.Event()

    def slow() -> MemberMetrics:
        is_asked.set()
        goes_on.wait(WAIT_S)
        return full()

    with serving(slow) as server:
        scrape = threading.Thread(target=get, args=(server,))
        scrape.start()
        assert is_asked.wait(WAIT_S)
        assert get(server, "/livez")[0] == 200
        goes_on.set()
        scrape.join(WAIT_S)


def test_another_path_is_not_found_and_another_method_not_allowed() -> None:
    with serving() as server:
        for path in ("/", "/groups/billing"):
            status, told = get(server, path)
            assert status == 404
            assert b"answers at /metrics, /livez" in told
        assert get(server, method="POST")[0] == 405
        assert get(server, method="HEAD")[0] == 200


def test_a_port_in_use_is_told_with_the_setting_and_what_to_do() -> None:
    with serving() as server, pytest.raises(ConfigError) as raised:
        OpsServer(
            server.address, [], setting="ops.address", remedy="set ops.address", group="billing"
        )

    text = str(raised.value)
    assert text.startswith("ops.address")
    assert server.address in text
    assert "in use" in text
    host, _, port = server.address.rpartition(":")
    examples = [f"{host}:{int(port) + off}" for off in (10, -10)]
    assert any(f"or set ops.address, as in {it}." in text for it in examples), text


def test_a_host_of_another_machine_is_no_address() -> None:
    with pytest.raises(ConfigError, match=r"is no address to listen at.*as in 127.0.0.1:9474\.$"):
        OpsServer(
            "192.0.2.1:9464", [], setting="ops.address", remedy="set ops.address", group="billing"
        )


def test_a_closed_server_frees_its_port() -> None:
    with serving() as server:
        address = server.address
        get(server)
    with serving(address=address) as again:
        assert get(again)[0] == 200


def test_a_member_that_does_not_answer_is_no_metrics() -> None:
    def silent() -> MemberMetrics:
        raise MemberSilentError("billing", "m1", 5.0)

    with serving(silent) as server:
        status, text = get(server)

    assert status == 503
    assert b"has not answered" in text


def test_fifty_clients_that_never_read_stop_nobody() -> None:
    large = full_metrics(*(f"topic-{number}" for number in range(200)))
    with serving(lambda: large) as server, ExitStack() as stack:
        host, _, port = server.address.rpartition(":")
        for _ in range(50):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect((host, int(port)))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(50):
            mute = stack.enter_context(socket.socket())
            mute.connect((host, int(port)))
        status, text = get(server)

    assert status == 200
    assert len(text) > 400_000, "so no kernel takes all of it without a reader"


def test_clients_that_never_read_do_not_delay_the_end() -> None:
    threads = set(threading.enumerate())
    with serving() as server, ExitStack() as stack:
        host, _, port = server.address.rpartition(":")
        for _ in range(5):
            client = stack.enter_context(socket.socket())
            client.connect((host, int(port)))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        get(server)
        server.close()
        left = {it.name for it in set(threading.enumerate()) - threads}

    assert not any(name.startswith("coop-ops") for name in left)


def test_content_types_that_a_client_makes_up_are_one() -> None:
    with serving() as server:
        host, _, port = server.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
        for number in range(1, 20):
            accept = f"application/openmetrics-text; version=1.0.{number}"
            connection.request("GET", "/metrics", headers={"Accept": accept})
            answer = connection.getresponse()
            assert answer.status == 200
            answer.read()
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        connection.close()


def test_scrapes_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), serving() as server:
        get(server)

    assert not [it for it in caplog.records if it.name.startswith("uvicorn")]


def test_what_is_no_http_is_answered_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), serving() as server:
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port)), WAIT_S) as client:
            client.sendall(b"\x16\x03\x01 this is TLS\r\n\r\n")
            assert client.recv(64).startswith(b"HTTP/1.1 400 ")

    assert not [it for it in caplog.records if it.name.startswith("uvicorn")]


def config(**more: object) -> Config:
    given = {"bootstrap.servers": "b:9092", "group.id": "billing", **more}
    return Config.from_dict(given)


def test_a_member_shows_its_group_as_well() -> None:
    server = serve(config(**{"ops.address": "127.0.0.1:0"}))
    assert server is not None
    with closing(server):
        assert b'href="/group/billing"' in get(server, "/")[1]
        status, page = get(server, "/group/billing")
        assert status == 200
        assert b"This member" in page
        assert get(server, "/group/other")[0] == 404
        for path in ("/api/status/billing", "/api/scale/billing"):
            assert get(server, path) == (503, b'{"error":"The group was not seen yet."}')


def test_a_member_without_actions_says_why_an_address_of_one_leads_nowhere() -> None:
    server = serve(config(**{"ops.address": "127.0.0.1:0"}))
    assert server is not None
    try:
        status, text = get(server, "/confirm/pause/billing?topic=orders&partition=3")
    finally:
        server.close()
    assert status == 403
    assert b"ops.allow.actions" in text


def test_each_action_leads_back_to_the_page_that_offers_it() -> None:
    server = serve(config(**{"ops.address": "127.0.0.1:0", "ops.allow.actions": True}), Deaf)
    assert server is not None
    place = "topic=orders&partition=3&offset=43"
    with closing(server):
        told = {it: get(server, f"/confirm/{it}/billing?{place}")[1] for it in PageAction}
    backs = {
        it: re.findall('class="back" href="([^"]*)">Back to ([^<]*)<', page.decode())
        for it, page in told.items()
    }
    own, whole = [("/", "the member")], [("/group/billing", "billing")]
    assert backs == {"retry": whole, "skip": whole, "release": whole, "pause": own, "resume": own}


def test_without_an_address_nothing_is_served() -> None:
    assert serve(config()) is None


def test_absent_packages_are_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prometheus_client", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError) as raised:
        serve(config(**{"ops.address": "127.0.0.1:0"}))

    text = str(raised.value)
    assert "needs prometheus_client and uvicorn" in text
    assert "pip install 'coop-consumer[metrics,web]'" in text


@pytest.mark.parametrize("absent", [("jinja2",), ("jinja2", "starlette", "uvicorn")])
def test_a_page_without_its_extra_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, absent: tuple[str, ...]
) -> None:
    for name in ("prometheus_client", *absent):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError) as raised:
        refuse_without_web("--address")

    text = str(raised.value)
    assert f"--address needs {' and '.join(absent)}, not installed here" in text
    assert "pip install 'coop-consumer[web]'" in text


def test_present_packages_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_without_packages("--ops")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    refuse_without_web("--address")


@pytest.mark.parametrize("address", ["", "9464", "localhost", "localhost:", "a:b", "h:70000"])
def test_what_is_no_address_is_refused_before_anything_begins(address: str) -> None:
    with pytest.raises(ConfigError, match=r"ops\.address"):
        config(**{"ops.address": address})


@pytest.mark.parametrize("address", ["127.0.0.1:9464", "[::1]:9464", "localhost:0", "0.0.0.0:80"])
def test_addresses(address: str) -> None:
    assert config(**{"ops.address": address}).ops_address == address
