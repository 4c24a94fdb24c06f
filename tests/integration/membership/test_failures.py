"""What ends a member, what it tells then, and how it leaves."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from queue import Queue
from time import monotonic
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.errors import (
    BrokerUnreachableError,
    ConfigError,
    CoopConsumerError,
    FencedError,
    ForeignProtocolError,
    GroupIdMissingError,
    MemberLostError,
    MembershipError,
    TopicMissingError,
)
from coop_consumer.kafka.membership import Membership
from tests.support.brokers import MakeBroker
from tests.support.memberships import PROTOCOL, WAIT_S, Group
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration


# -- failures --------------------------------------------------------------------------------------


def test_a_leader_that_cannot_assign_leaves_and_another_leads(group: Group) -> None:
    failing = group.member("failing")
    failing.fails = True
    failing.failing["lead"] = ZeroDivisionError("no shares")
    failing.membership.start()
    error = failing.wait_for("fatal")
    assert isinstance(error, MembershipError)
    assert "ZeroDivisionError: no shares" in str(error)
    assert "assigned" not in failing.kinds()
    group.join("sound")


def test_followers_of_a_leader_that_fails_get_nothing_and_then_a_new_leader(group: Group) -> None:
    leader, follower = group.member("leader"), group.member("follower")
    leader.membership.start()
    leader.wait_for("assigned")
    leader.fails = True
    leader.failing["lead"] = ForeignProtocolError(group.group_id)
    follower.membership.start()
    error = leader.wait_for("fatal")
    assert error is leader.failing["lead"]
    assert leader.kinds()[-2:] == ["lost", "fatal"]
    group.settle(members=1)
    told = follower.values("assigned")
    assert [it.user_data for it in told[:-1]] in ([None], [])


@pytest.mark.parametrize("kind", ["joining", "assigned", "lost"])
def test_a_failing_callback_ends_the_member_and_not_the_group(group: Group, kind: str) -> None:
    failing = group.member("failing", group_instance_id="one")
    failing.fails = True
    failing.failing[kind] = ValueError("broken")
    failing.membership.start()
    if kind == "lost":
        failing.wait_for("assigned")
        group.member("twin", group_instance_id="one").membership.start()
    error = failing.wait_for("fatal")
    expected = FencedError if kind == "lost" else MembershipError
    assert isinstance(error, expected)


@pytest.fixture
def failed_connections(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Collect the sockets of failed connections here, which kafka-python never closes itself."""
    caplog.set_level("CRITICAL", "kafka")  # log records would hold on to them
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("failed_connections")
def test_an_unreachable_broker_is_told_with_its_address_in_bounded_time() -> None:
    nowhere = "127.0.0.1:1"
    member = Group(nowhere, "g", "orders").member("m1")
    member.membership.start()
    error = member.wait_for("fatal")
    assert isinstance(error, BrokerUnreachableError)
    assert nowhere in str(error)


@pytest.mark.chaos
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("failed_connections")
def test_a_member_outlives_a_broker_that_dies_and_returns(
    fresh_broker: MakeBroker, group_id: str
) -> None:
    broker = fresh_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    create_topic(admin, "orders", 3, {})
    group = Group(broker.bootstrap_servers, group_id, "orders")
    [member] = group.join("m1")
    outcome: Queue[CoopConsumerError | None] = Queue()
    broker.kill()
    member.membership.commit({("orders", 0): (1, "")}, member.held().generation, outcome.put)
    broker.restart()
    # Stored, or refused because the session expired meanwhile: but answered.
    answer = outcome.get(timeout=WAIT_S)
    assert answer is None or isinstance(answer, MemberLostError)
    if answer is not None:
        member.wait_for("lost")  # what it held before is not what it settles for
    group.settle()
    assert member.commit("orders", 0, 2, member.held().generation) is None
    member.membership.leave()
    assert "fatal" not in member.kinds()


def test_a_missing_topic_is_told_and_not_created(group: Group, admin: AdminClient) -> None:
    missing = f"{group.topic}-missing"
    member = group.member("m1", topics=[group.topic, missing])
    member.fails = True
    member.membership.start()
    error = member.wait_for("fatal")
    assert isinstance(error, TopicMissingError)
    assert error.topic == missing
    assert missing not in admin.list_topics().topics


@pytest.mark.parametrize(
    ("settings", "topics", "expected"),
    [
        ({"group_id": "g", "no_such_name": 1}, ["orders"], "no_such_name"),
        ({"group_id": "g"}, ["or ders"], "or ders"),
        ({}, ["orders"], "group.id"),
    ],
)
def test_bad_settings_are_refused_at_the_door(
    settings: dict[str, Any], topics: list[str], expected: str
) -> None:
    listener = Group("127.0.0.1:1", "g", "orders").member("m1")
    with pytest.raises(ConfigError, match=expected):
        Membership(settings, topics, PROTOCOL, listener)
    assert issubclass(GroupIdMissingError, ConfigError)


def test_a_session_timeout_that_the_broker_refuses_names_the_setting(group: Group) -> None:
    member = group.member("m1", session_timeout_ms=100, heartbeat_interval_ms=30)
    member.fails = True
    member.membership.start()
    error = member.wait_for("fatal")
    assert isinstance(error, ConfigError)
    assert error.name == "session.timeout.ms"


# -- the end ---------------------------------------------------------------------------------------


def test_leaving_is_silent_final_and_may_be_repeated(group: Group) -> None:
    [member] = group.join("m1")
    generation = member.held().generation
    heard = len(member.heard)
    member.membership.leave()
    member.membership.leave()
    assert len(member.heard) == heard
    assert member.membership.snapshot is None
    assert isinstance(member.commit(group.topic, 0, 1, generation), MemberLostError)
    with pytest.raises(MemberLostError):
        member.committed((group.topic, 0))


def test_a_member_that_never_started_can_leave(group: Group) -> None:
    group.member("m1").membership.leave()


@pytest.mark.parametrize("kind", ["joining", "assigned", "lead"])
def test_leaving_inside_a_callback_does_not_block(group: Group, kind: str) -> None:
    member = group.member("m1")
    called = threading.Event()

    def leave() -> None:
        member.membership.leave()
        called.set()

    member.at[kind] = leave
    member.membership.start()
    assert called.wait(WAIT_S)
    member.membership.leave()
    assert member.membership.snapshot is None


def test_a_member_is_alive_until_one_session_after_its_last_answer(group: Group) -> None:
    member = group.member("m1")
    assert not member.membership.alive(monotonic() * 1000)
    member.membership.start()
    member.wait_for("assigned")
    now_ms = monotonic() * 1000
    assert member.membership.alive(now_ms)
    assert not member.membership.alive(now_ms + 10_000)
    member.membership.leave()
    assert not member.membership.alive(now_ms)
