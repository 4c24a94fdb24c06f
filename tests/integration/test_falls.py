"""A record whose handler ends its process: the process is started again, as supervisors do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.falling import POISON
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import committed, eventually

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
KEYS = [POISON if number == 70 else f"key-{number % 20}" for number in range(300)]


FALLS = 3
"""Of a first one nobody knows whose it was, and a second one may have been of several."""


def test_it_is_begun_as_often_as_it_may_be_and_all_others_are_done(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    """There was no end of it, and others starved beside it."""
    orders, rows = job(**{"max.attempts": FALLS, "on.failure": "skip"}), tmp_path / "rows"
    orders.produce(KEYS)
    plan = {
        "settings": {**orders.settings, "group.instance.id": "one"},
        "topic": orders.topic,
        "rows": str(rows),
        "workers": 8,
    }
    for _ in range(FALLS):
        fallen = subprocess.run(
            [sys.executable, "-m", "tests.support.falling", json.dumps(plan)],
            cwd=ROOT,
            timeout=WAIT_S,
            check=False,
        )
        assert fallen.returncode == 9
    last = subprocess.Popen(
        [sys.executable, "-m", "tests.support.falling", json.dumps(plan)], cwd=ROOT
    )
    try:
        place, end = (orders.topic, 0), len(KEYS)
        eventually(lambda: committed(orders.admin, orders.group).get(place, (0, ""))[0] == end)
        assert last.poll() is None, "and it goes on"
    finally:
        last.terminate()
        last.wait(WAIT_S)
    begun = Counter(int(row) for row in rows.read_text().splitlines())
    assert begun[KEYS.index(POISON)] == FALLS
    assert set(begun) == set(range(len(KEYS))), "nothing was lost"
