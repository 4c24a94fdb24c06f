"""What the stories of groups begin with: a job on the session's broker, a command to do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from tests.support.brokers import MakeTopic, own_broker
from tests.support.certificates import make_security
from tests.support.command import Command
from tests.support.job import Job
from tests.support.single_writers import FOREVER, Bench
from tests.support.topics import ADMIN_TIMEOUT_S


@pytest.fixture
def job(bootstrap: str, admin: AdminClient, topic: MakeTopic, group_id: str) -> Callable[..., Job]:
    """Make a job: `job(partitions=3, **{"on.failure": "skip"})`."""

    def make(partitions: int = 1, **settings: object) -> Job:
        name = topic(partitions)
        return Job({"bootstrap.servers": bootstrap}, admin, group_id, name, partitions, settings)

    return make


@pytest.fixture
def history(admin: AdminClient, group_id: str) -> Iterator[str]:
    """The name of a progress topic that no other group has; gone after the test if it was made."""
    name = f"{group_id}-progress"
    yield name
    if name in admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics:
        admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Run a worker on a job: `run = started(orders, "LedSetup")`. Gone after the test."""
    with ExitStack() as commands:

        def start(orders: Job, worker: str = "Led", *options: str) -> Command:
            command = Command(tmp_path, orders, worker, *options)
            commands.callback(command.put_away)
            return command

        yield start


@pytest.fixture
def bench(bootstrap: str, topic: MakeTopic, group_id: str) -> Bench:
    """The pieces of `coop_consumer.patterns` on an input and an output."""
    client = {"bootstrap.servers": bootstrap}
    return Bench(client, topic(config=FOREVER), topic(config=FOREVER), group_id)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker with SASL/SCRAM over TLS and ACLs. Tests share it, so they must not stop it."""
    with own_broker(security=make_security(tmp_path_factory.mktemp("pem"))) as broker:
        yield broker


@pytest.fixture(scope="session")
def root(secured: EmbeddedBroker) -> AdminClient:
    """May do everything on it."""
    return AdminClient(secured.client_config("root"))
