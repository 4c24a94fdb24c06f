"""What README and docs say, pasted block by block by a stranger with an empty home."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from coop_consumer.broker.detached import USUAL_PORT
from coop_consumer.broker.jars import cache_home
from tests.support.brokers import own_broker
from tests.support.pages import PAGES, RUN, PageRun, blocks_of
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

README, *DOCS = PAGES
WORKER = next(it for it in blocks_of(README) if it.mark.file)
"""What pages of docs call `billing:Billing`."""
RUNNABLE = [
    page
    for page in DOCS
    if any(it.language in RUN and not it.mark.reason for it in blocks_of(page))
]
CACHE = {"COOP_CACHE_DIR": str(cache_home(os.environ))}
"""The jars that the suite has: a stranger would fetch 44 MB."""


@pytest.fixture
def usual_port_taken() -> Iterator[None]:
    """Another program has the port that most have; here, if nobody has it yet."""
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", USUAL_PORT)))
        yield


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[None]:
    """The stranger's broker is stopped, whatever happens."""
    yield
    with PageRun(tmp_path, {}, CACHE) as run:
        run.call("coop-consumer", "broker", "stop")


@pytest.mark.usefixtures("usual_port_taken", "stopped")
def test_a_stranger_gets_through_readme_whatever_port_is_free(tmp_path: Path) -> None:
    with PageRun(tmp_path, {}, CACHE) as run:
        for block in blocks_of(README):
            run.run(block)
        assert f"port {USUAL_PORT} is taken by another program" in run.printed
        assert run.printed.count("b'customer-7' b'order 7'") == 1
        eventually(lambda: "b'customer-7' b'one more order'" in run.printed)
        assert "'b'" not in run.printed, "each thread prints whole lines"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker for the pages: the names of their topics and groups are fixed."""
    with own_broker() as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_a_stranger_gets_through_a_page(page: Path, tmp_path: Path, address: str) -> None:
    ours = {
        "localhost:9092": address,
        "--ops ": "--ops 127.0.0.1:0 ",
        "exporter billing": "exporter --address 127.0.0.1:0 billing",
        "/tmp/": f"{tmp_path}/",  # noqa: S108 - as pages have it
    }
    (tmp_path / WORKER.mark.file).write_text(WORKER.text, encoding="utf-8")
    with PageRun(tmp_path, ours, {**CACHE, "COOP_BOOTSTRAP": address}) as run:
        for block in blocks_of(page):
            run.run(block)
