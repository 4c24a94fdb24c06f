"""Many groups are watched by few clients: threads and files do not grow as groups do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.admin.group_watch import GroupWatch, Watches
from coop_consumer.admin.look_clients import SETS, SharedClients
from coop_consumer.cli.limits import SET_FILES, SET_THREADS
from coop_consumer.config import Config
from tests.support import stock
from tests.support.brokers import MakeTopic
from tests.support.job import Job
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

TASKS, FILES = Path("/proc/self/task"), Path("/proc/self/fd")
GROUPS, WIDE = 20, 100


@pytest.fixture
def others(admin: AdminClient, topic: MakeTopic, group_id: str) -> Iterator[list[str]]:
    """Groups without members on a topic of many partitions; gone after the test."""
    wide = topic(WIDE)
    names = [f"{group_id}-{number:02}" for number in range(GROUPS - 2)]
    for name in names:
        stock.alter(admin, name, wide, dict.fromkeys(range(WIDE), 0))
    yield names
    for asked in admin.delete_consumer_groups(names[1:]).values():
        asked.result(stock.WAIT_S)


def times(watches: Watches) -> set[float]:
    """When the last looks were."""
    return {it.at_s for it in watches.looks}


@pytest.mark.skipif(not TASKS.exists(), reason="only Linux counts them there")
def test_the_looks_at_many_groups_take_turns_with_few_clients(
    job: Callable[..., Job], others: list[str], admin: AdminClient
) -> None:
    its = job(1)
    once = replace(its, group=f"{its.group}-once", own={"processing.guarantee": "exactly_once"})
    its.produce(["a", "b", "c"])
    for it in (its, once):
        it.run_to_end()
    its.produce(["d"])
    watched: dict[str, GroupWatch] = {}

    def watch(group: str, clients: SharedClients) -> GroupWatch:
        config = Config.from_dict({**its.client, "group.id": group})
        watched[group] = GroupWatch(config, (), 0.1, clients=clients)
        return watched[group]

    watches = Watches(watch)
    threads, files = len(os.listdir(TASKS)), len(os.listdir(FILES))
    most = [0, 0]

    def all_are_seen() -> bool:
        now = len(os.listdir(TASKS)) - threads, len(os.listdir(FILES)) - files
        most[:] = map(max, most, now)
        return len([it for it in watches.looks if it.status is not None]) == GROUPS

    watches.begin([its.group, once.group, *others])
    try:
        eventually(all_are_seen)
        for _ in range(2):  # each set of clients has been with several groups by then
            before = times(watches)
            eventually(lambda before=before: all_are_seen() and before.isdisjoint(times(watches)))
        seen = {it.group: it.status for it in watches.looks if it.status is not None}
        for it in (its, once):
            assert [(at.stable, at.end) for at in seen[it.group].partitions] == [(3, 4)]
        assert seen[once.group].guarantee == "exactly_once"
        assert [len(seen[name].partitions) for name in others] == [WIDE] * len(others)
        assert most[0] <= SETS * SET_THREADS + GROUPS, "as limits.py promises"
        assert most[1] <= SETS * SET_FILES

        stock.delete(admin, others[0])
        eventually(lambda: watched[others[0]].gone_looks >= 3)
        assert watched[others[1]].gone_looks == 0
    finally:
        watches.close()
