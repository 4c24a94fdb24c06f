"""`init` on real brokers: what it makes is enough, and so are the rights that it lists.

`ann` gets these rights and no others. She does all that a group can do, and what people decide.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient

from coop_consumer import Record, WorkerPool
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.cli.app import app
from coop_consumer.errors import ExitCode
from tests.integration.test_exactly_once import visible
from tests.integration.test_exactly_once_commands import one_waits_for_the_other, outputs
from tests.support import stock
from tests.support.called import done
from tests.support.counting import Counts
from tests.support.job import Job
from tests.support.pools import RefusedError
from tests.support.rights import Right, grant
from tests.support.stock import eventually, records_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("logging_as_it_was")]

DOES_ALL = {"on.failure": "dead_letter", "max.attempts": 1, "progress.topic.partitions": 2}


def called(settings: Mapping[str, object], *words: str) -> Result:
    """Call a command of a user with these settings."""
    options = [word for name, it in settings.items() for word in ("--config", f"{name}={it}")]
    return CliRunner().invoke(app, [*words, *options], env={"COLUMNS": "400"})


class DoesAll(Counts):
    """Counts, sends what it has counted, and fails at the records of one key."""

    def process(self, record: Record) -> None:
        if record.key == b"bad":
            raise ValueError("no price")
        super().process(record)
        self.context.send(record, *sorted(self.context.config.output_names), record.key, b"1")


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_the_rights_that_init_lists_are_enough_for_all_that_a_group_does(
    secured: EmbeddedBroker,
    root: AdminClient,
    group_id: str,
    guarantee: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    totals, log = f"{group_id}-totals", f"{group_id}-log"
    for name in (group_id, totals):
        create_topic(root, name)
    own = {
        **DOES_ALL,
        "progress.topic": log,
        "processing.guarantee": guarantee,
        "output.topics": totals,
    }
    as_root, as_ann = secured.client_config("root"), secured.client_config("ann")
    job = Job(as_root, root, f"{group_id}-group", group_id, own={**as_ann, **own})
    init = ["init", "--group", job.group, "--topics", job.topic, "--keyed-state", "--json"]
    told = json.loads(done(called({**as_root, **own}, *init)))
    progress = f"{log}-{job.group}" if guarantee == "exactly_once" else log
    changelog = f"{job.group}-{job.topic}-state"
    assert [(it["topic"], it["is_new"]) for it in told["topics"]] == [
        (progress, True),
        (f"{job.topic}.dlq", True),
        (changelog, True),
    ]
    grant(root, job, granted(told["rights"]))
    job.produce(["a", "bad", "b", "a"])
    caplog.set_level(logging.WARNING)
    with WorkerPool(DoesAll(), job.settings, [job.topic], workers=2):
        job.wait_for_lag(0)
        shown = json.loads(done(called(job.settings, "status", job.group, "--json")))
        assert shown["partitions"][0]["stable"] == 4
        for command in ("scale", "gaps"):
            done(called(job.settings, command, job.group, "--json"))
    assert "may not" not in caplog.text
    letters = visible(job, f"{job.topic}.dlq")
    assert [it.key() for it in letters] == [b"bad"]
    assert sorted(it.key() or b"" for it in visible(job, totals)) == [b"a", b"a", b"b"]
    assert {it.key() for it in records_of(as_root, changelog) if it.value()} >= {b"a", b"b"}
    again = json.loads(done(called({**as_root, **own}, *init)))
    assert [it["is_new"] for it in again["topics"]] == [False, False, False]
    assert {it["level"] for it in again["findings"]} == {"ok"}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_the_rights_that_init_lists_are_enough_for_what_people_decide(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, guarantee: str
) -> None:
    job, rights = provided(secured, root, group_id, guarantee)
    grant(root, job, rights)

    def decide(command: str, *words: str) -> str:
        return done(called(job.settings, command, job.group, *words))

    with one_waits_for_the_other(job) as (_, _, stuck, places):
        eventually(lambda: "Released." in decide("release", "--yes"))
        eventually(lambda: set(places[:2]) & set(outputs(job)))  # of the next owner
        stuck.open()
    is_mended = False

    def handler(record: Record) -> None:
        if record.key == b"bad" and not is_mended:
            raise RefusedError("no price")

    (_, first), (_, second) = job.produce(["bad", "bad"])
    with job.running(handler=handler) as pool:
        eventually(job.parked, lambda parked: parked == [first])
        assert "counts as done" in decide("skip", f"{job.topic}-0", str(first))
        eventually(job.parked, lambda parked: parked == [second])
        is_mended = True
        assert "is tried again" in decide("retry", "--all")
        pool.journal.wait(lambda rows: [row.offset for row in rows] == [second])
        job.wait_for_lag(0)
    job.wait_until_empty()
    assert "1 of 1 partition moved" in decide("reset", "--to", str(first))
    assert job.run_to_end().offsets == [first, second]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_the_same_rights_are_enough_for_policies_but_for_those_that_bind_other_groups(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, guarantee: str
) -> None:
    """With exactly once a topic's policy lies where other groups have their progress."""
    job, rights = provided(secured, root, group_id, guarantee)
    grant(root, job, rights)

    def policy(action: str, *words: str) -> Result:
        return called(job.settings, "policy", action, *words)

    of_group = "accept.individual.commit=false", "--group", job.group
    of_topic = "accept.range.fetch=false", "--topic", job.topic
    told = done(policy("set", *of_group))
    if guarantee == "exactly_once":
        shared = str(job.own["progress.topic"])
        create_topic(root, shared, config={"cleanup.policy": "compact"})
        refused = policy("set", *of_topic)
        assert f"topic {shared}: user ann may not write" in refused.output
        assert refused.exit_code == ExitCode.UNAUTHORIZED
        grant(root, job, [*rights, ("TOPIC", shared, "WRITE")])
    told += done(policy("set", *of_topic))
    grant(root, job, rights)
    assert done(policy("get")) == told


