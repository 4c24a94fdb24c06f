"""Offsets that a member commits: which are stored, and what of a refusal is told."""

from __future__ import annotations

from queue import Queue

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from kafka import errors as kafka_errors

from coop_consumer.errors import (
    CoopConsumerError,
    MemberLostError,
    MembershipError,
    TopicMissingError,
)
from tests.support.memberships import WAIT_S, Group
from tests.support.stock import described

pytestmark = pytest.mark.integration


def test_offsets_of_the_held_generation_are_stored_and_seen_by_standard_tools(
    group: Group, admin: AdminClient
) -> None:
    [member] = group.join("m1")
    assert member.commit(group.topic, 1, 42, member.held().generation, "coop:1") is None
    assert member.committed((group.topic, 0), (group.topic, 1)) == [None, (42, "coop:1")]
    described(admin, group.group_id)  # librdkafka dies where a coordinator that loads is asked
    asked = ConsumerGroupTopicPartitions(group.group_id)
    found = admin.list_consumer_group_offsets([asked])[group.group_id].result(WAIT_S)
    [stored] = found.topic_partitions
    assert (stored.partition, stored.offset, stored.metadata) == (1, 42, "coop:1")


def test_offsets_of_another_generation_are_refused(group: Group) -> None:
    [first] = group.join("m1")
    old = first.held().generation
    assert first.commit(group.topic, 0, 5, old) is None
    group.join("m2")
    current = first.held().generation
    assert current > old
    for generation in (old, current + 1):
        refused = first.commit(group.topic, 0, 9, generation)
        assert isinstance(refused, MemberLostError)
    assert first.committed((group.topic, 0)) == [(5, "")]
    assert first.commit(group.topic, 0, 6, current) is None
    assert "lost" not in first.kinds()


def test_offsets_are_stored_while_the_group_still_gathers(group: Group) -> None:
    [first] = group.join("m1")
    generation = first.held().generation
    outcome: Queue[CoopConsumerError | None] = Queue()

    def commit_before_joining() -> None:
        first.membership.commit({(group.topic, 0): (3, "")}, generation, outcome.put)

    first.at["joining"] = commit_before_joining
    group.join("m2")
    # The join is on its way first, so the answer depends on who was quicker: stored or refused.
    answer = outcome.get(timeout=WAIT_S)
    stored = first.committed((group.topic, 0)) == [(3, "")]
    assert stored == (answer is None)
    assert answer is None or isinstance(answer, MemberLostError)


def test_what_the_broker_refuses_is_told_to_the_one_who_asked(group: Group) -> None:
    [member] = group.join("m1")
    refused = member.commit(group.topic, 0, 1, member.held().generation, "x" * 5_000)
    assert isinstance(refused, MembershipError)
    assert isinstance(refused.__cause__, kafka_errors.OffsetMetadataTooLargeError)
    assert member.commit(group.topic, 0, 1, member.held().generation) is None


def test_a_topic_that_is_gone_holds_up_no_commit_of_another(group: Group) -> None:
    """It was asked for again until the request timeout, and a member that left waited for that."""
    [member] = group.join("m1", request_timeout_ms=10 * 60_000)
    gone = f"{group.topic}-gone"
    offsets = {(group.topic, 0): (7, ""), (gone, 0): (3, "")}
    outcome: Queue[CoopConsumerError | None] = Queue()
    member.membership.commit(offsets, member.held().generation, outcome.put)
    answer = outcome.get(timeout=WAIT_S)
    assert isinstance(answer, TopicMissingError)
    assert gone in str(answer)
    assert member.committed((group.topic, 0)) == [(7, "")]
