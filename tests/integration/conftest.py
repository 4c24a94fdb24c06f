"""What the stories of groups begin with: a job on the session's broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from tests.brokers import MakeTopic
from tests.job import Job


@pytest.fixture
def job(bootstrap: str, admin: AdminClient, topic: MakeTopic, group_id: str) -> Callable[..., Job]:
    """Make a job: `job(partitions=3, **{"on.failure": "skip"})`."""

    def make(partitions: int = 1, **settings: object) -> Job:
        name = topic(partitions)
        return Job({"bootstrap.servers": bootstrap}, admin, group_id, name, partitions, settings)

    return make
