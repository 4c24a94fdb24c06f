"""Policies of topics and groups: set by an operator, followed by whoever runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest
from click.testing import CliRunner, Result

from assignors import WHOLE, TopicPartition
from coop_consumer import CooperativeConsumer
from coop_consumer.admin.inspect import Inspector
from coop_consumer.cli.app import app
from coop_consumer.config import Config
from coop_consumer.core.policies import Policies
from coop_consumer.errors import (
    ExitCode,
    IndividualCommitNotAllowedError,
    TopicRangeFetchNotAllowedError,
)
from tests.support.job import Job
from tests.support.stock import eventually, keys_of

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
WATCHFUL = {"topics.watch.interval.ms": 1_000}
HALVES = WHOLE.parts(2)


def policy(job: Job, *words: str) -> Result:
    """`coop-consumer policy ...` for the job's progress topic."""
    settings = [("--config", f"{name}={value}") for name, value in job.own.items()]
    places = ["--bootstrap", str(job.client["bootstrap.servers"])]
    options = [word for pair in settings for word in pair]
    return CliRunner().invoke(app, ["policy", *words, *places, *options])


def shares(job: Job) -> tuple[int, list[int]]:
    """How many members there are, and how many have a part of each partition."""
    with Inspector(Config.from_dict(job.settings)) as inspector:
        members = inspector.group.described().members
    places = [TopicPartition(job.topic, number) for number in range(job.partitions)]
    return len(members), [sum(place in member.ranges for member in members) for place in places]


def wait_for(job: Job, members: int, owners: int) -> None:
    """Wait until the topic's one partition has so many owners."""
    eventually(partial(shares, job), lambda found: found == (members, [owners]))


def test_a_living_group_follows_a_topics_policy_and_follows_it_back(
    job: MakeJob, history: str
) -> None:
    orders = job(**WATCHFUL, **{"progress.topic": history})
    of_topic = ("--topic", orders.topic)
    with orders.running() as one, orders.running(journal=one.journal):
        wait_for(orders, members=2, owners=2)
        told = policy(orders, "set", "accept.range.fetch=false", *of_topic)
        assert told.stdout == f"topic {orders.topic}: accept.range.fetch=false\n"
        wait_for(orders, members=2, owners=1)
        with Inspector(Config.from_dict(orders.settings)) as inspector:
            assert inspector.see().policies == Policies(frozenset({orders.topic}))
        one.journal.wait_for(orders.produce(keys_of(30, 10)))
        policy(orders, "set", "accept.range.fetch=true", *of_topic)
        wait_for(orders, members=2, owners=2)
        one.journal.wait_for(orders.produce(keys_of(30, 10)))


def test_a_groups_policy_is_followed_by_those_who_come_later(job: MakeJob, history: str) -> None:
    orders = job(**{"progress.topic": history})
    policy(orders, "set", "accept.individual.commit=false", "--group", orders.group)
    with orders.running(), orders.running():
        wait_for(orders, members=2, owners=1)


def test_ranges_of_ones_own_are_refused_where_a_policy_forbids_them(
    job: MakeJob, history: str
) -> None:
    orders = job(**{"progress.topic": history})
    place = TopicPartition(orders.topic, 0)
    policy(orders, "set", "accept.range.fetch=false", "--topic", orders.topic)
    with CooperativeConsumer(orders.settings) as consumer:
        with pytest.raises(TopicRangeFetchNotAllowedError, match=r"\(89\)"):
            consumer.assign({place: HALVES[:1]})
        policy(orders, "set", "accept.range.fetch=true", "--topic", orders.topic)
        policy(orders, "set", "accept.individual.commit=false", "--group", orders.group)
        with pytest.raises(IndividualCommitNotAllowedError, match=r"\(88\)"):
            consumer.assign({place: HALVES[:1]})
        consumer.assign({place: []})
        policy(orders, "set", "accept.individual.commit=true", "--group", orders.group)
        consumer.assign({place: HALVES[:1]})


def test_policies_are_listed_and_asked_for_by_name(job: MakeJob, history: str) -> None:
    orders = job(**{"progress.topic": history})
    policy(orders, "set", "accept.range.fetch=false", "--topic", orders.topic)
    policy(orders, "set", "accept.individual.commit=false", "--group", "billing")
    assert policy(orders, "get").stdout.splitlines() == [
        "group billing: accept.individual.commit=false",
        f"topic {orders.topic}: accept.range.fetch=false",
    ]
    told = json.loads(policy(orders, "get", "--group", "stock", "--json").stdout)
    assert told == {
        "policies": [
            {
                "scope": "group",
                "name": "stock",
                "policy": "accept.individual.commit",
                "accept": True,
            }
        ]
    }


def test_before_there_is_a_progress_topic_nothing_is_forbidden(job: MakeJob, history: str) -> None:
    told = policy(job(**{"progress.topic": history}), "get")
    assert told.stdout == "no policies: every topic and group may share\n"


@pytest.mark.parametrize(
    ("words", "problem", "code"),
    [
        (["set", "accept.range.fetch=false"], "are both given, or both missing", ExitCode.USAGE),
        (["set", "accept.range.fetch=no", "-t", "t"], "neither true nor false", ExitCode.USAGE),
        (["set", "accept.range.fetch=false", "-g", "g"], "no policy of a group", ExitCode.USAGE),
        (["set", "accept.range.fetch=false", "-t", "no-such"], "not exist", ExitCode.MISSING),
        (["get", "-t", "t", "-g", "g"], "are both given, or both missing", ExitCode.USAGE),
    ],
)
def test_what_is_no_policy_is_refused(
    job: MakeJob, history: str, words: list[str], problem: str, code: ExitCode
) -> None:
    told = policy(job(**{"progress.topic": history}), *words)
    assert problem in told.output
    assert told.exit_code == code
