"""Members that end in order have nothing processed again: at full load, and rolled one by one.

Real processes, real signals. `python -m benchmarks drain` does the same at full size, and says how
long it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.load import Load
from tests.support.brokers import MakeTopic
from tests.support.job import TIMING
from tests.support.journal import Row, lost, out_of_order, repeated
from tests.support.members import Crew, crew
from tests.support.stock import keys_of, produce

pytestmark = pytest.mark.integration

WORKERS, WORK_MS = 64, 5
NAMES = ("m0", "m1")
RATE = 300
SESSION_MS = 60_000


@pytest.fixture
def orders(topic: MakeTopic) -> str:
    return topic(3)


@pytest.fixture
def client(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap}


@pytest.fixture
def group(client: dict[str, Any], group_id: str, orders: str, tmp_path: Path) -> Iterator[Crew]:
    with crew({**client, **TIMING, "group.id": group_id}, orders, tmp_path) as it:
        yield it


def test_a_member_whose_workers_are_all_at_work_ends_and_no_record_comes_again(
    group: Crew, orders: str, client: dict[str, Any]
) -> None:
    produced = produce(client, orders, keys_of(10_000, 2_000))
    group.start("first", work_ms=WORK_MS, workers=WORKERS)
    group.journal.wait(lambda rows: len(rows) >= 2_000)
    group.members["first"].stop()
    done = len(group.journal.rows)
    group.start("second", work_ms=WORK_MS, workers=WORKERS)
    rows = group.journal.wait_for(produced)
    assert 2_000 <= done < len(produced)
    assert repeated(rows) == 0
    assert out_of_order(rows) == []


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_members_that_are_rolled_one_by_one_process_no_record_again(
    group: Crew, orders: str, client: dict[str, Any], *, static: bool
) -> None:
    def start(name: str) -> None:
        own = {"group.instance.id": name, "session.timeout.ms": SESSION_MS} if static else {}
        group.start(name, work_ms=WORK_MS, workers=2, **own)

    def wait_until_at_work(name: str) -> None:
        run = group.members[name].process.pid

        def is_at_work(rows: list[Row]) -> bool:
            return any(row.member == name and row.run == run for row in rows[-RATE:])

        group.journal.wait(is_at_work)

    for name in NAMES:
        start(name)
    group.settle(*NAMES)
    load = Load(client, orders, RATE, cycle(keys_of(200, 200)))
    load.start()
    try:
        for name in NAMES:
            wait_until_at_work(name)
            group.members[name].stop()
            start(name)
            wait_until_at_work(name)
    finally:
        produced = load.finish()
    rows = group.journal.wait_for(produced)
    for name in NAMES:
        group.members[name].stop()
    assert len({row.run for row in rows}) == 2 * len(NAMES)
    assert repeated(group.journal.rows) == 0
    assert lost(rows, produced) == set()
    assert out_of_order(rows) == []
