"""What the page shows in a browser test: a broker, a group at work, `coop-consumer web`.

In: a folder, who is in the group. Out: a `Stage`: what a test does to the group, and where the page
is. Members may share a process; the last one has a process of its own, to be killed.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer.broker import EmbeddedBroker
from tests.support.brokers import own_broker
from tests.support.journal import WAIT_S

ROOT = Path(__file__).parents[2]
TOPIC, GROUP = "orders", "billing"
PARTITIONS = 3
TOGETHER, ALONE = ("ann", "bob", "cid"), "dan"
KEYS_A_PARTITION = 13
RECORDS_A_SECOND = 50.0
EVIL = b"<img src=x onerror=alert(1)>"
NO_UTF8 = b"caf\xe9 \xff\xfe"
_SETTINGS: Mapping[str, object] = {
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 200,
    "max.attempts": 1,
    "attempts.for.ms": 0,
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A group at work, and its page.

    Attributes:
        broker: Its broker, to be stopped.
        page: The address of the page: `http://HOST:PORT`.
        web: The process that serves it.
        token: What opens it.
        alone: The process of the member `ALONE`, to be killed.
        member: The address of that member's own page.
        failing: While this file is there, records whose value is `fail` do.
    """

    broker: EmbeddedBroker
    page: str
    web: subprocess.Popen[str]
    token: str
    alone: subprocess.Popen[bytes]
    member: str
    failing: Path

    def park(self, *keys: bytes) -> None:
        """Have a record of each key fail for good."""
        self.failing.touch()
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for key in keys:
            producer.produce(TOPIC, b"fail", key)
        assert producer.flush(WAIT_S) == 0

    def mend(self) -> None:
        """Have such records succeed from now on."""
        self.failing.unlink(missing_ok=True)


@contextmanager
def staged(
    folder: Path,
    every_s: float = 0.5,
    *,
    partitions: int = PARTITIONS,
    processes: Sequence[Sequence[str]] = (TOGETHER,),
    records_a_second: float = RECORDS_A_SECOND,
) -> Iterator[Stage]:
    """A stage for the length of a block.

    Args:
        folder: For its files.
        every_s: How often `web` looks.
        partitions: How many the topic has.
        processes: The members of each process, without `ALONE`.
        records_a_second: So many come, over all partitions.
    """
    with own_broker(config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        bootstrap = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(WAIT_S)
        with socket.create_server(("127.0.0.1", 0)) as free:
            own = f"127.0.0.1:{free.getsockname()[1]}"
        token, failing = folder / "token", folder / "failing"
        token.write_text(secrets.token_urlsafe(32))
        with ExitStack() as stack:
            for names in processes:
                stack.enter_context(_members(bootstrap, failing, names))
            address = {"ops.address": own}
            alone = stack.enter_context(_members(bootstrap, failing, (ALONE,), address))
            stack.enter_context(_load(bootstrap, KEYS_A_PARTITION * partitions, records_a_second))
            web, page = stack.enter_context(_web(bootstrap, token, every_s))
            yield Stage(broker, page, web, token.read_text(), alone, f"http://{own}", failing)


@contextmanager
def _members(
    bootstrap: str, failing: Path, names: Sequence[str], own: Mapping[str, object] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    plan = {
        "settings": {**_SETTINGS, "bootstrap.servers": bootstrap, "group.id": GROUP, **(own or {})},
        "topic": TOPIC,
        "names": names,
        "failing": str(failing),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.browser.members", json.dumps(plan)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        assert process.stdin is not None
        process.stdin.close()
        process.wait(WAIT_S)


@contextmanager
def _load(bootstrap: str, keys: int, records_a_second: float) -> Iterator[None]:
    """Records that come all the time, of so many keys in turn."""
    over = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 5})

    def write() -> None:
        number = 0
        while not over.wait(1 / records_a_second):
            producer.produce(TOPIC, b"", f"customer-{number % keys}".encode())
            producer.poll(0)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join(WAIT_S)
        producer.purge()
        producer.flush(WAIT_S)


@contextmanager
def _web(
    bootstrap: str, token: Path, every_s: float
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    words = ["web", GROUP, "--bootstrap", bootstrap, "--address", "127.0.0.1:0"]
    words += ["--every", str(every_s)]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "coop_consumer.cli", *words),
            *("--token-file", str(token), "--allow-actions"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    lines, found = process.stderr, threading.Event()
    page: list[str] = []
    reader = threading.Thread(target=_read, args=(lines, page, found))
    reader.start()
    try:
        assert found.wait(WAIT_S), "the page was not served"
        assert page, "`web` has ended"
        yield process, page[0]
        process.terminate()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        reader.join(WAIT_S)
        lines.close()


def _read(lines: IO[str], page: list[str], found: threading.Event) -> None:
    """Read its log to the end, so that it never waits for a reader."""
    for line in lines:
        if " at http://" in line and not page:
            page.append(f"http://{line.partition(' at http://')[2].strip().rstrip('/')}")
            found.set()
    found.set()
