"""What README and docs say, pasted block by block by a stranger with an empty home.

README's blocks begin with an installation, so its test needs a package index, as `make venv` does.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from coop_consumer.broker.detached import USUAL_PORT
from coop_consumer.broker.jars import cache_home
from tests.support.brokers import own_broker
from tests.support.pages import PAGES, ROOT, RUN, PageRun, blocks_of
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
MADE = (".*", "__pycache__", "*.egg-info", "build", "dist", "target")
"""What is in a checkout after some work, and not in a fresh one."""


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


@pytest.fixture
def pip_cache() -> dict[str, str]:
    """Where pip keeps what it has fetched for the suite; empty if it may keep nothing."""
    words = [sys.executable, "-m", "pip", "cache", "dir"]
    asked = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    return {} if asked.returncode else {"PIP_CACHE_DIR": asked.stdout.strip()}


@pytest.mark.usefixtures("usual_port_taken", "stopped")
def test_a_stranger_gets_through_readme_whatever_port_is_free(
    tmp_path: Path, pip_cache: dict[str, str]
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(*MADE))
    python = {"python3 ": f"{sys.executable} "}
    home = {**CACHE, **pip_cache, "HOME": str(tmp_path)}
    with PageRun(checkout, python, home, installs=True) as run:
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
        "--ops ": "--ops 127.0.0.1:0 ",
        "exporter billing": "exporter --address 127.0.0.1:0 billing",
        "/tmp/": f"{tmp_path}/",  # noqa: S108 - as pages have it
    }
    (tmp_path / WORKER.mark.file).write_text(WORKER.text, encoding="utf-8")
    with PageRun(tmp_path, ours, {**CACHE, "COOP_BOOTSTRAP": address}) as run:
        for block in blocks_of(page):
            run.run(block)