def provided(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, guarantee: str
) -> tuple[Job, list[Right]]:
    """A job of `ann` whose records may park, its topics as `init` makes them, and its rights."""
    own = {
        "on.failure": "park",
        "max.attempts": 1,
        "progress.topic": f"{group_id}-log",
        "progress.topic.partitions": 2,
        "processing.guarantee": guarantee,
        "output.topics": f"{group_id}-totals",
    }
    for name in (group_id, f"{group_id}-totals"):
        create_topic(root, name)
    as_root, as_ann = secured.client_config("root"), secured.client_config("ann")
    job = Job(as_root, root, f"{group_id}-group", group_id, own={**as_ann, **own})
    init = ["init", "--group", job.group, "--topics", job.topic, "--json"]
    return job, granted(json.loads(done(called({**as_root, **own}, *init)))["rights"])


def granted(rights: list[dict[str, Any]]) -> list[Right]:
    return [
        (it["resource"], it["name"] + ("*" if it["pattern"] == "prefixed" else ""), operation)
        for it in rights
        for operation in it["operations"]
    ]


def test_who_may_make_no_topic_is_told_which_and_the_rights_all_the_same(
    secured: EmbeddedBroker, root: AdminClient, group_id: str
) -> None:
    create_topic(root, group_id)
    own = {**secured.client_config("ann"), "progress.topic": f"{group_id}-log"}
    job = Job(secured.client_config("root"), root, f"{group_id}-group", group_id)
    grant(root, job, [("TOPIC", group_id, "DESCRIBE"), ("TOPIC", f"{group_id}-log", "DESCRIBE")])
    result = called(own, "init", "--group", job.group, "--topics", group_id)
    assert result.exit_code == ExitCode.UNAUTHORIZED, result.output
    assert f"progress topic {group_id}-log: topic {group_id}-log: user ann may not create" in (
        result.output
    )
    assert f"Read on group {job.group}" in result.output


def test_topics_that_differ_are_told_with_the_command_and_left_as_they_are(
    job: Callable[..., Job], history: str
) -> None:
    orders = job(partitions=3)
    group = f"{orders.group}-differs"
    changelog = f"{group}-{orders.topic}-state"
    alter = f"kafka-topics.sh --bootstrap-server {orders.client['bootstrap.servers']} --alter"
    create_topic(orders.admin, history, config={"cleanup.policy": "delete"})
    create_topic(orders.admin, changelog, config={"cleanup.policy": "compact"})
    settings = {**orders.client, "progress.topic": history, "progress.topic.partitions": 5}
    init = ["init", "--group", group, "--topics", orders.topic, "--keyed-state"]
    result = called(settings, *init)
    assert result.exit_code == ExitCode.CONFLICT, result.output
    lines = result.output.splitlines()
    for told, remedy in (
        (f"fail  progress topic {history}: cleanup.policy=delete", "cleanup.policy=compact"),
        (
            f"warn  progress topic {history}: has 1 partition, and progress.topic.partitions=5",
            "Set progress.topic.partitions=1",
        ),
        (
            f"fail  changelog {changelog}: has 1 partition, and its topic 3",
            f"{alter} --topic {changelog} --partitions 3",
        ),
    ):
        [at] = [number for number, line in enumerate(lines) if line.startswith(told)]
        assert remedy in lines[at + 1]
    again = called(settings, *init)
    assert again.output == result.output, "nothing was changed"
    orders.admin.delete_topics([changelog])[changelog].result(30)


# ---- gc ------------------------------------------------------------------------------------------


def test_gc_names_each_right_that_it_misses_and_changes_nothing_without_it(
    secured: EmbeddedBroker, root: AdminClient, group_id: str
) -> None:
    log = f"{group_id}-log"
    create_topic(root, group_id)
    as_root = secured.client_config("root")
    own = {"progress.topic": log, "progress.topic.partitions": 1}
    job = Job(as_root, root, f"{group_id}-group", group_id, own={**as_root, **own})
    job.produce(["a", "b"])
    job.run_to_end()
    before = len(records_of(as_root, log))
    stock.delete(root, job.group)
    ann = replace(job, own={**secured.client_config("ann"), **own})
    gc = ["gc", "--older-than", "0s"]
    rights: list[Right] = []
    for kind, name, operation, told in (
        ("TOPIC", log, "DESCRIBE", f"topic {log}: user ann may not read"),
        ("TOPIC", log, "READ", f"group {job.group}: user ann may not describe"),
        ("GROUP", job.group, "DESCRIBE", f"topic {log}: user ann may not write"),
        ("TOPIC", log, "WRITE", "the topic with id"),
        ("TOPIC", job.topic, "DESCRIBE", f"topic {job.topic}: user ann may not read"),
        ("TOPIC", job.topic, "READ", f"group {job.group}: user ann may not read"),
    ):
        rights.append((kind, name, operation))
        grant(root, job, rights)
        result = called({**ann.own}, *gc)
        assert told in result.output
        assert result.exit_code == ExitCode.UNAUTHORIZED
    assert len(records_of(as_root, log)) == before
    grant(root, job, [*rights, ("GROUP", job.group, "READ")])
    result = called({**ann.own}, *gc)
    assert f"group {job.group}: cleared" in result.output
    assert f"group {job.group}: user ann may not delete" in result.output
    assert "expire" in result.output
    eventually(lambda: len(records_of(as_root, log)), lambda count: count > before)
