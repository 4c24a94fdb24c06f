"""`coop-consumer web`, and a member's own page, of a real group: what is stuck shows by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.errors import ExitCode
from tests.integration.exporting import ROOT, address_in, exporting
from tests.support.brokers import MakeBroker
from tests.support.called import command, done
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.pools import Gate, refuse
from tests.support.stock import eventually
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
HOSTILE = "<img src=x onerror=alert(1)>"


@contextmanager
def page_of(its: Job, *groups: str) -> Iterator[str]:
    """Run `web` for the length of a block; the address at which it answers."""
    bootstrap = str(its.client["bootstrap.servers"])
    words = ["web", *groups, "--bootstrap", bootstrap, "--address", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "coop_consumer.cli", *words, "--every", "0.5"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stderr is not None
        yield address_in(process.stderr).strip().rstrip("/")
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == ExitCode.OK
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def read(address: str, path: str) -> str:
    with urlopen(f"http://{address}{path}", timeout=WAIT_S) as answer:
        found: bytes = answer.read()
        return found.decode()


@contextmanager
def live(address: str, path: str) -> Iterator[Callable[[str, str], str]]:
    """Wait for a text in a part of a page that nobody loads again; returns the part."""
    with urlopen(f"http://{address}{path}", timeout=WAIT_S) as answer:
        parts: dict[str, str] = {}

        def until(part: str, text: str) -> str:
            while text not in parts.get(part, ""):
                line = answer.readline()
                assert line, "the page's events have ended"
                if line.startswith(b"data: "):
                    told: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                    parts.update(told["parts"])
            return parts[part]

        yield until


def test_a_record_parks_shows_and_goes_once_it_is_decided(job: MakeJob) -> None:
    its = job(2, **{"max.attempts": 1})
    with (
        page_of(its, its.group, "missing") as address,
        live(address, f"/events/{its.group}") as see,
    ):
        with its.running(handler=refuse(HOSTILE)):
            its.produce(["a", "b", "c", HOSTILE])
            needs = see("needs", 'data-kind="parked"')
            assert "&lt;img src=x onerror=alert(1)&gt;" in needs
            assert HOSTILE not in needs
            assert f"coop-consumer skip {its.group}" in needs
            assert "RefusedError" in needs
            see("members", "works")
            see("picture", "data-member")
            done(command(its, "skip", its.group, "--all"))
            see("needs", "Nothing needs you")
        see("members", "No member is in the group")
        assert "There is no group missing" in read(address, "/group/missing")
        assert f'data-group="{its.group}"' in read(address, "/")


def test_a_members_own_page_says_what_runs_and_where_it_is(job: MakeJob) -> None:
    its = job(1, **{"ops.address": "127.0.0.1:0"})
    its.produce(["a", "slow"])
    gate = Gate("slow")
    with its.running(handler=gate) as member:
        gate.wait_for_arrival()
        assert member.pool._ops is not None
        address = member.pool._ops.address
        eventually(lambda: "stack of" in read(address, "/"))
        with live(address, "/events") as see:
            assert "key slow" in see("running", "/1")
            stack = read(address, f"/running/{its.topic}/0/1")
            assert "nobody opened the gate" in stack
            assert "/coop_consumer/executors/" not in stack
            gate.open()
            see("running", "Nothing runs at this moment")


def test_groups_that_are_not_named_are_found_also_if_their_members_are_gone(
    fresh_broker: MakeBroker,
) -> None:
    """On a broker of its own: other tests leave hundreds of groups without members."""
    bootstrap = fresh_broker().bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap})
    jobs = {}
    for name in ("works", "died", "plain"):
        create_topic(admin, name)
        jobs[name] = Job({"bootstrap.servers": bootstrap}, admin, name, name)
        jobs[name].produce(["a", "b"])
    works, died, plain = jobs.values()
    died.run_to_end()
    died.produce(["c"])
    plain.plain_visit(1)
    with works.running() as member:
        member.wait_for_ranges()
        with exporting(works) as see, page_of(works) as address, live(address, "/events") as page:
            page("groups", 'data-group="works"')
            listed = page("groups", "Nobody works: the group has no member")
            assert re.findall('data-group="([^"]*)"', listed) == ["died", "works"]
            eventually(lambda: see().of("coop_group_up", group="works") == [1.0])
            eventually(lambda: see().of("coop_group_records_left", group="died") == [1.0])
            assert see().of("coop_group_up", group="plain") == []
