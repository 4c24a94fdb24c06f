"""Members that are not ours: plain consumers, which share a group or not, and hostile ones."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from queue import Queue
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from coop_consumer.errors import ForeignProtocolError
from tests.support.memberships import PROTOCOL, WAIT_S, Group, poll_until

pytestmark = pytest.mark.integration


# -- strangers -------------------------------------------------------------------------------------


@pytest.fixture
def plain_consumer(bootstrap: str, group: Group) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group.group_id})
    consumer.subscribe([group.topic])
    yield consumer
    consumer.close()


def test_a_group_of_plain_consumers_is_left_alone(group: Group, plain_consumer: Consumer) -> None:
    poll_until(plain_consumer, lambda _: plain_consumer.assignment())
    member = group.member("m1")
    member.fails = True
    member.membership.start()
    error = member.wait_for("fatal")
    assert isinstance(error, ForeignProtocolError)
    assert group.group_id in str(error)
    partitions = [ConfluentPartition(group.topic, it) for it in range(3)]
    assert sorted(plain_consumer.assignment()) == partitions


def test_a_plain_consumer_is_refused_and_the_members_hear_nothing(
    group: Group, bootstrap: str
) -> None:
    [member] = group.join("m1")
    heard = len(member.heard)
    refusals: Queue[int] = Queue()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group.group_id,
            "error_cb": lambda error: refusals.put(error.code()),
        }
    )
    consumer.subscribe([group.topic])
    try:

        def refusal(message: Any) -> int | None:
            if message is not None and message.error():
                refusals.put(message.error().code())
            return None if refusals.empty() else refusals.get()

        code = poll_until(consumer, refusal)
    finally:
        consumer.close()
    assert code == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    assert len(member.heard) == heard


# -- beside plain members --------------------------------------------------------------------------


def test_members_that_offer_a_plain_protocol_use_ours_while_nobody_needs_the_other(
    group: Group, admin: AdminClient
) -> None:
    first, second = group.join("m1", "m2", plain="range")
    described = admin.describe_consumer_groups([group.group_id])[group.group_id].result(WAIT_S)
    assert described.partition_assignor == PROTOCOL
    assert {it.held().user_data is None for it in (first, second)} == {False}


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_beside_a_plain_consumer_a_member_gets_whole_partitions_until_that_one_leaves(
    group: Group, bootstrap: str, strategy: str
) -> None:
    [member] = group.join("m1", plain=strategy)
    led = len(member.led)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group.group_id,
            "partition.assignment.strategy": strategy,
        }
    )
    consumer.subscribe([group.topic])
    try:
        # The two are told one after the other, in no order.
        poll_until(
            consumer,
            lambda _: consumer.assignment() and (told := member.last_told()) and told.plain,
        )
        taken = {it.partition for it in consumer.assignment()}
        held = member.held()
        assert (held.plain, held.user_data) == (True, None)
        # This member leads the group, being its first: its plan is what the plain one follows.
        plan = [{0}, {1}]
        assert [{*held.partitions[group.topic]}, taken] in (plan, plan[::-1])
        [(_, members), *_] = member.led[led:]
        assert {it.topics for it in members} == {(group.topic,)}
    finally:
        consumer.close()
    group.settle(members=1)
    assert not member.held().plain


def test_what_members_still_work_on_is_told_to_the_one_that_leads(
    group: Group, bootstrap: str
) -> None:
    [leader] = group.join("m1", plain="cooperative-sticky")
    leader.owns = [(group.topic, 2)]
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group.group_id,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    consumer = Consumer(settings)
    consumer.subscribe([group.topic])
    try:
        poll_until(consumer, lambda _: consumer.assignment())
        [taken] = consumer.assignment()
        leader.membership.request_rejoin()
        poll_until(consumer, lambda _: all(it.owned for it in leader.led[-1][1]))
        owned = {it.owned for it in leader.led[-1][1]}
        assert owned == {((group.topic, 2),), ((group.topic, taken.partition),)}
    finally:
        consumer.close()


def test_a_join_waits_until_the_member_has_let_go_and_heartbeats_and_commits_go_on(
    group: Group,
) -> None:
    session_ms = 5_000  # what is asserted of a whole session must not hang on who else computes
    [holding] = group.join("holding", plain="range", session_timeout_ms=session_ms)
    generation = holding.held().generation
    holding.holds_on = True
    other = group.member("other", plain="range", session_timeout_ms=session_ms)
    other.membership.start()
    holding.wait_for("revoking")
    two_sessions_on = monotonic() * 1000 + 2 * session_ms
    while not holding.membership.alive(two_sessions_on):  # so until one session has passed
        assert holding.commit(group.topic, 0, 5, generation) is None
    assert "assigned" not in other.kinds()
    assert holding.kinds()[-1] == "revoking"
    holding.let_go.set_result(None)
    assert group.settle(members=2) == generation + 1
    assert holding.kinds()[-3:] == ["revoking", "joining", "assigned"]


def test_a_member_that_does_not_let_go_is_not_waited_for(group: Group) -> None:
    [holding] = group.join("holding", plain="range", max_poll_interval_ms=1_500)
    holding.holds_on = True
    other = group.member("other", plain="range")
    other.membership.start()
    other.wait_for("assigned")
    assert not holding.let_go.done()
    holding.wait_for("lost")
    assert group.settle(members=2) == other.held().generation


def test_a_member_that_leaves_while_it_should_let_go_does_not_join_again(group: Group) -> None:
    [holding] = group.join("holding", plain="range")
    holding.holds_on = True
    holding.membership.request_rejoin()
    holding.wait_for("revoking")
    holding.membership.leave()
    assert holding.kinds()[-1] == "revoking"
    assert holding.membership.snapshot is None


def test_without_a_plain_protocol_nobody_is_asked_to_let_go(group: Group) -> None:
    first, second = group.join("m1", "m2")
    assert "revoking" not in first.kinds() + second.kinds()


# -- hostile members -------------------------------------------------------------------------------


class UnreadableAssignor(AbstractPartitionAssignor):  # type: ignore[misc] # ships no types
    """Joins under our protocol with bytes that are no subscription."""

    name = PROTOCOL

    def metadata(self, _topics: object) -> bytes:
        return b"\xff"

    def assign(self, _cluster: object, _members: object) -> dict[str, bytes]:
        return {}

    def on_assignment(self, _assignment: object, _generation: int) -> None:
        """Get what it is given."""


def test_a_member_nobody_can_read_gets_nothing_and_harms_nobody(group: Group) -> None:
    [member] = group.join("m1")
    hostile = KafkaConsumer(
        group.topic,
        bootstrap_servers=group.bootstrap,
        group_id=group.group_id,
        partition_assignment_strategy=[UnreadableAssignor()],
        enable_auto_commit=False,
    )

    def poll() -> None:
        with contextlib.suppress(RuntimeError, kafka_errors.KafkaError):  # closed under its feet
            hostile.poll(WAIT_S * 1000)

    driver = threading.Thread(target=poll)
    driver.start()
    try:
        group.settle(members=2)
        [nobody] = [it for it in member.led[-1][1] if it.member_id != member.held().member_id]
        assert (nobody.topics, nobody.user_data) == ((), b"")
    finally:
        hostile.close()
        driver.join()


def test_standard_tools_list_the_members_with_their_partitions(
    group: Group, admin: AdminClient
) -> None:
    members = group.join("m1", "m2")
    described = admin.describe_consumer_groups([group.group_id])[group.group_id].result(WAIT_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == PROTOCOL
    shown = {
        it.member_id: sorted(tp.partition for tp in it.assignment.topic_partitions)
        for it in described.members
    }
    assert shown == {it.held().member_id: [0, 1, 2] for it in members}
