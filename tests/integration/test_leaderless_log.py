"""A progress log that nobody leads for a while: its only broker is too slow to show life."""

from __future__ import annotations

from queue import SimpleQueue

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from coop_consumer.core.events import LogRead
from coop_consumer.kafka.progress_log import ProgressReader
from tests.support.brokers import MakeBroker
from tests.support.journal import WAIT_S
from tests.support.stock import eventually
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic

pytestmark = pytest.mark.integration

LED_1500_OF_6000_MS = {
    "broker.heartbeat.interval.ms": "6000",
    "broker.session.timeout.ms": "1500",
}
"""The controller takes the broker for dead until its next heartbeat, again and again."""


def test_a_reader_that_asked_while_nobody_led_the_log_reads_it_once_somebody_does(
    fresh_broker: MakeBroker,
) -> None:
    client = fresh_broker(config=LED_1500_OF_6000_MS).client_config()
    admin = AdminClient(client)

    def is_made() -> bool:
        try:
            create_topic(admin, "log")
        except KafkaException:  # no broker lives that could hold it
            return False
        return True

    def has_leader() -> bool:
        known = admin.list_topics("log", ADMIN_TIMEOUT_S).topics["log"]
        return known.partitions[0].leader >= 0

    eventually(is_made)
    eventually(has_leader, lambda leads: not leads)
    read: SimpleQueue[LogRead | Exception] = SimpleQueue()
    settings = {**client, "group.id": "readers", "enable.partition.eof": True}
    reader = ProgressReader(settings, "log", read.put, read.put, name="reader")
    try:
        reader.read(0, 1)
        assert read.get(timeout=WAIT_S) == LogRead(0, [], 1, 0)
    finally:
        reader.close()
