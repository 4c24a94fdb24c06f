"""`coop-consumer scale` on a real broker, and the load that `status` shows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from assignors import key_hash
from coop_consumer.errors import ExitCode
from offsets import HeavyKey, LoadKey, LoadRecord, PartitionLoad, encode_key, encode_value
from tests.support import stock
from tests.support.called import command, done
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.pools import Gate
from tests.support.stock import eventually, keys_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("logging_as_it_was")]

MakeJob = Callable[..., Job]
SECOND_PS = 10**12
FIRST = ["members", "wanted_members", "useful_members", "reason"]


def told(job: Job, *arguments: str, name: str = "scale") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done(command(job, name, job.group, "--json", *arguments)))
    return found


def report(job: Job, member: str, *, key: bytes | None = None, share: int = 610) -> None:
    """Write what a member of 4 workers would report whose handlers take a second."""
    topic_id = stock.topic_id(job.admin, job.topic)
    heavy = (HeavyKey(topic_id, 0, key_hash(key), share, key),) if key else ()
    record = LoadRecord(
        incarnation=1,
        at_ms=1,
        workers=4,
        busy=900,
        handler_us=1_000_000,
        finished=4,
        partitions=(PartitionLoad(topic_id, 0, SECOND_PS, 5),),
        heavy=heavy,
    )
    number = job.log.number_of(job.topic, 0)
    job.log.write(number, encode_key(LoadKey(job.group, member)), encode_value(record))


def visited(job: MakeJob, left: int, **settings: object) -> Job:
    """A group that has finished one record, has `left` to do and no members."""
    orders = job(**settings)
    orders.produce(["first"])
    orders.run_to_end()
    orders.produce(keys_of(left, 10))
    return orders


def test_a_group_at_work_wants_a_member_and_says_why(job: MakeJob) -> None:
    orders, gate = job(), Gate(*keys_of(50, 5))
    orders.produce(keys_of(50, 5))
    with orders.running(handler=gate):
        gate.wait_for_arrival()
        found = eventually(lambda: told(orders), lambda it: it["left"] == 50)
        assert list(found)[: len(FIRST)] == FIRST
        assert (found["group"], found["members"], found["wanted_members"]) == (orders.group, 1, 1)
        assert found["reason"].startswith("50 left at ")
        gate.open()
        orders.wait_for_lag(0)


def test_a_group_without_members_wants_some_by_what_they_said_last(job: MakeJob) -> None:
    orders = visited(job, 900)
    report(orders, "gone")
    found = told(orders)
    # 900 records of a second each, planned for 45 s: 20 workers of 4 x 0.9.
    assert (found["members"], found["wanted_members"], found["useful_members"]) == (0, 6, None)
    assert found["reason"] == "900 left at 0/s: 6 members"
    assert (found["left"], found["handler_us"], found["is_assumed"]) == (900, 1_000_000, False)
    slow = told(orders, "--config", "scale.drain.target.s=3600")
    assert slow["wanted_members"] == 1
    text = command(orders, "scale", orders.group)
    assert text.stdout == "0 members, 6 wanted. 900 left at 0/s: 6 members\n"


def test_no_member_is_wanted_that_a_heavy_key_would_keep_idle(job: MakeJob) -> None:
    orders = visited(job, 900)
    report(orders, "gone", key=b"N725MQ")
    found = told(orders)
    # 1 worker for the key, 7.8 for the others.
    assert (found["wanted_members"], found["useful_members"]) == (3, 3)
    assert found["reason"] == (
        "900 left at 0/s: 3 members; more members won't help: "
        f"key N725MQ is 61 % of the work of {orders.topic}-0"
    )


def test_a_group_without_members_and_reports_says_what_it_assumes(job: MakeJob) -> None:
    found = told(visited(job, 900))
    assert (found["members"], found["wanted_members"], found["is_assumed"]) == (0, 1, True)
    assert found["reason"].startswith("900 left at 0/s: 1 member (if a record takes 10 ms and ")


def test_a_group_that_has_done_all_and_has_no_member_wants_none(job: MakeJob) -> None:
    found = told(visited(job, 0))
    assert (found["wanted_members"], found["useful_members"]) == (0, 0)
    assert found["reason"] == "nothing is left and nothing arrives"


def test_a_group_with_exactly_once_is_found_by_itself(job: MakeJob) -> None:
    once = {"processing.guarantee": "exactly_once", "progress.topic.partitions": 2}
    orders = visited(job, 900, **once)
    report(orders, "gone")
    assert told(orders)["wanted_members"] == 6
    orders.log.write(orders.log.number_of(orders.topic, 0), encode_key(
        LoadKey(orders.group, "gone")), None)  # fmt: skip
    assert told(orders)["is_assumed"]


def test_a_plain_group_is_told_by_what_is_left_and_its_partitions(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(20, 5))
    orders.plain_visit(7)
    found = told(orders)
    assert (found["members"], found["left"], found["wanted_members"]) == (0, 13, 1)
    assert found["is_assumed"]


def test_a_group_or_topic_that_does_not_exist_has_the_exit_code_of_the_other_commands(
    job: MakeJob,
) -> None:
    orders = job()
    for arguments in (["nobody-knows-me"], [orders.group, "--topic", "no-such-topic"]):
        missing = command(orders, "scale", *arguments)
        assert missing.exit_code == ExitCode.MISSING
        assert "does not exist" in missing.stderr
    orders.produce(["a", "b"])
    assert told(orders, "--topic", orders.topic)["left"] == 2


def test_a_watched_scale_is_one_line_a_time_until_interrupted(job: MakeJob) -> None:
    orders = visited(job, 9)
    bootstrap = str(orders.client["bootstrap.servers"])
    asked = ["scale", orders.group, "--json", "--watch", "0.1", "--bootstrap", bootstrap]
    program = [sys.executable, "-m", "coop_consumer.cli", *asked]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            lines = [json.loads(watching.stdout.readline()) for _ in range(2)]
            assert lines[0]["at_ms"] < lines[1]["at_ms"]
            orders.produce(keys_of(500, 5))
            while lines[-1]["arrivals"] <= 0:
                lines.append(json.loads(watching.stdout.readline()))
            assert lines[-1]["left"] == 509
            watching.send_signal(signal.SIGINT)
            assert watching.wait(WAIT_S) == ExitCode.OK
        finally:
            watching.kill()


def test_status_shows_the_load_of_members_and_the_heavy_keys(job: MakeJob) -> None:
    orders = job()
    orders.produce(["first"])
    with orders.running() as pool:
        pool.journal.wait(lambda rows: len(rows) == 1)
        orders.wait_for_lag(0)
        report(orders, pool.pool.name, key=b"N725MQ")
        found = told(orders, name="status")
        [member] = found["members"]
        assert (member["load"]["workers"], member["load"]["busy"]) == (4, 0.9)
        [key] = found["heavy_keys"]
        assert (key["key"], key["share"], key["topic"]) == ("N725MQ", 0.61, orders.topic)
        text = command(orders, "status", orders.group).stdout
        assert "90 %" in text
        assert f"{orders.topic}-0: key N725MQ is 61 % of the work" in text
