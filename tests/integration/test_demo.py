"""The demo as a process: a small run end to end, Ctrl-C, a parent that is killed."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from coop_consumer.core import loads
from coop_consumer.demo.crew import Crew, MemberFailedError
from coop_consumer.demo.report import ChildRole, MemberTask
from coop_consumer.demo.skew import run_skew
from coop_consumer.demo.skew_round import SkewSizes
from coop_consumer.demo.topics import FlightTopics
from tests.support.brokers import MakeTopic

pytestmark = pytest.mark.integration

WAIT_S = 60.0


def demo(bootstrap: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "coop_consumer.demo", "--bootstrap", bootstrap, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children_at(bootstrap: str) -> list[str]:
    """The demo's processes that use this broker."""
    answer = subprocess.run(
        ["ps", "-ww", "-A", "-o", "args"], capture_output=True, text=True, check=True
    )
    return [
        line
        for line in answer.stdout.splitlines()
        if "coop_consumer.demo.member" in line and bootstrap in line
    ]


def until(children: bool, bootstrap: str) -> None:
    """Return when there are processes, or none; asking the system is the wait."""
    deadline = time.monotonic() + WAIT_S
    while bool(children_at(bootstrap)) is not children:
        assert time.monotonic() < deadline, f"processes: {children_at(bootstrap)}"


@pytest.fixture
def long_demo(bootstrap: str) -> Iterator[subprocess.Popen[str]]:
    """A demo that would run for minutes, with its first processes up."""
    running = demo(bootstrap, "--records", "5000", "--slice", "600", "--latency", "100")
    try:
        until(True, bootstrap)
        yield running
    finally:
        running.kill()
        running.communicate()
        until(False, bootstrap)


def test_a_small_demo_survives_its_kill_and_ends_with_one_line_of_json(bootstrap: str) -> None:
    size = ("--records", "4000", "--slice", "1", "--workers", "4", "--latency", "5")
    running = demo(bootstrap, *size, "--json")
    out, told = running.communicate(timeout=110)
    assert running.returncode == 0, told
    [line] = out.splitlines()
    result = json.loads(line)
    assert (result["workers"], result["partitions"], result["records"]) == (16, 3, 4_000)
    assert (result["lost"], result["out_of_order"]) == (0, 0)
    assert result["speedup"] == pytest.approx(
        result["plain_group_seconds_estimate"] / result["seconds"], rel=0.05
    )
    assert "kill -9" in told
    assert "4 members" in told
    assert "3 members" in told
    assert children_at(bootstrap) == []


def test_ctrl_c_ends_all_processes(long_demo: subprocess.Popen[str], bootstrap: str) -> None:
    long_demo.send_signal(signal.SIGINT)
    _, told = long_demo.communicate(timeout=WAIT_S)
    assert long_demo.returncode == 130, told
    assert "Traceback" not in told
    until(False, bootstrap)  # one that was just being started hears of it by its pipe


def test_processes_end_with_a_parent_that_is_killed(
    long_demo: subprocess.Popen[str], bootstrap: str
) -> None:
    long_demo.kill()
    until(False, bootstrap)


def test_a_process_that_ends_by_itself_is_an_error_that_shows_its_log(
    bootstrap: str, topic: MakeTopic
) -> None:
    task = MemberTask(
        role=ChildRole.COOPERATIVE,
        bootstrap=bootstrap,
        group="demo-without-topic",
        topics=FlightTopics(flights="no-such-topic", legs=topic(3)),
        latency_ms=1.0,
        workers=1,
    )
    with Crew([task]) as crew, pytest.raises(MemberFailedError, match="no-such-topic"):
        watch(crew)


def watch(crew: Crew) -> None:
    """Ask until it raises."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        crew.reports()


def test_the_demo_of_skew_measures_both_groups_and_loses_nothing(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "REPORT_MS", 200)  # a warm-up of minutes has reports of 30 s
    sizes = SkewSizes(records=400, members=2, latency_ms=1.0, warm_s=4.0, rate=200)
    page = io.StringIO()
    result = run_skew(sizes, Console(file=page, width=120), bootstrap=bootstrap)
    assert result.ok
    told = result.as_json()
    assert (told["lost"], told["out_of_order"]) == (0, 0)
    for found in result.rounds.values():
        assert found.keys() == {"even", "by_load"}
        assert all(it.least_s > 0 and it.over_bound >= 1 for it in found.values())
    bars = [line.split() for line in page.getvalue().splitlines() if line.endswith(" ms")]
    assert len(bars) >= 4, "of each group in each round, the member that has run the warm-up"
    assert all(set(bar[1]) <= {"█", "·"} and len(bar[1]) == 20 for bar in bars)
    assert page.getvalue().count("workers busy") == 4
    assert " of the work" in page.getvalue(), "a carrier has a sixth"
    assert "Flights by destination" in page.getvalue()
    assert "Flights by carrier" in page.getvalue()
