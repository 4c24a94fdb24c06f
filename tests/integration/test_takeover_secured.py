"""The stories of groups that change hands once more, on a broker with SASL/SCRAM over TLS and ACLs.

Members work as `ann`, with the rights that docs/security.md names and no others.
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from tests.integration.test_takeover import *  # noqa: F403 - its tests are collected here again
from tests.integration.test_takeover import MakeJob
from tests.support.job import Job
from tests.support.rights import CREATE_PROGRESS, NEEDED, grant
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration


@pytest.fixture
def admin(root: AdminClient) -> AdminClient:
    return root


@pytest.fixture
def job(secured: EmbeddedBroker, root: AdminClient, group_id: str) -> MakeJob:
    def make(partitions: int = 1, **settings: object) -> Job:
        create_topic(root, group_id, partitions)
        own = {**secured.client_config("ann"), **settings}
        made = Job(secured.client_config("root"), root, group_id, group_id, partitions, own)
        history = str(settings.get("progress.topic", ""))
        more = [("TOPIC", history, operation) for operation in ("READ", "WRITE", "CREATE")]
        grant(root, made, [*NEEDED, CREATE_PROGRESS, *(more if history else [])])
        return made

    return make
