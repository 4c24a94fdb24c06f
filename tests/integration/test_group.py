"""A group of real processes on a real broker: who holds what, and what a kill or a slow key costs.

Five members share three partitions. In every generation stock tools read what the members hold, and
the members tell it themselves. `tests.support.journal`, which knows nothing of the library, judges
what they process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, TopicPartition, decode_assignment, key_hash
from tests.support.brokers import MakeTopic
from tests.support.job import Job
from tests.support.journal import lost, out_of_order, repeated
from tests.support.members import Crew, Ranges, crew
from tests.support.pools import Gate
from tests.support.stock import (
    CommittedWatch,
    committed,
    described,
    ends,
    eventually,
    keys_of,
    produce,
    wait_for_lag,
)

pytestmark = pytest.mark.integration

LOW = KeyRange(0, KEY_HASH_MAX // 2 - 1)
HIGH = KeyRange(KEY_HASH_MAX // 2, KEY_HASH_MAX)
MakeJob = Callable[..., Job]
FIVE = ("M1", "M2", "M3", "M4", "M5")
COMMIT_MAX_RECORDS = 256


@pytest.fixture
def orders(topic: MakeTopic) -> str:
    return topic(3)


@pytest.fixture
def settings(bootstrap: str, group_id: str) -> dict[str, object]:
    return {"bootstrap.servers": bootstrap, "group.id": group_id, "session.timeout.ms": 6_000}


@pytest.fixture
def group(settings: dict[str, object], orders: str, tmp_path: Path) -> Iterator[Crew]:
    with crew(settings, orders, tmp_path) as it:
        yield it


def worked_example(topic: str) -> dict[str, Ranges]:
    """Round robin, five members on three partitions."""
    p0, p1, p2 = (TopicPartition(topic, number) for number in range(3))
    return {
        "M1": {p0: (LOW,)},
        "M2": {p1: (LOW,)},
        "M3": {p2: (WHOLE,)},
        "M4": {p0: (HIGH,)},
        "M5": {p1: (HIGH,)},
    }


class UserDataAdmin(KafkaAdminClient):  # type: ignore[misc] # kafka-python ships no types
    """Keeps the members' bytes, which `describe_groups` itself hands out as lossy text.

    Attributes:
        user_data: Client id → what the leader sent it.
    """

    user_data: Mapping[str, bytes]

    def _describe_groups_process_response(self, response: Any) -> Any:
        told = super()._describe_groups_process_response(response)
        self.user_data = {
            member.client_id: member.member_assignment.user_data
            for group in response.groups
            for member in group.members
        }
        return told


def held_by_name(bootstrap: str, group_id: str) -> dict[str, Ranges]:
    """Who holds what, as the coordinator tells anybody who asks."""
    admin = UserDataAdmin(bootstrap_servers=bootstrap)
    try:
        admin.describe_groups([group_id])
    finally:
        admin.close()
    return {name: dict(decode_assignment(data).ranges) for name, data in admin.user_data.items()}


def test_five_members_hold_the_ranges_of_the_worked_example(
    group: Crew, orders: str, bootstrap: str, group_id: str
) -> None:
    group.start(*FIVE, assignor="roundrobin")
    assert group.settle(*FIVE) == worked_example(orders)
    assert held_by_name(bootstrap, group_id) == worked_example(orders)


def test_stock_tools_see_the_members_their_partitions_and_the_lag(
    group: Crew, orders: str, settings: dict[str, object], group_id: str, admin: AdminClient
) -> None:
    produced = produce(
        {"bootstrap.servers": settings["bootstrap.servers"]}, orders, keys_of(300, 50)
    )
    group.start(*FIVE, assignor="roundrobin")
    group.settle(*FIVE)
    seen = described(admin, group_id)
    assert seen.state is ConsumerGroupState.STABLE
    assert {
        member.client_id: [
            (place.topic, place.partition) for place in member.assignment.topic_partitions
        ]
        for member in seen.members
    } == {
        name: [(tp.topic, tp.partition) for tp in held]
        for name, held in worked_example(orders).items()
    }
    group.journal.wait_for(produced)
    wait_for_lag(admin, group_id, orders, 3)
    assert {place: offset for place, (offset, _) in committed(admin, group_id).items()} == ends(
        admin, orders, 3
    )


def test_members_join_leave_and_are_killed_and_nothing_is_lost_or_out_of_order(
    group: Crew, orders: str, bootstrap: str, group_id: str, admin: AdminClient
) -> None:
    produced = produce({"bootstrap.servers": bootstrap}, orders, keys_of(5_000, 500))
    watch = CommittedWatch(admin, group_id)
    with watch():
        group.start(*FIVE, work_ms=10)
        group.settle(*FIVE)
        group.start("M6", work_ms=10)
        group.settle(*FIVE, "M6")
        group.members["M2"].stop()
        group.settle("M1", "M3", "M4", "M5", "M6")
        killed = group.members["M4"]
        # On a busy machine all may be done by now, and it must be killed at work.
        produced += produce({"bootstrap.servers": bootstrap}, orders, keys_of(1_000, 500))
        group.journal.wait(lambda rows: any(row.member == "M4" for row in rows[-50:]))
        killed.kill()
        left = group.settle("M1", "M3", "M5", "M6")
        rows = group.journal.wait_for(produced)
        wait_for_lag(admin, group_id, orders, 3)
    assert len(left) == 4
    assert group.check_generations([TopicPartition(orders, n) for n in range(3)]) >= 4
    assert lost(rows, produced) == set()
    assert out_of_order(rows) == []
    assert repeated(rows) <= 4 + COMMIT_MAX_RECORDS
    assert watch.setbacks() == []
    assert len(watch.seen) > 10


def test_a_slow_key_stops_only_itself_and_the_lag_that_stock_tools_see(job: MakeJob) -> None:
    orders, keys, slow = job(**{"mirror.interval.ms": 100}), keys_of(400, 40), Gate("key-0")
    places = orders.produce(keys)
    held = [place for place, key in zip(places, keys, strict=True) if key == "key-0"]
    others = sorted(set(places) - set(held))
    with orders.running(handler=slow, workers=2) as pool:
        slow.wait_for_arrival()
        rows = pool.journal.wait_for(others)
        assert sorted(row.place for row in rows) == others
        [(_, stable), *_] = held
        orders.wait_for_lag(400 - stable)
        slow.open()
        rows = pool.journal.wait_for(places)
        orders.wait_for_lag(0)
    assert out_of_order(rows) == []
    assert repeated(rows) == 0


def test_a_killed_members_ranges_resume_and_only_what_it_had_not_finished_comes_again(
    job: MakeJob, tmp_path: Path
) -> None:
    orders, keys = job(), keys_of(400, 40)
    places = orders.produce(keys)
    held = [place for place, key in zip(places, keys, strict=True) if key == "key-0"]
    others = sorted(set(places) - set(held))
    hashes = {place: key_hash(key.encode()) for place, key in zip(places, keys, strict=True)}

    def done() -> list[tuple[int, int]]:
        progress = orders.log.partition(orders.topic, 0).progress()
        return sorted(place for place in places if progress.is_done(hashes[place], place[1]))

    with crew(orders.settings, orders.topic, tmp_path) as group:
        group.start("M1", gate=["key-0"])
        group.journal.wait_for(others)
        eventually(done, lambda found: found == others)
        group.members["M1"].kill()
        group.start("M2")
        rows = group.journal.wait_for(places)
    assert sorted(row.place for row in rows if row.member == "M2") == sorted(held)
    assert out_of_order(rows) == []
