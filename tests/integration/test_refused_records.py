"""Topics of ours that do not take what members write to them."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer import CooperativeConsumer, Record
from coop_consumer.errors import ProgressTopicError
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.stock import committed, eventually, produce
from tests.support.topics import create_topic, set_topic

pytestmark = pytest.mark.integration

SMALL = {"cleanup.policy": "compact", "max.message.bytes": "16384"}
RECORDS = 16_000
"""Every second one is done: 8,000 gap ranges, 17 kB of them; with every fourth, 8 kB are left."""


def next_of(consumer: CooperativeConsumer) -> Record:
    record = consumer.poll(WAIT_S)
    assert record is not None
    return record


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_no_member_ends_because_its_gaps_fill_more_than_the_progress_topic_takes(
    admin: AdminClient,
    bootstrap: str,
    group_id: str,
    topic: MakeTopic,
    *,
    caplog: pytest.LogCaptureFixture,
    guarantee: str,
) -> None:
    """It is known of a topic that is small already, and found out if it becomes smaller still."""
    client, orders = {"bootstrap.servers": bootstrap}, topic()
    named = log = topic(config=SMALL)
    if guarantee == "exactly_once":
        log = f"{named}-{group_id}"
        create_topic(admin, log, config=SMALL)
    produce(client, orders, keys=[str(number) for number in range(RECORDS)])
    in_hand = {"max.records.in.lanes": 4 * RECORDS, "progress.topic": named}
    settings = {**client, "group.id": group_id, **in_hand, "processing.guarantee": guarantee}
    with CooperativeConsumer(settings) as consumer:
        consumer.subscribe([orders])
        records = [next_of(consumer) for _ in range(RECORDS)]
        for record in records[1::2]:
            consumer.done(record)
        consumer.commit()
        set_topic(admin, log, "max.message.bytes", "6000")
        for number, record in enumerate(records[4::4]):
            consumer.done(record)
            if number % 500 == 0:
                assert consumer.commit(), "it was split smaller, and taken"
        assert "refuses a record for its size" in caplog.text
        for record in {*records[::2]} - {*records[4::4]}:
            consumer.done(record)
    eventually(lambda: committed(admin, group_id).get((orders, 0), (0, ""))[0] == RECORDS)


def test_a_member_whose_records_are_refused_for_their_time_says_so_and_what_to_do(
    bootstrap: str, group_id: str, topic: MakeTopic
) -> None:
    """As of one whose clock is a day ahead: it stood still, "not read far enough yet"."""
    late = {"cleanup.policy": "compact", "message.timestamp.before.max.ms": "0"}
    client, orders = {"bootstrap.servers": bootstrap}, topic()
    produce(client, orders, keys=["a"])
    settings = {**client, "group.id": group_id, "progress.topic": topic(config=late)}
    consumer = CooperativeConsumer(settings)
    consumer.subscribe([orders])
    # A batch of several is refused with a code that says no more than "invalid".
    with pytest.raises(ProgressTopicError, match=r"[Ss]et the clock.*LogAppendTime"):
        consumer.poll(WAIT_S)


def test_where_brokers_set_the_time_a_clock_that_is_wrong_does_no_harm(
    bootstrap: str, group_id: str, topic: MakeTopic
) -> None:
    """Topics that we make are so."""
    late = {
        "cleanup.policy": "compact",
        "message.timestamp.before.max.ms": "0",
        "message.timestamp.type": "LogAppendTime",
    }
    client, orders = {"bootstrap.servers": bootstrap}, topic()
    produce(client, orders, keys=["a"])
    settings = {**client, "group.id": group_id, "progress.topic": topic(config=late)}
    with CooperativeConsumer(settings) as consumer:
        consumer.subscribe([orders])
        consumer.done(next_of(consumer))
