"""`/api/status` and `/api/scale` of `web` are what the commands print, and answer as they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.integration.test_web import page_of, read
from tests.support.called import command, done
from tests.support.job import Job
from tests.support.pools import refuse
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
TIMES = {"at_ms", "age_ms"}
"""What differs from one look to the next."""


def timeless(value: Any) -> Any:
    """The value without its times."""
    match value:
        case dict():
            return {name: timeless(it) for name, it in value.items() if name not in TIMES}
        case list():
            return [timeless(it) for it in value]
        case _:
            return value


def told(address: str, path: str) -> Any:
    """What `web` answers, or the status of its error."""
    try:
        return json.loads(read(address, path))
    except HTTPError as error:
        with error:
            return error.code


def test_programs_get_what_the_commands_print(job: MakeJob) -> None:
    its = job(2, **{"max.attempts": 1})
    its.produce(["a", "b", "bad", "bad"])
    with its.running(handler=refuse("bad")):
        eventually(lambda: its.parked() or its.log.partition(its.topic, 1).attempts())
        its.wait_for_lag(2)
    its.wait_until_empty()
    with page_of(its, its.group, "missing") as address:
        path = f"/api/status/{its.group}"
        eventually(lambda: told(address, path), lambda it: isinstance(it, dict))
        broker = str(its.client["bootstrap.servers"])  # the commands that are printed name it
        for name in ("status", "scale"):
            words = name, its.group, "--json", "--bootstrap", broker
            printed = json.loads(done(command(its, *words)))
            assert timeless(told(address, f"/api/{name}/{its.group}")) == timeless(printed)
        assert told(address, "/api/scale/missing") == 404
        assert told(address, "/api/scale/unwatched") == 404
