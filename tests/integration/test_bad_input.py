"""Something around a member is wrong: the member says so, and nobody else suffers from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from assignors import WIRE_VERSION, AssignmentData, Subscription, encode_assignment
from coop_consumer import CoopConsumerError
from coop_consumer.broker.ports import free_ports
from coop_consumer.core import leader, subscription
from coop_consumer.errors import (
    BrokerUnreachableError,
    ContractMismatchError,
    ExitCode,
    ForeignProtocolError,
    GroupIdMissingError,
    ProgressTopicError,
    TopicMissingError,
    VersionMismatchError,
)
from coop_consumer.kafka.topics import Topics
from offsets import TenureId, TenureKey, encode_key
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.pools import Pool, refuse
from tests.support.stock import described, keys_of, topic_id
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

KEYS = keys_of(50, 5)
UNREADABLE = {"corrupt key": 1, "corrupt value": 1, "unknown version": 1}
STRANGER = TenureId("stranger", 1, 1)


def refusal(job: Job, kind: type[CoopConsumerError], **settings: object) -> CoopConsumerError:
    """The error with which a pool refuses to be made or started."""
    with pytest.raises(kind) as caught:
        Pool({**job.settings, **settings}, job.topic).pool.start()
    return caught.value


def ending(job: Job, kind: type[CoopConsumerError], **settings: object) -> CoopConsumerError:
    """The error with which a pool ends that was made and started."""
    pool = Pool({**job.settings, **settings}, job.topic).pool
    pool.start()
    with pytest.raises(kind) as caught:
        pool.wait(WAIT_S)
    return caught.value


# -- nothing is started ----------------------------------------------------------------------------


def test_a_broker_that_does_not_answer_is_named(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topics.check_broker, "__defaults__", (0.5,))  # not 10 s
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    error = refusal(job(), BrokerUnreachableError, **{"bootstrap.servers": nobody})
    assert str(error).startswith(f"bootstrap.servers={nobody}: no broker answered")
    assert error.exit_code is ExitCode.UNAVAILABLE


def test_a_topic_that_does_not_exist_is_named_and_not_created(
    job: MakeJob, admin: AdminClient
) -> None:
    orders = job()
    with pytest.raises(TopicMissingError) as caught:
        Pool(orders.settings, "no-such-topic").pool.start()
    assert str(caught.value).startswith("topic no-such-topic: does not exist")
    assert caught.value.exit_code is ExitCode.MISSING
    assert "no-such-topic" not in admin.list_topics(timeout=WAIT_S).topics


def test_without_a_group_id_nothing_starts(job: MakeJob) -> None:
    orders = job()
    with pytest.raises(GroupIdMissingError, match=r"group\.id is missing"):
        Pool(orders.client, orders.topic)


def test_a_progress_topic_that_is_not_compacted_is_refused(
    job: MakeJob, admin: AdminClient, history: str
) -> None:
    create_topic(admin, history, config={"cleanup.policy": "delete"})
    orders = job()
    error = refusal(orders, ProgressTopicError, **{"progress.topic": history})
    assert str(error).startswith(f"progress topic {history}: has cleanup.policy=delete")
    assert (
        f"Set it: kafka-configs.sh --bootstrap-server {orders.client['bootstrap.servers']} --alter "
        f"--entity-type topics --entity-name {history} --add-config cleanup.policy=compact."
    ) in str(error)


def test_a_progress_topic_that_is_compacted_and_deletes_too_is_warned_of(
    job: MakeJob, admin: AdminClient, history: str, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(admin, history, config={"cleanup.policy": "compact,delete"})
    job(**{"progress.topic": history}).run_to_end()
    assert f"progress topic {history}: has cleanup.policy=compact,delete" in caplog.text


def test_a_progress_topic_that_may_not_be_created_is_asked_for(
    job: MakeJob, admin: AdminClient, history: str
) -> None:
    forbidden = {"progress.topic": history, "progress.topic.create": False}
    error = refusal(job(), ProgressTopicError, **forbidden)
    assert str(error).startswith(f"progress topic {history}: does not exist, and")
    assert error.exit_code is ExitCode.CONFLICT
    assert history not in admin.list_topics(timeout=WAIT_S).topics


# -- the group is not ours -------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_plain_members_is_not_joined_and_not_disturbed(
    job: MakeJob, admin: AdminClient, protocol: str
) -> None:
    orders = job()
    plain = Consumer(
        {
            **orders.client,
            "group.id": orders.group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        plain.subscribe([orders.topic])
        orders.produce(["a"])
        assert [message.key() for message in plain.consume(1, WAIT_S)] == [b"a"]
        ended = ending if protocol == "classic" else refusal
        error = ended(orders, ForeignProtocolError)
        assert str(error).startswith(f"group {orders.group}: in use by members with which")
        [member] = described(admin, orders.group).members
        assert len(member.assignment.topic_partitions) == 1
        orders.produce(["b"])
        assert [message.key() for message in plain.consume(1, WAIT_S)] == [b"b"]
    finally:
        plain.close()


def test_a_member_with_another_contract_gets_nothing_and_the_others_go_on(job: MakeJob) -> None:
    orders = job(partitions=2)
    with orders.running() as first, orders.running(journal=first.journal) as second:
        first.wait_for_ranges()
        second.wait_for_ranges()
        error = ending(orders, ContractMismatchError, ordering="none")
        places = orders.produce(keys_of(50, 10))
        first.journal.wait_for(places)
    assert "ordering=none" in str(error)
    assert "ordering=key" in str(error)
    assert "It gets no key range" in str(error)
    assert first.journal.places == sorted(places)


def test_a_member_whose_assignment_is_of_a_newer_version_leaves_and_says_so(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would process what it is thought to hold."""

    def in_a_newer_version(data: AssignmentData) -> bytes:
        kind, version, *body = encode_assignment(data)
        return bytes((kind, version + 1, *body))

    monkeypatch.setattr(leader, "encode_assignment", in_a_newer_version)
    error = ending(job(), VersionMismatchError)
    assert f"assignment: version {WIRE_VERSION + 1} is newer than {WIRE_VERSION}" in str(error)


