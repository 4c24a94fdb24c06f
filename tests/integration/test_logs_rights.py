"""Which rights conditional appends, bulk loads and commit logs need, over SASL and TLS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from coop_consumer.errors import AuthorizationError, SnapshotError
from coop_consumer.logs import Applied, CommitLog, ConditionalProducer, LogToken, NewRecord
from tests.support.job import Job
from tests.support.killed import to_be_killed
from tests.support.registers import Registers, put
from tests.support.rights import READ_TOPIC, Right, grant
from tests.support.stock import produce
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

WRITE_TOPIC: Right = ("TOPIC", "{topic}", "WRITE")
WRITE_IDS: Right = ("TRANSACTIONAL_ID", "coop-log-*", "WRITE")
READ_SNAPSHOTS: Right = ("TOPIC", "{topic}-snapshots", "READ")
WRITE_SNAPSHOTS: Right = ("TOPIC", "{topic}-snapshots", "WRITE")
CREATE_SNAPSHOTS: Right = ("TOPIC", "{topic}-snapshots", "CREATE")
APPENDS = [READ_TOPIC, WRITE_TOPIC, WRITE_IDS]
SNAPSHOTS = [READ_SNAPSHOTS, WRITE_SNAPSHOTS, CREATE_SNAPSHOTS]

Allow = Callable[[list[Right]], dict[str, Any]]


@pytest.fixture
def allow(secured: EmbeddedBroker, root: AdminClient, group_id: str) -> Allow:
    """Give `ann` these rights to a new topic; her settings."""
    create_topic(root, group_id)

    def give(rights: list[Right]) -> dict[str, Any]:
        grant(root, Job(secured.client_config("root"), root, group_id, group_id), rights)
        return secured.client_config("ann")

    return give


def test_three_rights_are_enough_to_append_to_load_and_to_end_what_the_dead_left(
    allow: Allow, group_id: str
) -> None:
    settings = allow(APPENDS)
    with to_be_killed("tests.support.appending", settings, group_id, 5):  # behind its produce
        pass
    with ConditionalProducer(settings, group_id, 0, "a") as producer:
        token = producer.append([NewRecord(None, b"1")], producer.token())
        assert isinstance(token, LogToken)
        assert producer.bulk_load([NewRecord(None, b"2")]).count == 1


@pytest.mark.parametrize(
    ("missing", "named"),
    [(READ_TOPIC, "topic"), (WRITE_TOPIC, "topic"), (WRITE_IDS, "transactional.id coop-log-a-")],
)
def test_a_missing_right_is_named(
    allow: Allow, secured: EmbeddedBroker, group_id: str, missing: Right, named: str
) -> None:
    produce(secured.client_config("root"), group_id, ["something to read"])
    settings = allow([it for it in APPENDS if it != missing])
    with (
        pytest.raises(AuthorizationError, match=f"{named}.*ann|ann.*{named}"),
        ConditionalProducer(settings, group_id, 0, "a") as producer,
    ):
        producer.append([NewRecord(None, b"1")], producer.token())


def test_a_commit_log_needs_three_more_for_its_snapshots(allow: Allow, group_id: str) -> None:
    settings = allow([*APPENDS, *SNAPSHOTS])
    with CommitLog.open(settings, group_id, 0, "a", Registers()) as log:
        assert isinstance(log.append([put("x", 1)]), Applied)
        assert log.snapshot() == log.token
    state = Registers()
    with CommitLog.open(settings, group_id, 0, "b", state) as log:
        assert state.values == {"x": 1}
        assert state.offsets == []


def test_a_topic_of_snapshots_that_may_not_be_made_is_told(allow: Allow, group_id: str) -> None:
    settings = allow([*APPENDS, READ_SNAPSHOTS, WRITE_SNAPSHOTS])
    with CommitLog.open(settings, group_id, 0, "a", Registers()) as log:
        assert isinstance(log.append([put("x", 1)]), Applied)
        with pytest.raises(SnapshotError, match="has no topic"):
            log.snapshot()
        assert isinstance(log.append([put("x", 2)]), Applied)
