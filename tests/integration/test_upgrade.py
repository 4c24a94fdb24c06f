"""Rolling upgrades: a live plain group is replaced by our members one by one, and back again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from assignors import KEY_HASH_MAX, WHOLE, key_hash
from coop_consumer import Record
from coop_consumer.admin.checkup import check_up
from coop_consumer.admin.inspect import Inspector
from coop_consumer.config import Config
from coop_consumer.status.finding import Severity
from tests.support import stock
from tests.support.job import Job
from tests.support.journal import (
    WAIT_S,
    Journal,
    Row,
    begun_too_early,
    came_again,
    lost,
    out_of_order,
)
from tests.support.members import crew
from tests.support.plain import PLAIN_NAMES, Feed, JavaConsumer, PlainConsumer
from tests.support.pools import Pool

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

LEAST_SHARE = 0.25
"""Of the hash space. Three members on two partitions get a third of one at least. The keys here lie
closer to each other than that.
"""


def work(_: Record) -> None:
    time.sleep(0.002)  # stands for the work of a real handler


def owner_was_behind(row: Row, ours: list[Row]) -> bool:
    """Whether the owner of some keys had not come as far as this record when ours had left.

    Whoever has not fetched an offset does not know whose record it is. So the offset is not done
    for the keys of this owner, though another of our members has finished its record. The owner's
    share shows in the keys: nothing at or above the offset is finished there.
    """
    finished = {
        key_hash(it.key.encode())
        for it in ours
        if it.partition == row.partition
        and it.offset >= row.offset
        and it.ended_ns < row.started_ns
    }
    edges = sorted({0, KEY_HASH_MAX, *finished})
    return max(high - low for low, high in pairwise(edges)) > KEY_HASH_MAX * LEAST_SHARE


class Roll:
    """One group whose members are exchanged while records come."""

    def __init__(self, job: Job, strategy: str, until_end: ExitStack) -> None:
        self.job = job
        self.strategy = strategy
        self.journal = Journal()
        self._until_end = until_end

    def plain(self) -> PlainConsumer:
        consumer = PlainConsumer(self.job, self.strategy, self.journal)
        self._until_end.callback(consumer.stop)
        return consumer

    def ours(self, **settings: object) -> Pool:
        own = {"upgrade.from": self.strategy, **settings}
        pool = Pool(
            {**self.job.settings, **own}, self.job.topic, journal=self.journal, handler=work
        )
        pool.pool.start()
        self._until_end.callback(pool.pool.wait, WAIT_S)  # its topic is deleted after that
        self._until_end.callback(pool.pool.close)
        return pool

    def java(self, log: Path) -> JavaConsumer:
        consumer = JavaConsumer(self.job, self.strategy, self.journal, log)
        self._until_end.callback(consumer.stop)
        return consumer

    def settle(self, members: int, protocol: str) -> None:
        """Wait until so many members share a generation of this protocol."""

        def seen() -> tuple[str, int, str]:
            found = stock.described(self.job.admin, self.job.group)
            return found.state.name, len(found.members), found.partition_assignor

        stock.eventually(seen, lambda it: it == ("STABLE", members, protocol))

    def goes_on(self) -> None:
        """Wait until records written from now on have been processed."""
        until = stock.ends(self.job.admin, self.job.topic, self.job.partitions)
        wanted = {(number, end - 1) for (_, number), end in until.items() if end}
        self.journal.wait_for(wanted)

    def judge(self, feed: Feed) -> None:
        """Nothing is lost, and each key is in order."""
        self.journal.wait_for(feed.places)
        rows = self.journal.rows
        assert lost(rows, feed.places) == set()
        assert out_of_order(rows) == []

    def judge_repeats(self) -> None:
        """A record that ours finished comes again only behind a gap: plain members know no gaps.

        A plain member commits by itself. If one in Java gives up a partition by the cooperative
        protocol, its commit omits what it has polled since it joined.
        """
        ours = [row for row in self.journal.rows if row.member not in PLAIN_NAMES]
        assert came_again(ours) == []
        early = begun_too_early(self.journal.rows, PLAIN_NAMES)
        assert [row for row in early if not owner_was_behind(row, ours)] == []


@pytest.fixture
def roll(job: MakeJob) -> Iterator[Callable[[str], Roll]]:
    with ExitStack() as until_end:
        yield lambda strategy: Roll(job(partitions=2), strategy, until_end)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_live_plain_group_is_replaced_one_by_one_and_comes_back(
    roll: Callable[[str], Roll], strategy: str
) -> None:
    rolled = roll(strategy)
    feed = Feed(rolled.job, keys=40, batch=20)
    with feed():
        plain = [rolled.plain() for _ in range(3)]
        rolled.settle(3, strategy)
        ours = []
        for number, consumer in enumerate(plain):
            consumer.stop()
            ours.append(rolled.ours())
            rolled.settle(3, strategy if number < 2 else "keyrange")
            rolled.goes_on()
        for pool in ours:
            pool.pool.close()
            rolled.plain()
            rolled.settle(3, strategy)
            rolled.goes_on()
    rolled.judge(feed)
    rolled.judge_repeats()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_java_consumer_is_replaced_and_comes_back(
    roll: Callable[[str], Roll], strategy: str, tmp_path: Path
) -> None:
    rolled = roll(strategy)
    feed = Feed(rolled.job, keys=40, batch=20)
    with feed():
        java = rolled.java(tmp_path / "first.log")
        rolled.settle(1, strategy)
        rolled.goes_on()
        ours = []  # under a leader in Java
        for members in (2, 3):
            ours.append(rolled.ours())
            rolled.settle(members, strategy)
            rolled.goes_on()
        java.stop()
        rolled.settle(2, "keyrange")
        rolled.goes_on()
        rolled.java(tmp_path / "second.log")  # under a leader of ours
        rolled.settle(3, strategy)
        rolled.goes_on()
        for pool in ours:
            pool.pool.close()
        rolled.settle(1, strategy)
        rolled.goes_on()
    rolled.judge(feed)
    rolled.judge_repeats()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_that_is_killed_is_taken_over_by_a_plain_one_and_comes_back(
    roll: Callable[[str], Roll], strategy: str, tmp_path: Path
) -> None:
    rolled = roll(strategy)
    feed = Feed(rolled.job, keys=40, batch=20)
    settings = {**rolled.job.settings, "upgrade.from": strategy}
    with crew(settings, rolled.job.topic, tmp_path) as members, feed():
        rolled.journal = members.journal
        plain = rolled.plain()
        members.start("first", work_ms=2)
        rolled.settle(2, strategy)
        rolled.goes_on()
        members.members["first"].kill()
        rolled.settle(1, strategy)
        rolled.goes_on()
        members.start("second", work_ms=2)
        rolled.settle(2, strategy)
        rolled.goes_on()
        plain.stop()
        rolled.settle(1, "keyrange")
        rolled.goes_on()
        members.members["second"].stop()
        rolled.plain()
        rolled.settle(1, strategy)
        rolled.goes_on()
    rolled.judge(feed)


def test_doctor_takes_plain_members_for_a_fault_unless_they_are_to_be_replaced(
    roll: Callable[[str], Roll],
) -> None:
    rolled = roll("range")
    rolled.plain()
    rolled.settle(1, "range")

    def fault(**settings: object) -> bool:
        config = Config.from_dict({**rolled.job.settings, **settings})
        found = check_up(config, [rolled.job.topic], has_group=True)
        group = next(it for it in found if it.check == f"group {rolled.job.group}")
        return group.level is Severity.FAIL

    assert fault()
    assert not fault(**{"upgrade.from": "range"})
    assert fault(**{"upgrade.from": "cooperative-sticky"})


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_all_are_described_as_owners_of_whole_partitions_while_a_plain_member_is_left(
    roll: Callable[[str], Roll], strategy: str
) -> None:
    rolled = roll(strategy)
    rolled.plain()
    rolled.ours()
    with Inspector(Config.from_dict(rolled.job.settings)) as inspector:
        members = stock.eventually(
            lambda: inspector.group.described().members,
            lambda found: len(found) == 2 and all(it.ranges for it in found),
        )
    partitions = sorted(tp.partition for it in members for tp in it.ranges)
    assert partitions == [0, 1]
    assert {ranges for it in members for ranges in it.ranges.values()} == {(WHOLE,)}
    assert {it.note for it in members} == {""}
