"""Topics by pattern: matches come and go under a living group."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer import Config, Context, CooperativeConsumer, Record, Worker, WorkerPool
from coop_consumer.cli.app import app
from coop_consumer.errors import ConfigError, ExitCode, TopicMissingError
from tests.support import stock
from tests.support.command import Command
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import eventually, keys_of
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

WATCHFUL = {"topics.watch.interval.ms": 1_000, "session.timeout.ms": 6_000}

Place = tuple[str, int, int]


class Noting(Worker):
    """Notes the place of each record."""

    def __init__(self, done: list[Place]) -> None:
        self.done = done

    def process(self, record: Record) -> None:
        self.done.append((record.topic, record.partition, record.offset))


class Counting(Noting):
    """The same, with keyed state."""

    keyed_state = True

    def setup(self, context: Context) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        state = self.context.state
        state.put(record, b"%d" % (int(state.get(record) or 0) + 1))
        super().process(record)


@dataclass(eq=False)
class Shop:
    """A group whose topics all begin alike.

    Attributes:
        prefix: Of its topics.
        done: What its members have processed.
    """

    client: dict[str, Any]
    admin: AdminClient
    group: str
    prefix: str
    done: list[Place] = field(default_factory=list)
    own: dict[str, object] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, object]:
        return {**self.client, "group.id": self.group, **WATCHFUL, **self.own}

    @property
    def pattern(self) -> str:
        return f"^{self.prefix}-.*"

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def open(self, name: str, partitions: int = 1) -> str:
        create_topic(self.admin, self.topic(name), partitions)
        return self.topic(name)

    def end(self, name: str) -> None:
        topic = self.topic(name)
        self.admin.delete_topics([topic])[topic].result(WAIT_S)

    def sell(self, name: str, count: int = 30) -> list[Place]:
        places = stock.produce(self.client, self.topic(name), keys_of(count, 10))
        return [(self.topic(name), *place) for place in places]

    def wait_for(self, *sold: list[Place]) -> None:
        wanted = {place for places in sold for place in places}
        eventually(lambda: wanted <= set(self.done))

    def pool(self, worker: type[Noting] = Noting, topics: list[str] | None = None) -> WorkerPool:
        return WorkerPool(worker(self.done), self.settings, topics or [self.pattern], workers=2)

    @contextmanager
    def members(self, count: int = 2, worker: type[Noting] = Noting) -> Iterator[list[WorkerPool]]:
        pools = [self.pool(worker) for _ in range(count)]
        with ExitStack() as running:
            for pool in pools:
                running.enter_context(pool)
            yield pools


def topics_of(*pools: WorkerPool) -> set[str]:
    return {tp.topic for pool in pools for tp in pool.assignment()}


@pytest.fixture
def shop(bootstrap: str, admin: AdminClient, group_id: str) -> Iterator[Shop]:
    made = Shop({"bootstrap.servers": bootstrap}, admin, f"{group_id}-group", group_id)
    yield made
    listed = admin.list_topics(timeout=WAIT_S).topics
    left = [name for name in listed if name.startswith((group_id, f"{made.group}-"))]
    for future in admin.delete_topics(left).values() if left else ():
        future.result(WAIT_S)


def no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    ours = [it for it in caplog.records if it.name.startswith("coop_consumer")]
    assert [it.message for it in ours if it.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_matches_come_and_go_under_a_living_group(
    shop: Shop, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    shop.own["processing.guarantee"] = guarantee
    shop.open("eu", 2)
    sold = [shop.sell("eu")]
    with shop.members() as pools:
        shop.wait_for(*sold)
        shop.open("us", 2)
        sold.append(shop.sell("us"))
        shop.wait_for(*sold)
        eventually(lambda: topics_of(*pools) == {shop.topic("eu"), shop.topic("us")})
        shop.end("us")
        eventually(lambda: topics_of(*pools) == {shop.topic("eu")})
        sold.append(shop.sell("eu"))
        shop.wait_for(*sold)
        shop.open("us", 1)  # another topic of the name: its first record is offset 0 again
        before = len(shop.done)
        again = shop.sell("us", 20)
        eventually(lambda: set(again) <= set(shop.done[before:]))
        stock.wait_for_lag(shop.admin, shop.group, shop.topic("us"), 1)
    assert (
        f"topic {shop.topic('us')}: matches {shop.pattern}, and is consumed from now on"
        in caplog.text
    )
    assert (
        f"topic {shop.topic('us')}: does not exist any more, and is consumed no more" in caplog.text
    )
    no_trouble(caplog)


def test_a_group_waits_for_its_first_match_and_outlives_its_last_one(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with shop.members() as pools:
        eventually(lambda: f"{shop.pattern} matches no topic yet" in caplog.text)
        for _ in range(2):
            shop.open("eu", 2)
            before = len(shop.done)
            sold = shop.sell("eu")
            eventually(lambda: set(sold) <= set(shop.done[before:]))  # noqa: B023 - at once
            shop.end("eu")
            eventually(lambda: not topics_of(*pools))
    no_trouble(caplog)


def test_what_the_group_writes_itself_is_no_match(shop: Shop) -> None:
    shop.own |= {"output.topics": shop.topic("totals"), "on.failure": "dead_letter"}
    for name in ("eu", "totals", "eu.dlq"):
        shop.open(name)
    with shop.members(1) as (pool,):
        shop.wait_for(shop.sell("eu"))
        shop.sell("totals")
        shop.sell("eu.dlq")
        shop.open("us")
        shop.wait_for(shop.sell("us"))
        assert topics_of(pool) == {shop.topic("eu"), shop.topic("us")}
    assert {topic for topic, _, _ in shop.done} == {shop.topic("eu"), shop.topic("us")}


def test_keyed_state_follows_what_matches(shop: Shop, tmp_path: object) -> None:
    pytest.importorskip("rocksdict")
    shop.own["state.dir"] = str(tmp_path)
    shop.open("eu", 2)
    with shop.members(1, Counting):
        sold = [shop.sell("eu")]
        shop.wait_for(*sold)
        shop.open("us", 2)
        sold.append(shop.sell("us"))
        shop.wait_for(*sold)


def test_a_consumer_changes_from_names_to_a_pattern_and_back(shop: Shop) -> None:
    shop.open("eu")
    shop.open("us")
    with CooperativeConsumer(shop.settings) as consumer:

        def take(sold: list[Place]) -> None:
            left = set(sold)
            while left:
                record = consumer.poll(WAIT_S)
                assert record is not None, left
                left.discard((record.topic, record.partition, record.offset))
                consumer.done(record)

        consumer.subscribe([shop.topic("eu")])
        take(shop.sell("eu"))
        consumer.subscribe([shop.pattern])
        take(shop.sell("us"))
        shop.open("asia")
        take(shop.sell("asia"))
        consumer.subscribe([shop.topic("us")])
        eventually(
            lambda: (
                (consumer.poll(0.1), set(consumer.assignment()))[1]
                == {TopicPartition(shop.topic("us"), 0)}
            )
        )
        take(shop.sell("us"))


def test_a_named_topic_that_is_missing_stays_an_error_beside_a_pattern(shop: Shop) -> None:
    shop.open("eu")
    pool = shop.pool(topics=[shop.pattern, f"{shop.prefix}.missing"])
    with pytest.raises(TopicMissingError, match="missing"):
        pool.start()
    with pytest.raises(ConfigError, match="is no regular expression"):
        shop.pool(topics=["^("])


@pytest.mark.usefixtures("logging_as_it_was")
def test_status_and_doctor_show_the_pattern(shop: Shop) -> None:
    shop.open("eu")
    with shop.members(1):
        shop.wait_for(shop.sell("eu"))
        environment = {"COOP_BOOTSTRAP": str(shop.client["bootstrap.servers"]), "COLUMNS": "200"}

        def told(*words: str) -> str:
            result = CliRunner().invoke(app, words, env=environment)
            assert result.exit_code == ExitCode.OK, result.output
            return result.stdout

        assert json.loads(told("status", shop.group, "--json"))["patterns"] == [shop.pattern]
        assert f"topics by pattern: {shop.pattern}" in told("status", shop.group)
        found = told("doctor", "--topics", f"{shop.pattern},{shop.topic('eu')}")
        assert f"topics {shop.pattern}: matches no topic" in found, "the only one is named"
        found = told("doctor", "--topics", shop.pattern)
        assert f"topics {shop.pattern}: matches {shop.topic('eu')}" in found
        assert f"topic {shop.topic('eu')}: 1 partition, replication" in found


def test_the_command_takes_patterns(shop: Shop, started: Callable[..., Command]) -> None:
    shop.open("eu")
    job = Job(shop.client, shop.admin, shop.group, shop.pattern, own=dict(WATCHFUL))
    command = started(job, "Led")
    command.wait_for(f"topics {shop.pattern}")
    shop.sell("eu", 1)
    command.wait_for("begin 0")
    command.let_all_go()


def test_until_caught_up_counts_what_matches(shop: Shop) -> None:
    shop.open("eu", 2)
    sold = shop.sell("eu")
    pool = WorkerPool(
        Noting(shop.done), shop.settings, [shop.pattern], workers=2, until_caught_up=True
    )
    pool.start()
    assert pool.wait(WAIT_S)
    assert set(shop.done) == set(sold)
    assert replace(Config.from_dict(shop.settings), topics=shop.pattern).topic_names
