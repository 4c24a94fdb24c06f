"""Fixtures every test may ask for: a broker, its address, fresh topics and group names.

A broker is started once a session, and only if a test asks for it (see
`tests/support/brokers.py`). What tests create on it has unique names, so that they do not meet.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import settings

from coop_consumer.cli.log import StderrHandler
from tests.support.brokers import ChosenBroker, MakeBroker, MakeTopic, own_broker, running_broker
from tests.support.sharing import pytest_collection_modifyitems, pytest_xdist_make_scheduler
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic

__all__ = ["pytest_collection_modifyitems", "pytest_xdist_make_scheduler"]

# The suite is the same every time, and never timed. `--hypothesis-profile=explore` looks further.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile("same")


# A suite in the background ignores Ctrl-C, and one under `nohup` SIGHUP. The children that tests
# send these signals would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """Undo what a command of this process has set up."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in [h for h in root.handlers if isinstance(h, StderrHandler)]:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(scope="session")
def broker() -> Iterator[ChosenBroker]:
    """The session's broker. Tests share it, so they must not stop it."""
    with running_broker(os.environ) as chosen:
        yield chosen


@pytest.fixture(scope="session")
def bootstrap(broker: ChosenBroker) -> str:
    """The `bootstrap.servers` of the session's broker."""
    return broker.bootstrap


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    """An admin client of the session's broker: one a test, as one may lose all brokers for good."""
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> Iterator[MakeTopic]:
    """Make topics with unique names: `orders = topic(3)`. They are deleted after the test."""
    made: list[str] = []

    def make(partitions: int = 1, *, config: Mapping[str, str] | None = None) -> str:
        name = unique_name(request)
        create_topic(admin, name, partitions, config)
        made.append(name)
        return name

    yield make
    for future in (admin.delete_topics(made) if made else {}).values():
        future.result(ADMIN_TIMEOUT_S)


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    """A group name no other test has."""
    return unique_name(request)


@pytest.fixture
def fresh_broker() -> Iterator[MakeBroker]:
    """Start embedded brokers to kill: `broker = fresh_broker(nodes=3)`. Gone after the test."""
    with ExitStack() as brokers:
        yield lambda **arguments: brokers.enter_context(own_broker(**arguments))


def unique_name(request: pytest.FixtureRequest) -> str:
    """A name that tells the test it belongs to, and is never used twice."""
    return f"{request.node.originalname[:60]}-{uuid4().hex[:8]}"
