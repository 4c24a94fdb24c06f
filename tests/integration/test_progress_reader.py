"""The reader of the progress log on the real broker: what it has read may be deleted behind it."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coop_consumer.core.events import LogRead
from coop_consumer.kafka.progress_log import ProgressReader
from tests.journal import WAIT_S
from tests.topics import ADMIN_TIMEOUT_S

pytestmark = pytest.mark.integration


def test_what_is_deleted_before_anybody_asked_where_the_log_begins_is_missed_all_the_same(
    bootstrap: str, admin: AdminClient, topic: Callable[[], str]
) -> None:
    name, client = topic(), {"bootstrap.servers": bootstrap}
    producer = Producer(client)
    for number in range(3):
        producer.produce(name, key=b"%d" % number, value=b"")
    producer.flush(WAIT_S)
    told: SimpleQueue[LogRead | Exception] = SimpleQueue()
    settings = {**client, "group.id": "readers", "enable.partition.eof": True}
    reader = ProgressReader(settings, name, told.put, told.put, name="reader")

    def told_next() -> LogRead:
        event = told.get(timeout=WAIT_S)
        assert isinstance(event, LogRead)
        return event

    try:
        reader.follow(0, follow=True)
        followed: list[int] = []
        while len(followed) < 3:
            followed += [record.offset for record in told_next().records]
        [deleted] = admin.delete_records([TopicPartition(name, 0, 2)]).values()
        deleted.result(ADMIN_TIMEOUT_S)
        reader.read(0, 1)
        events = [told_next()]
        while events[-1].complete < 1:
            events.append(told_next())
    finally:
        reader.close()
    assert events[0].restart
    assert [record.offset for event in events for record in event.records] == [2]
