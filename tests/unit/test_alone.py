"""A question to a group's coordinator from outside is repeated while it moves or loads."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.admin.outside import commit_from_outside
from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError, UnexpectedAnswerError
from coop_consumer.kafka import alone, coordinator
from coop_consumer.kafka.topics import Topics
from coop_consumer.status.errors import GroupInUseError
from offsets import Committed

MOVES_OR_LOADS = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "PAUSE_S", 0.0)


class Moving:
    """An admin client that gets errors first, and then the answers.

    Args:
        codes: Of these errors.
        answer: What is answered then; a number is an error once more.
        apart: Whether a commit's error is told for its place alone.
    """

    def __init__(self, codes: tuple[int, ...], answer: object, *, apart: bool = False) -> None:
        self.asked = 0
        self._answers: list[Any] = [*codes, answer]
        self._apart = apart

    def describe_consumer_groups(self, groups: list[str], **_: object) -> dict[str, Future[Any]]:
        return dict.fromkeys(groups, self._next())

    def alter_consumer_group_offsets(self, asked: list[Any]) -> dict[str, Future[Any]]:
        return {it.group_id: self._next() for it in asked}

    def _next(self) -> Future[Any]:
        answer, future = self._answers[self.asked], Future[Any]()
        self.asked += 1
        if not isinstance(answer, int):
            future.set_result(answer)
        elif self._apart:
            refused = SimpleNamespace(error=KafkaError(answer))
            future.set_result(SimpleNamespace(topic_partitions=[refused]))
        else:
            future.set_exception(KafkaException(KafkaError(answer)))
        return future


def commit(admin: Moving) -> None:
    topics = cast(Topics, SimpleNamespace(admin=admin))
    commit_from_outside(topics, "billing", {TopicPartition("t", 0): (7, "")})


COMMITTED = SimpleNamespace(topic_partitions=[SimpleNamespace(error=None)])


def test_a_group_whose_coordinator_moves_and_loads_is_described_then() -> None:
    admin = Moving(MOVES_OR_LOADS, KafkaError.GROUP_ID_NOT_FOUND)
    alone.refuse_if_in_use(cast(AdminClient, admin), "billing")
    assert admin.asked == 4


def test_so_are_rights_to_it() -> None:
    rights = SimpleNamespace(authorized_operations=[SimpleNamespace(name="READ")])
    admin = Moving(MOVES_OR_LOADS, rights)
    assert coordinator.allowed_on_group(cast(AdminClient, admin), "billing") == ["READ"]


@pytest.mark.parametrize("apart", [False, True])
def test_offsets_are_committed_from_outside_once_the_coordinator_is_there(apart: bool) -> None:
    admin = Moving(MOVES_OR_LOADS, COMMITTED, apart=apart)
    commit(admin)
    assert admin.asked == 4


@pytest.mark.parametrize("apart", [False, True])
def test_any_other_error_is_final(apart: bool) -> None:
    admin = Moving((), KafkaError.UNKNOWN, apart=apart)
    with pytest.raises(UnexpectedAnswerError, match="group billing"):
        commit(admin)
    assert admin.asked == 1


def test_a_group_that_has_members_after_all_refuses_the_commit() -> None:
    admin = Moving(MOVES_OR_LOADS, KafkaError.UNKNOWN_MEMBER_ID, apart=True)
    with pytest.raises(GroupInUseError):
        commit(admin)


def test_patience_with_a_coordinator_ends() -> None:
    def ask(_: float) -> None:
        raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))

    with pytest.raises(UnexpectedAnswerError, match="group billing"):
        coordinator.ask_about_group("billing", ask, 0.0)


def test_a_coordinator_that_is_silent_is_named_by_its_group() -> None:
    def ask(_: float) -> None:
        raise TimeoutError

    with pytest.raises(BrokerUnreachableError, match="group billing"):
        coordinator.ask_about_group("billing", ask, 0.0)


class MovingConsumer:
    """A consumer whose group's coordinator moves and loads first."""

    def __init__(self) -> None:
        self._errors = list(MOVES_OR_LOADS)

    def committed(self, places: list[Place], _: float) -> list[Place]:
        if self._errors:
            raise KafkaException(KafkaError(self._errors.pop()))
        return [Place(it.topic, it.partition, 7) for it in places]

    def close(self) -> None:
        """Nothing is open."""


def test_who_assigns_ranges_itself_looks_up_offsets_once_the_coordinator_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alone, "Consumer", lambda *_, **__: MovingConsumer())
    config = Config(bootstrap_servers="table:9092", group_id="billing")
    without_group = alone.Alone(cast(Topics, SimpleNamespace()), config)
    answer = without_group.committed([("t", 0)])
    assert answer.result(30.0) == {("t", 0): (7, "")}
    without_group.leave()


class Brokers:
    """An admin client whose brokers answer as a test says."""

    def __init__(self) -> None:
        self.asked: list[Future[Any]] = []

    def describe_cluster(self, **_: object) -> Future[Any]:
        self.asked.append(Future())
        return self.asked[-1]


def test_who_assigns_ranges_itself_knows_when_a_broker_answered_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(alone, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(alone, "Consumer", lambda *_, **__: MovingConsumer())
    brokers, config = Brokers(), Config(bootstrap_servers="table:9092", group_id="billing")
    topics = cast(Topics, SimpleNamespace(admin=brokers))
    without_group = alone.Alone(topics, config)

    assert without_group.answered() == (None, False)
    brokers.asked[0].set_result("a cluster")
    assert without_group.answered() == (100.0, False)
    assert len(brokers.asked) == 1, "it asks once a second"
    now_s[0] = 101.0
    without_group.answered()
    now_s[0] = 140.0
    assert without_group.answered() == (100.0, False)
    assert len(brokers.asked) == 2, "one question at a time"
    brokers.asked[1].set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    assert without_group.answered() == (100.0, False)
    brokers.asked[2].set_result("a cluster")
    assert without_group.answered() == (140.0, False)
    without_group.leave()
    now_s[0] = 150.0
    without_group.answered()
    assert len(brokers.asked) == 3


class Unreadable:
    """A place whose metadata are followed by what is no text."""

    offset = 7

    @property
    def metadata(self) -> str:
        return b"coop-eo:12:0a1b2c3d\xd7\xff".decode()


@pytest.mark.parametrize(
    ("read", "metadata"),
    [
        (Place("t", 0, 7, "coop:1:0a1b2c3d"), "coop:1:0a1b2c3d"),
        (Place("t", 0, 7, "coop-eo:12:0a1b2c3d1f"), "coop-eo:12:0a1b2c3d"),
        (Unreadable(), "coop-eo:12:0a1b2c3d"),
        (Place("t", 0, 7, "coop-retired:coop:1:9:0a1b2c3d12"), "coop-retired:coop:1:9:0a1b2c3d"),
        (Place("t", 0, 7, "by a reset tool"), "by a reset tool"),
        (Place("t", 0, 7), ""),
    ],
)
def test_a_tag_is_read_without_what_lies_behind_it_in_memory(read: Any, metadata: str) -> None:
    """confluent-kafka returned that of a client that writes no NUL, such as kafka-python."""
    assert coordinator.committed_at(read) == Committed(7, metadata)
