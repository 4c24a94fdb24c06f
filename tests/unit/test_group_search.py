"""Groups of this library are found, with members and without; what may not be seen is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Place

from coop_consumer.admin import group_search
from coop_consumer.admin.group_search import GroupSearch
from coop_consumer.config import Config
from coop_consumer.errors import AuthorizationError, BrokerUnreachableError
from coop_consumer.kafka import group_offsets
from coop_consumer.planning import PROTOCOL
from offsets import Committed, Tag

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "nobody", "client.id": "ann"})
OURS = Committed.mirror(7, 3, bytes(16)).metadata
OURS_ONCE = Committed.mirror(7, 3, bytes(16), Tag.EXACTLY_ONCE).metadata
RETIRED = Committed.retired(7, 3, bytes(16), Tag.AT_LEAST_ONCE, 812).metadata
NOT_OURS = ("", "set by a reset tool", "coop", "coop:x", "cooperative:3:0", RETIRED)
DENIED = kafka_errors.GroupAuthorizationFailedError
AWAY = kafka_errors.CoordinatorLoadInProgressError


@dataclass
class Group:
    """A group as its coordinator knows it."""

    state: str = "Stable"
    protocol: str = ""
    metadata: tuple[str, ...] = ()
    kind: str = "Classic"
    error: type[kafka_errors.KafkaError] = kafka_errors.NoError


@dataclass
class Cluster:
    """Coordinators that answer at once, and count what they are asked about each group."""

    groups: dict[str, Group] = field(default_factory=dict)
    tells_states: bool = True
    unlisted: Exception | None = None
    asked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._manager = SimpleNamespace(
            send=self._describe, cluster=SimpleNamespace(_coordinators={})
        )

    def begin(self, ask: Any) -> None:
        asyncio.run(ask())

    def close(self) -> None:
        return

    async def pause(self, _: float) -> None:
        raise AssertionError("a search waits for no coordinator")

    async def _async_list_groups(self) -> list[dict[str, str]]:
        if self.unlisted is not None:
            raise self.unlisted
        if not self.tells_states:
            return [{"group_id": name} for name in self.groups]
        return [
            {"group_id": name, "group_state": it.state, "group_type": it.kind}
            for name, it in self.groups.items()
        ]

    async def _find_coordinator_id(self, _: str) -> int:
        return 1

    async def _describe(self, request: Any, **_: int) -> Any:
        [name] = request.groups
        it = self.groups[name]
        self.asked[name] += 1
        found = SimpleNamespace(
            error_code=it.error.errno, group_state=it.state, protocol_data=it.protocol
        )
        return SimpleNamespace(groups=[found])

    async def _async_list_group_offsets(self, asked: dict[str, None]) -> dict[str, Any]:
        [name] = asked
        it = self.groups[name]
        self.asked[name] += 1
        if it.error is not kafka_errors.NoError:
            raise it.error
        return {
            name: {
                Place("orders", number): OffsetAndMetadata(7, metadata, -1)
                for number, metadata in enumerate(it.metadata)
            }
        }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(group_offsets, "_Client", lambda **_: made)
    return made


@pytest.mark.parametrize("tells_states", [True, False], ids=["states", "an old broker"])
def test_groups_are_found_with_members_and_by_what_they_have_committed(
    cluster: Cluster, *, tells_states: bool
) -> None:
    cluster.tells_states = tells_states
    cluster.groups = {
        "works": Group(protocol=PROTOCOL),
        "died": Group("Empty", metadata=("", OURS)),
        "died-once": Group("Empty", metadata=(OURS_ONCE + "\0",)),
        "plain": Group(protocol="range", metadata=(OURS,)),
        "plain-empty": Group("Empty", metadata=NOT_OURS),
        "rebalances": Group("PreparingRebalance", metadata=(OURS,)),
        "without": Group("Empty"),
    }
    found = GroupSearch(CONFIG).find()

    assert found.at_work == {"works"}
    assert found.empty == {"died", "died-once"}
    assert found.hidden == 0


def test_nobody_is_asked_about_groups_of_newer_protocols(cluster: Cluster) -> None:
    cluster.groups = {
        "new": Group("Empty", metadata=(OURS,), kind="Consumer"),
        "queue": Group("Empty", kind="Share"),
    }
    assert GroupSearch(CONFIG).find().empty == frozenset()
    assert not cluster.asked


def test_groups_that_may_not_be_described_are_counted_and_hide_no_other(cluster: Cluster) -> None:
    cluster.groups = {
        "a": Group("Empty", error=DENIED),
        "b": Group(error=DENIED),
        "loads": Group("Empty", error=AWAY),
        "works": Group(protocol=PROTOCOL),
    }
    search = GroupSearch(CONFIG)
    found = search.find()
    assert (found.at_work, found.empty, found.hidden) == ({"works"}, frozenset(), 2)

    cluster.groups["a"] = Group("Empty", metadata=(OURS,))
    cluster.groups["loads"] = Group("Empty", metadata=(OURS,))
    found = search.find()
    assert (found.empty, found.hidden) == ({"a", "loads"}, 1)


def test_what_an_empty_group_has_committed_is_not_read_each_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr(group_search, "monotonic", lambda: now_s)
    cluster.groups = {"plain": Group("Empty"), "died": Group("Empty", metadata=(OURS,))}
    search = GroupSearch(CONFIG)
    for _ in range(3):
        assert search.find().empty == {"died"}
    assert cluster.asked == {"plain": 1, "died": 1}

    cluster.groups["plain"] = Group(protocol=PROTOCOL)  # members of ours come, commit, and fall
    assert search.find().at_work == {"plain"}
    cluster.groups["plain"] = Group("Empty", metadata=(OURS,))
    assert search.find().empty == {"died", "plain"}

    cluster.groups["died"] = Group("Empty")
    assert search.find().empty == {"died", "plain"}
    now_s += 600.0
    assert search.find().empty == {"plain"}
    del cluster.groups["plain"]
    assert search.find().empty == frozenset()


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (kafka_errors.KafkaConnectionError("away"), BrokerUnreachableError),
        (kafka_errors.ClusterAuthorizationFailedError(), AuthorizationError),
        (kafka_errors.SaslAuthenticationFailedError(), AuthorizationError),
    ],
    ids=["away", "no right", "login"],
)
def test_a_cluster_that_lists_no_groups_is_an_error(
    cluster: Cluster, raised: Exception, error: type[Exception]
) -> None:
    cluster.unlisted = raised
    with pytest.raises(error):
        GroupSearch(CONFIG).find()


def test_a_login_that_is_refused_in_between_hides_no_group(cluster: Cluster) -> None:
    cluster.groups = {"a": Group(error=kafka_errors.SaslAuthenticationFailedError)}
    with pytest.raises(AuthorizationError, match="authenticate"):
        GroupSearch(CONFIG).find()
