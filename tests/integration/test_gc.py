"""`groups` and `gc` on a real broker: what is forgotten goes, what lives or wakes up stays.

Each test has a progress topic of its own: `gc` looks at all groups of one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from click.testing import Result

from coop_consumer import Config
from coop_consumer.admin.collector import Collected, Collector, CollectOutcome
from coop_consumer.errors import ExitCode
from coop_consumer.kafka.topics import Topics
from offsets import BaseKey, BaseRecord, encode_key, encode_value
from tests.support import stock
from tests.support.called import command, done
from tests.support.job import Job
from tests.support.pools import Pool, refuse
from tests.support.stock import eventually

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("logging_as_it_was")]

KEYS = ["a", "bad", "c", "d", "e"]
FAILED = KEYS.index("bad")
PARKS = {"on.failure": "park", "max.attempts": 1, "progress.topic.partitions": 2}


@pytest.fixture
def orders(job: Callable[..., Job], history: str) -> Job:
    """A job whose groups have a progress topic that no other test's groups have."""
    return job(**PARKS, **{"progress.topic": history})


def called(job: Job, name: str, *words: str) -> Result:
    topic = f"progress.topic={job.own['progress.topic']}"
    return command(job, name, "--config", topic, *words)


def in_json(job: Job, name: str, *words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(done(called(job, name, "--json", *words)))
    return told


def states(job: Job) -> dict[str, str]:
    return {it["group"]: it["state"] for it in in_json(job, "groups")["groups"]}


def leave_a_gap(job: Job) -> None:
    """All is done but one record, which is parked; then the group has no members."""
    with job.running(handler=refuse("bad")) as pool:
        pool.journal.wait(lambda rows: len(rows) == len(KEYS) - 1)
        eventually(job.parked, lambda offsets: offsets == [FAILED])
    job.wait_until_empty()


def goes_on(job: Job, *offsets: int) -> None:
    """Assert what a member of the group does now, and in this order; one record is parked."""
    with job.running(handler=refuse("bad"), workers=1) as pool:
        rows = pool.journal.wait(lambda rows: len(rows) >= len(offsets))
        assert [row.offset for row in rows] == list(offsets)
        eventually(job.parked, lambda found: found == [FAILED])
    job.wait_until_empty()


def forget(job: Job) -> None:
    """As Kafka does some days after the last member."""
    stock.delete(job.admin, job.group)


def assert_gaps_of_a_partition_are_told(job: Job) -> None:
    """By `gaps GROUP TOPIC-PARTITION`: all of one that is there, and no other one."""
    place = f"{job.topic}-0"
    told = done(called(job, "gaps", job.group, place)).splitlines()
    assert told[:3] == [
        f"{place}: stable {FAILED}, end {len(KEYS)}, epoch 1",
        "  done above it  [2-4]",
        "  left           [1-1]",
    ]
    refused = called(job, "gaps", job.group, f"{job.topic}-1")
    assert refused.exit_code == ExitCode.MISSING
    assert f"{job.topic}-1: does not exist, the topic has no other than 0." in refused.stderr


def test_gc_clears_what_forgotten_groups_have_left_and_spares_all_others(orders: Job) -> None:
    orders.produce(KEYS)
    asleep = replace(orders, group=f"{orders.group}-asleep")
    alive = replace(orders, group=f"{orders.group}-alive")
    once = replace(
        orders,
        group=f"{orders.group}-once",
        own={**orders.own, "processing.guarantee": "exactly_once"},
    )
    for it in (orders, asleep, once):
        leave_a_gap(it)
        [found] = json.loads(done(called(orders, "gaps", "--json", it.group)))["partitions"]
        assert (found["stable"], found["gap_ranges"]) == (FAILED, [[2, 4]])
    assert_gaps_of_a_partition_are_told(orders)
    forget(orders)
    forget(once)
    with alive.running(handler=refuse("bad")) as pool:
        pool.journal.wait(lambda rows: len(rows) == len(KEYS) - 1)
        expected = {
            orders.group: "Forgotten",
            once.group: "Forgotten",
            asleep.group: "Empty",
            alive.group: "Stable",
        }
        eventually(lambda: states(orders), lambda found: found == expected)
        assert in_json(orders, "gc")["groups"] == [], "all of them have written lately"
        assert "dry run: 0 groups would be cleared" in done(called(orders, "gc", "--dry-run"))
        told = done(called(orders, "gc", "--older-than", "0s", "--dry-run"))
        assert "dry run: 2 groups would be cleared, and nothing was changed" in told
        found = in_json(orders, "gc", "--older-than", "0s", "--dry-run")["groups"]
        assert {(it["group"], it["outcome"]) for it in found} == {
            (orders.group, "found"),
            (once.group, "found"),
        }
        assert states(orders)[orders.group] == "Forgotten"

        cleared = in_json(orders, "gc", "--older-than", "0s")["groups"]
        assert {(it["group"], it["outcome"]) for it in cleared} == {
            (orders.group, "cleared"),
            (once.group, "cleared"),
        }
        own_topic = f"{orders.own['progress.topic']}-{once.group}"
        assert [it["left_topics"] for it in cleared] == [[], [own_topic]]
        assert states(orders)[orders.group] == states(orders)[once.group] == "Cleared"
        orders.produce(["later"])
        pool.journal.wait(lambda rows: len(rows) == len(KEYS))
    assert orders.committed() == {}, "Kafka knows it as little as before"
    goes_on(asleep, 5)
    goes_on(orders, 0, 2, 3, 4, 5)


class Disturbed(Collector):
    """A collector beside which something happens between two of its steps."""

    before: Callable[[], None] = staticmethod(lambda: None)
    behind: Callable[[], None] = staticmethod(lambda: None)

    def _retire(self, *arguments: Any) -> None:
        self.before()
        super()._retire(*arguments)

    def _look_again(self, *arguments: Any) -> None:
        self.behind()
        super()._look_again(*arguments)


def collected(job: Job, **moments: Callable[[], None]) -> Collected:
    """What `gc` does with the only group that is forgotten, while that wakes up."""
    settings = {**job.settings, "group.id": "gc"}
    with Disturbed(Config.from_dict(settings), time.time_ns() // 1_000_000 + 60_000) as collector:
        for name, moment in moments.items():
            setattr(collector, name, moment)
        found, refused = collector.found()
        assert [it.group for it in found] == [job.group]
        assert not refused
        [result] = collector.collect(found)
        return result


@pytest.fixture
def waking(orders: Job) -> Iterator[Pool]:
    """A member that is to be started by `begin`."""
    pool = Pool(orders.settings, orders.topic, handler=refuse("bad"), workers=1)
    yield pool
    pool.pool.close()


def begin(pool: Pool) -> None:
    pool.pool.start()
    pool.wait_for_ranges()


def test_a_group_that_wakes_up_before_the_coordinator_is_told_loses_nothing(
    orders: Job, waking: Pool
) -> None:
    orders.produce(KEYS)
    leave_a_gap(orders)
    forget(orders)
    result = collected(orders, before=lambda: begin(waking))
    assert result.outcome is CollectOutcome.WOKEN
    orders.produce(["later"])
    waking.journal.wait(lambda rows: [row.offset for row in rows] == [5])
    assert orders.parked() == [FAILED], "nothing of what it knew"


def test_a_group_that_wakes_up_behind_that_passes_no_record_over(orders: Job, waking: Pool) -> None:
    orders.produce(KEYS)
    leave_a_gap(orders)
    forget(orders)
    result = collected(orders, behind=lambda: begin(waking))
    assert result.outcome is CollectOutcome.WOKEN
    assert "stable offsets" in result.detail
    waking.journal.wait(lambda rows: [row.offset for row in rows] == [2, 3, 4])
    eventually(orders.parked, lambda offsets: offsets == [FAILED])


def test_a_whole_life_between_look_and_commit_is_not_overruled(orders: Job) -> None:
    orders.produce(KEYS)
    leave_a_gap(orders)
    forget(orders)

    def whole_life() -> None:
        orders.produce(["later"])
        goes_on(orders, 5)
        forget(orders)

    assert collected(orders, before=whole_life).outcome is CollectOutcome.WOKEN
    orders.produce(["last"])
    goes_on(orders, 6)


def test_what_a_killed_gc_has_left_is_found_and_finished(orders: Job) -> None:
    config = Config.from_dict({**orders.settings, "group.id": "gc"})
    Topics(config).progress_topic()
    key = BaseKey(orders.group, stock.topic_id(orders.admin, orders.topic), 0, 1, "long ago")
    number = orders.log.number_of(orders.topic, 0)
    orders.log.write(number, encode_key(key), encode_value(BaseRecord(1, 0)))

    def killed() -> None:
        raise KeyboardInterrupt

    class Killed(Disturbed):
        def _take_back(self, *_: Any) -> None:
            """Nobody gets to that."""

    with Killed(config, time.time_ns() // 1_000_000 + 60_000) as collector:
        collector.behind = killed
        with pytest.raises(KeyboardInterrupt):
            list(collector.collect(collector.found()[0]))
    assert states(orders) == {orders.group: "Empty"}
    [cleared] = in_json(orders, "gc", "--older-than", "0s")["groups"]
    assert (cleared["outcome"], cleared["keys"]) == ("cleared", 1)
    assert states(orders) == {orders.group: "Cleared"}


def test_a_progress_topic_that_is_not_there_holds_no_groups(orders: Job) -> None:
    assert in_json(orders, "groups")["groups"] == []
    assert "0 groups cleared" in done(called(orders, "gc"))


def test_a_length_of_time_without_a_unit_is_refused(orders: Job) -> None:
    result = called(orders, "gc", "--older-than", "30")
    assert result.exit_code == ExitCode.USAGE
    assert "as in 30d" in result.output
