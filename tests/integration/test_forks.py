"""Forks of a program with members: the child is told so, ends, and the parent goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_forked_child_is_told_and_ends_and_its_parent_goes_on(
    job: MakeJob, executor: str
) -> None:
    orders = job()
    orders.produce(["a", "b", "c"])
    command = [
        sys.executable,
        "-m",
        "tests.support.forking",
        json.dumps(orders.settings),
        orders.topic,
    ]
    lines = []
    with subprocess.Popen(
        [*command, executor], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        try:
            for line in program.stdout:
                lines.append(line.strip())
                if lines[-1] == "go on":
                    break
            orders.produce(["a", "b", "c"])  # beside the one of the publisher
            eventually(orders.committed, lambda found: 0 in found and found[0][0] >= 7)
            rest, _ = program.communicate("\n", timeout=WAIT_S)
        finally:
            program.kill()
    assert program.returncode == 0
    made_before = "was made before this process"
    assert lines == [
        f"told MisuseError run(): this pool {made_before}",
        f"told MisuseError wait(): this pool {made_before}",
        f"told MisuseError assignment(): this pool {made_before}",
        f"told MisuseError poll(): this consumer {made_before}",
        f"told MisuseError commit(): this consumer {made_before}",
        f"told MisuseError this call: publisher {orders.group}-4 {made_before}",
        "child ended with 3",
        "go on",
    ]
    assert rest == "finished 7, failed 0\n"
