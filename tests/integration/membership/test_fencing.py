"""Transactions of runs that are gone are ended; those of members are left to them."""

from __future__ import annotations

from time import monotonic

import pytest
from confluent_kafka import KafkaException, Producer

from assignors import Subscription, encode_subscription
from coop_consumer.core.blocked_read import RunId
from coop_consumer.errors import MemberLostError
from tests.support.memberships import WAIT_S, Group, Member

pytestmark = pytest.mark.integration

LIVING, DEAD, UNHEARD_OF = RunId("m1", 7), RunId("m1", 6), RunId("m9", 1)


def id_of(run: RunId) -> str:
    return f"coop-fencing-{run.member}-{run.incarnation}"


def heir_of(group: Group, run: RunId) -> Producer:
    return Producer({"bootstrap.servers": group.bootstrap, "transactional.id": id_of(run)})


def opened(group: Group, run: RunId) -> Producer:
    """A Producer of a run, with a transaction open."""
    producer = heir_of(group, run)
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(group.topic, b"undecided")
    producer.flush(WAIT_S)
    return producer


def told_by(run: RunId) -> bytes:
    return encode_subscription(
        Subscription(
            run.member, run.incarnation, "host", 1, allow_sharing=True, contract="", nonce=0
        )
    )


def joined(group: Group) -> Member:
    """A member that tells which run it is."""
    member = group.member("m1")
    member.user_data = told_by(LIVING)
    member.membership.start()
    group.settle()
    return member


def test_only_who_is_not_in_the_group_is_fenced(group: Group) -> None:
    member = joined(group)
    living, dead = opened(group, LIVING), opened(group, DEAD)
    fencing = member.membership.fence({LIVING, DEAD, UNHEARD_OF}, id_of)
    assert fencing.result(WAIT_S) == [DEAD, UNHEARD_OF]
    living.commit_transaction(WAIT_S)
    with pytest.raises(KafkaException, match="fenced"):
        dead.commit_transaction(WAIT_S)


def test_a_transaction_is_over_once_its_run_is_fenced(group: Group) -> None:
    member = joined(group)
    dead = opened(group, DEAD)
    began_s = monotonic()
    member.membership.fence({DEAD}, id_of).result(WAIT_S)
    assert monotonic() - began_s < 5, "far below what a broker would wait for"
    del dead
    heir_of(group, DEAD).init_transactions(WAIT_S)


def test_who_has_left_fences_nobody(group: Group) -> None:
    member = joined(group)
    member.membership.leave()
    with pytest.raises(MemberLostError):
        member.membership.fence({DEAD}, id_of).result(WAIT_S)
