"""Fencing: what passes is asked again, for a while; what does not is told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.metadata import FindCoordinatorResponse

from coop_consumer.core.blocked_read import RunId
from coop_consumer.kafka import init_producer
from coop_consumer.kafka.membership import fencing

DEAD = RunId("m1", 6)


class Brokers:
    """What they answer to `InitProducerId`, one after the other; the last answer stays."""

    group_id = "billing"

    def __init__(self, *errors: type[Exception], is_old: bool = False) -> None:
        self._errors = list(errors)
        self.is_old = is_old
        self.inits = 0

    async def asked(self, request: Any, *, node_id: int | None = None, **_: object) -> Any:
        match type(request).__name__:
            case "DescribeGroupsRequest":
                group = SimpleNamespace(error_code=0, group_state="Stable", members=[])
                return SimpleNamespace(groups=[group])
            case "FindCoordinatorRequest":
                assert request.key == "coop-m1"
                assert request.coordinator_keys == ["coop-m1"]
                node = FindCoordinatorResponse(error_code=0, node_id=1)
                return node if self.is_old else SimpleNamespace(coordinators=[node])
        assert node_id == 1
        self.inits += 1
        error: Any = self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]
        return SimpleNamespace(error_code=error.errno)

    async def pause(self, _: float) -> None:
        """No time passes."""


def fenced(brokers: Any) -> list[RunId]:
    return asyncio.run(fencing.fence(brokers, {DEAD}, lambda run: f"coop-{run.member}"))


def test_markers_on_their_way_and_a_coordinator_that_moves_are_waited_for() -> None:
    brokers = Brokers(
        kafka_errors.ConcurrentTransactionsError,
        kafka_errors.NotCoordinatorError,
        kafka_errors.NoError,
    )
    assert fenced(brokers) == [DEAD]
    assert brokers.inits == 3


def test_markers_that_cannot_be_written_are_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The IO thread has the heartbeats to send as well."""
    monkeypatch.setattr(init_producer, "_PATIENCE_S", 0.0)
    brokers = Brokers(kafka_errors.ConcurrentTransactionsError)
    with pytest.raises(kafka_errors.ConcurrentTransactionsError):
        fenced(brokers)
    assert brokers.inits == 1


def test_a_missing_right_is_told_at_once() -> None:
    brokers = Brokers(kafka_errors.TransactionalIdAuthorizationFailedError)
    with pytest.raises(kafka_errors.TransactionalIdAuthorizationFailedError):
        fenced(brokers)
    assert brokers.inits == 1


def test_brokers_that_know_no_lists_of_ids_are_asked_as_well() -> None:
    """FindCoordinator of Kafka before 3.0 names one; exactly once works with 2.5 and newer."""
    assert fenced(Brokers(kafka_errors.NoError, is_old=True)) == [DEAD]