def test_a_member_that_its_leader_cannot_read_leaves_and_says_why(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = (WIRE_VERSION + 1, WIRE_VERSION + 1)
    monkeypatch.setattr(subscription, "Subscription", partial(Subscription, supported=spoken))
    error = ending(job(), VersionMismatchError)
    assert f"subscription: version {WIRE_VERSION + 1} is newer than {WIRE_VERSION}" in str(error)


# -- the progress log is damaged -------------------------------------------------------------------


def own_log(job: MakeJob, history: str) -> Job:
    """A job with a progress topic of one partition, in which one key of 50 records is parked."""
    own = {"max.attempts": 1, "progress.topic": history, "progress.topic.partitions": 1}
    orders = job(**own)
    orders.produce(KEYS)
    with orders.running(handler=refuse("key-3")) as pool:
        pool.journal.wait(lambda rows: len(rows) == 40)
    return orders


def test_strange_records_in_the_log_are_counted_told_and_passed_over(
    job: MakeJob, history: str, caplog: pytest.LogCaptureFixture
) -> None:
    orders = own_log(job, history)
    stranger = TenureKey(orders.group, topic_id(orders.admin, orders.topic), 0, STRANGER)
    orders.log.write(0, bytes([1]) + b"no key", b"no value")
    orders.log.write(0, bytes([99]) + encode_key(stranger)[1:], b"of a later version")
    orders.log.write(0, encode_key(stranger), bytes([1]) + b"no value")
    more = orders.produce(KEYS)
    with orders.running(handler=refuse("key-3")) as pool:
        rows = pool.journal.wait(lambda rows: len(rows) == 40)
    assert sorted(row.place for row in rows) == [
        place for place, key in zip(more, KEYS, strict=True) if key != "key-3"
    ]
    store = orders.log.store(0)
    store.partition(stranger.topic_id, 0).progress()
    assert dict(store.unreadable) == UNREADABLE
    assert pool.pool.counters.unreadable == 3
    told = (
        "progress log, partition 0: cannot read 1 corrupt key, 1 corrupt value, 1 unknown version"
    )
    assert told in caplog.text


@pytest.mark.parametrize("value", [b"garbage", bytes([99, 1, 2, 3])], ids=["corrupt", "newer"])
def test_progress_that_cannot_be_read_falls_back_to_the_stable_offset(
    job: MakeJob, history: str, value: bytes
) -> None:
    orders = own_log(job, history)
    [stable, _] = orders.committed()[0]
    id_ = topic_id(orders.admin, orders.topic)
    for tenure in orders.log.store(0).partition(id_, 0).tenures():
        orders.log.write(0, encode_key(TenureKey(orders.group, id_, 0, tenure.id)), value)
    assert orders.run_to_end().offsets == list(range(stable, 50))
