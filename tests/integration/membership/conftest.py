"""The group of a test: its members have left at the end, and their threads have ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.brokers import MakeTopic
from tests.support.memberships import Group
from tests.support.stock import ANSWER_TIMEOUT_S, eventually
from tests.support.topics import ADMIN_TIMEOUT_S


@pytest.fixture
def group(bootstrap: str, admin: AdminClient, group_id: str, topic: MakeTopic) -> Iterator[Group]:
    def is_coordinated() -> bool:
        try:
            asked = admin.describe_consumer_groups([group_id], request_timeout=ANSWER_TIMEOUT_S)
            asked[group_id].result(ADMIN_TIMEOUT_S)
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND)
        return True

    # A young broker is not ready for it, and members join more than once. While it makes its
    # first group, librdkafka may lose a request and time out.
    eventually(is_coordinated)
    group = Group(bootstrap, group_id, topic(3))
    yield group
    for member in group.members:
        member.membership.leave()
    assert [it.name for it in group.members if "fatal" in it.kinds()] == [
        it.name for it in group.members if it.fails
    ]
    assert not [it for it in threading.enumerate() if it.name.endswith(group.group_id)]
