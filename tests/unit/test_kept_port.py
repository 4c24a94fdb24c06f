"""The parent's port: kept over worker processes, and answered while there is none."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from coop_consumer.cli.kept_port import KeptPort

WAIT_S = 20.0


@pytest.fixture
def listener() -> socket.socket:
    """The worker process's own; the parent has a copy."""
    return socket.create_server(("127.0.0.1", 0))


@pytest.fixture
def kept(listener: socket.socket) -> Iterator[KeptPort]:
    with closing(KeptPort()) as port, listener:
        port.keep("127.0.0.1:0", listener.dup())
        yield port


def get(at: socket.socket | tuple[str, int], path: str, method: str = "GET") -> tuple[int, bytes]:
    host, port = at.getsockname() if isinstance(at, socket.socket) else at
    with closing(http.client.HTTPConnection(host, port, timeout=WAIT_S)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_without_a_worker_process_probes_are_answered(
    kept: KeptPort, listener: socket.socket
) -> None:
    kept.fallen(8.0)
    assert get(listener, "/livez") == (200, b'{"ok": true, "reasons": []}')
    assert get(listener, "/livez?verbose")[0] == 200
    for path in ("/readyz", "/metrics", "/"):
        status, text = get(listener, path)
        [reason] = json.loads(text)["reasons"]
        assert (status, reason["reason"]) == (503, "restarting")
        assert "is started in 8 s" in reason["text"]
    assert get(listener, "/readyz", "HEAD") == (503, b"")
    assert get(listener, "/livez", "POST")[0] == 501


def test_a_client_that_never_asks_holds_up_nobody(kept: KeptPort, listener: socket.socket) -> None:
    kept.fallen()
    with socket.create_connection(listener.getsockname(), WAIT_S):
        assert get(listener, "/livez")[0] == 200


def test_clients_that_came_before_the_fall_are_answered_after_it(
    kept: KeptPort, listener: socket.socket
) -> None:
    with socket.create_connection(listener.getsockname(), WAIT_S) as client:
        client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        listener.close()  # the worker process has fallen, and has not taken this client
        kept.fallen()
        assert client.recv(100).startswith(b"HTTP/1.0 200")


def test_the_next_process_has_the_port_to_itself(kept: KeptPort, listener: socket.socket) -> None:
    kept.fallen()
    kept.keep("127.0.0.1:0", listener.dup())
    with socket.create_connection(listener.getsockname(), WAIT_S):
        accepted, _ = listener.accept()
        accepted.close()
    kept.joined()
    assert kept.number >= 0


def test_a_process_that_joins_without_the_port_does_not_want_it(
    kept: KeptPort, listener: socket.socket
) -> None:
    place = listener.getsockname()
    kept.fallen()
    listener.close()
    kept.joined()
    assert (kept.number, kept.address) == (-1, "")
    with pytest.raises(ConnectionRefusedError):
        get(place, "/livez")


def test_without_a_port_nothing_is_answered() -> None:
    port = KeptPort()
    port.fallen()
    port.joined()
    port.close()
    assert port.number == -1
