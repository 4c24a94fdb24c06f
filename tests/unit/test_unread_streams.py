"""Fifty browsers that open a page's stream and never read it stop nobody."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from coop_consumer.ops.feed import GroupFeed
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.ops.guard import Door, guarded_by
from coop_consumer.ops.health import Health, HealthPhase
from coop_consumer.ops.health_routes import health_routes
from coop_consumer.ops.page.routes import page_routes
from coop_consumer.status.model import GroupStatus
from tests.support.asking import WAIT_S, ask, serving
from tests.unit.page_values import advice, group

CLIENTS = 50
LOOKS = 30
BEGUN = Health("billing", "m1", HealthPhase.RUNNING, is_member=True)


class OneFeed:
    """The feed of one group."""

    def __init__(self, status: GroupStatus) -> None:
        self.feed = GroupFeed(status.group)
        self.look(status)

    def look(self, status: GroupStatus) -> None:
        self.feed.put(GroupLook(status.group, 0.1, 0.0, status, advice(status)))

    def names(self) -> Sequence[str]:
        return [self.feed.group]

    def get(self, group: str) -> GroupFeed | None:
        return self.feed if group == self.feed.group else None


def moved(status: GroupStatus, number: int) -> GroupStatus:
    """The group, with other numbers in each part of its page."""
    partitions = tuple(replace(it, end=it.end + number) for it in status.partitions)
    return replace(status, partitions=partitions, at_ms=status.at_ms + number * 1_000)


def test_streams_that_nobody_reads_stop_nobody() -> None:
    status = group(members=12, partitions=50)
    feeds = OneFeed(status)
    path = f"/events/{status.group}"
    routes = [*page_routes(feeds), *health_routes(lambda: BEGUN)]
    with serving(routes, guarded_by(Door(host="127.0.0.1"))) as server, ExitStack() as stack:
        host, _, port = server.address.rpartition(":")
        # Connections inherit it: a kernel with more room would take all that is sent.
        server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect((host, int(port)))
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: {server.address}\r\n\r\n".encode())
        reader = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
        stack.callback(reader.close)
        reader.request("GET", path)
        lines = (it for it in reader.getresponse() if it.startswith(b"data: "))
        first = json.loads(next(lines).removeprefix(b"data: "))["version"]
        for number in range(1, LOOKS + 1):
            feeds.look(moved(status, number))
            assert ask(server, "/livez").status == 200
            version = first
            while version < first + number:  # who reads is told of each look
                version = json.loads(next(lines).removeprefix(b"data: "))["version"]
        assert ask(server, f"/group/{status.group}").status == 200
        sockets = server._server.server_state.connections
        waiting = [it.transport.get_write_buffer_size() for it in list(sockets)]
        assert sum(it > 0 for it in waiting) >= CLIENTS, "no kernel takes all of it"
        assert max(waiting) < 1_000_000, "a client that does not read costs a buffer, and no more"
