"""Who hears of which generation, and when a member joins again."""

from __future__ import annotations

import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from kafka import errors as kafka_errors

from coop_consumer.errors import MemberLostError
from coop_consumer.kafka.membership import GroupMember, membership
from tests.support.brokers import MakeTopic
from tests.support.memberships import DOOMED_MEMBER, WAIT_S, Group

pytestmark = pytest.mark.integration


# -- generations -----------------------------------------------------------------------------------


def test_a_lone_member_gets_the_bytes_that_its_own_plan_made(group: Group) -> None:
    [alone] = group.join("alone")
    snapshot = alone.held()
    assert snapshot.user_data == alone.plans[-1][snapshot.member_id].user_data
    assert snapshot.partitions == {group.topic: (0, 1, 2)}
    assert (snapshot.generation, snapshot.group_instance_id) == (1, None)
    [(partitions, members)] = alone.led
    assert partitions == {group.topic: 3}
    assert members == [GroupMember(snapshot.member_id, None, (group.topic,), b"alone")]


def test_five_members_hold_one_generation_and_exactly_the_leaders_bytes(group: Group) -> None:
    members = group.join("m1", "m2", "m3", "m4", "m5")
    generation = group.settle()
    [leader] = [it for it in members if it.plans and len(it.plans[-1]) == 5]
    plan = leader.plans[-1]
    for member in members:
        snapshot = member.held()
        assert snapshot.generation == generation
        assert snapshot.user_data == plan[snapshot.member_id].user_data
    assert {it.user_data for it in leader.led[-1][1]} == {b"m1", b"m2", b"m3", b"m4", b"m5"}


def test_join_and_leave_of_another_reach_everyone_as_joining_then_assigned(group: Group) -> None:
    first, second = group.join("m1", "m2")
    first_heard, second_heard = len(first.heard), len(second.heard)
    [third] = group.join("m3")
    third.membership.leave()
    group.members.remove(third)
    group.settle()
    assert first.kinds(after=first_heard) == ["joining", "assigned"] * 2
    assert second.kinds(after=second_heard) == ["joining", "assigned"] * 2
    assert "lost" not in first.kinds() + second.kinds() + third.kinds()


def test_a_killed_members_share_is_assigned_anew_after_its_session(group: Group) -> None:
    [survivor] = group.join("survivor")
    command = [sys.executable, "-c", DOOMED_MEMBER, group.bootstrap, group.group_id, group.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as doomed:
        try:
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == b"assigned\n"
            group.settle(members=2)
        finally:
            doomed.kill()
    group.settle(members=1)
    assert "lost" not in survivor.kinds()


def test_a_member_that_missed_a_rebalance_is_told_its_loss_and_joins_again(group: Group) -> None:
    # It asks for news every 5 s only, and the others wait for it no longer than 1 s.
    slow = {"heartbeat_interval_ms": 5_000, "session_timeout_ms": 16_000}
    [slept] = group.join("slept", max_poll_interval_ms=1_000, **slow)
    held = slept.held()
    group.members.remove(slept)
    group.join("awake", max_poll_interval_ms=1_000)
    refused = slept.commit(group.topic, 0, 7, held.generation)
    assert isinstance(refused, MemberLostError)
    assert isinstance(refused.__cause__, kafka_errors.UnknownMemberIdError)
    assert slept.committed((group.topic, 0)) == [None]
    slept.wait_for("lost")
    group.members.append(slept)
    assert group.settle() > held.generation
    since = slept.kinds().index("lost")
    assert slept.kinds()[since:] == ["lost", "joining", "joining", "assigned"]


def test_new_partitions_are_assigned_without_being_asked_for(
    group: Group, admin: AdminClient
) -> None:
    members = group.join("m1", "m2", metadata_max_age_ms=500)
    admin.create_partitions([NewPartitions(group.topic, 4)])[group.topic].result(WAIT_S)
    for member in members:
        group.wait(lambda member=member: member.holds(group.topic, 3) or None)  # type: ignore[misc]


# -- rejoining -------------------------------------------------------------------------------------


def test_a_join_that_ends_between_two_looks_at_it_is_taken_in_and_not_repeated(
    group: Group, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is shorter than an answer takes. A leader that joins for a new partition, too."""
    monkeypatch.setattr(membership, "_POLL_MS", 0.1)
    [alone] = group.join("alone")
    first = alone.held()
    admin.create_partitions([NewPartitions(group.topic, 4)])[group.topic].result(WAIT_S)
    alone.membership.look_at_topics()
    group.wait(lambda: alone.holds(group.topic, 3) or None)
    assert (first.generation, alone.held().generation) == (1, 2)


def test_rejoining_with_changed_bytes_is_a_rebalance_for_everyone(group: Group) -> None:
    members = group.join("m1", "m2")
    for member in members:  # one of them leads, one follows
        heard = [len(it.heard) for it in members]
        member.user_data += b"+"
        member.membership.request_rejoin()
        for it, before in zip(members, heard, strict=True):
            it.wait_for("assigned", after=before)
        group.settle()
        [(_, seen)] = [it.led[-1] for it, n in zip(members, heard, strict=True) if it.leads(n)]
        assert {it.user_data for it in seen} == {it.user_data for it in members}


def test_rejoining_with_unchanged_bytes_repeats_a_followers_assignment(group: Group) -> None:
    members = group.join("m1", "m2")
    generation = group.settle()
    [follower] = [it for it in members if not it.plans or len(it.plans[-1]) < 2]
    heard = len(follower.heard)
    snapshot = follower.held()
    follower.membership.request_rejoin()
    assert follower.wait_for("assigned", after=heard) == snapshot
    assert group.settle() == generation


def test_a_rejoin_asked_for_during_a_join_is_not_forgotten(group: Group) -> None:
    member = group.member("m1")
    member.at["lead"] = member.membership.request_rejoin  # its bytes are on their way already
    member.membership.start()
    group.wait(lambda: len(member.values("assigned")) == 2 or None)
    assert [it.generation for it in member.values("assigned")] == [1, 2]


def test_who_is_too_busy_to_say_what_it_holds_is_asked_again(group: Group) -> None:
    """A handler that keeps the interpreter for seconds, or a frozen machine, ends no member."""
    member = group.member("m1")

    def be_busy() -> None:
        raise TimeoutError

    member.at["joining"] = be_busy
    member.membership.start()
    member.wait_for("assigned")
    assert member.kinds()[:2] == ["joining", "joining"]
    assert set(member.kinds()) == {"joining", "assigned"}


def test_a_changed_subscription_is_assigned(group: Group, topic: MakeTopic) -> None:
    first, second = group.join("m1", "m2")
    more = topic(2)
    first.membership.subscribe([group.topic, more])
    for member in (first, second):
        group.wait(lambda member=member: member.holds(more, 1) or None)  # type: ignore[misc]
