"""The client that shows groups may stay open: one that has failed is replaced, once a question."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors

from coop_consumer.config import Config
from coop_consumer.errors import AuthorizationError, BrokerUnreachableError
from coop_consumer.kafka import group_view
from coop_consumer.kafka.group_view import CoordinatorView, StayingDescriber

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})


class Describer:
    """A client that answers, or fails as it is told."""

    made: list[Describer]
    fails: list[Exception]

    def __init__(self, **settings: Any) -> None:
        self.made.append(self)
        self.bootstrap_ms: int = settings["bootstrap_timeout_ms"]
        self.request_ms: int = settings["request_timeout_ms"]
        self.is_closed = False

    def describe_groups(self, groups: list[str]) -> dict[str, Any]:
        if self.fails:
            raise self.fails.pop(0)
        return {
            it: SimpleNamespace(group_state="Empty", protocol_data="", members=()) for it in groups
        }

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Describer]:
    monkeypatch.setattr(Describer, "made", [], raising=False)
    monkeypatch.setattr(Describer, "fails", [], raising=False)
    monkeypatch.setattr(group_view, "_Describer", Describer)
    return Describer.made


def view(describer: StayingDescriber | None = None) -> CoordinatorView:
    return CoordinatorView(CONFIG, lambda: None, describer)  # type: ignore[arg-type, return-value]


def test_a_view_that_does_not_stay_has_a_client_for_each_question(clients: list[Describer]) -> None:
    for _ in range(2):
        assert view().described().state == "Empty"

    assert [it.is_closed for it in clients] == [True, True]


def test_a_describer_that_stays_has_one_client_until_it_is_closed(clients: list[Describer]) -> None:
    describer = StayingDescriber(CONFIG)
    for _ in range(3):
        view(describer).described()

    assert [it.is_closed for it in clients] == [False]
    describer.close()
    assert clients[0].is_closed
    describer.close()


def test_a_connection_that_was_closed_meanwhile_is_no_error(clients: list[Describer]) -> None:
    staying = view(StayingDescriber(CONFIG))
    staying.described()
    Describer.fails.append(kafka_errors.KafkaConnectionError("closed"))

    assert staying.described().state == "Empty"
    assert [it.is_closed for it in clients] == [True, False]


def test_a_broker_that_is_away_is_told_and_no_client_is_left(clients: list[Describer]) -> None:
    staying = view(StayingDescriber(CONFIG))
    staying.described()
    Describer.fails += [kafka_errors.KafkaConnectionError("away")] * 2
    with pytest.raises(BrokerUnreachableError, match="away"):
        staying.described()

    assert all(it.is_closed for it in clients)
    assert staying.described().state == "Empty"


def test_that_no_broker_answers_is_told_within_seconds(clients: list[Describer]) -> None:
    """kafka-python tries for 30 s by itself: an exporter told of an outage after 40 s."""
    staying = view(StayingDescriber(CONFIG))
    staying.described()
    Describer.fails.append(kafka_errors.KafkaConnectionError("away"))
    staying.described()
    assert [it.bootstrap_ms for it in clients] == [10_000, 5_000]
    assert {it.request_ms for it in clients} == {10_000}


def test_a_missing_right_is_told_and_the_client_is_as_good_as_before(
    clients: list[Describer],
) -> None:
    describer = StayingDescriber(CONFIG)
    view(describer).described()
    Describer.fails.append(kafka_errors.GroupAuthorizationFailedError())
    with pytest.raises(AuthorizationError, match="billing"):
        view(describer).described()

    view(describer).described()
    assert [it.is_closed for it in clients] == [False]
