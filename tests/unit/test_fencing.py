"""Fencing: what passes is asked again, for a while; what does not is told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.metadata import FindCoordinatorResponse

from coop_consumer.core.blocked_read import RunId
from coop_consumer.errors import AuthorizationError
from coop_consumer.kafka import init_producer
from coop_consumer.kafka.membership import fencing
from coop_consumer.kafka.membership.coordinator import Coordinator
from coop_consumer.kafka.membership.errors import in_our_words

DEAD = RunId("m1", 6)


class Brokers:
    """What they answer to `InitProducerId`, one after the other; the last answer stays."""

    group_id = "billing"

    def __init__(
        self, *errors: type[Exception], is_old: bool = False, states: tuple[str, ...] = ()
    ) -> None:
        self._errors = list(errors)
        self._states = [*states, "Stable"]
        self.is_old = is_old
        self.inits = 0

    async def asked(self, request: Any, *, node_id: int | None = None, **_: object) -> Any:
        match type(request).__name__:
            case "DescribeGroupsRequest":
                state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
                group = SimpleNamespace(error_code=0, group_state=state, members=[])
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


def fenced(brokers: Any) -> list[RunId] | None:
    return asyncio.run(fencing.fence(brokers, {DEAD}, id_of))


def id_of(run: RunId) -> str:
    return f"coop-{run.member}"


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
    with pytest.raises(kafka_errors.TransactionalIdAuthorizationFailedError) as raised:
        fenced(brokers)
    assert brokers.inits == 1
    settings = {"group_id": "g", "bootstrap_servers": "b:9092", "sasl_plain_username": "ann"}
    told = in_our_words(raised.value, settings, "m2")
    assert isinstance(told, AuthorizationError)
    assert str(told).startswith("transactional.id coop-m1: user ann may not write.")


def test_a_group_that_is_not_stable_is_asked_until_it_is() -> None:
    """One that was killed may come back meanwhile, and the others wait for its transaction."""
    unsettled = ("PreparingRebalance", "CompletingRebalance")
    assert fenced(Brokers(kafka_errors.NoError, states=unsettled)) is None
    brokers: Any = Brokers(kafka_errors.NoError, states=unsettled)

    async def patiently(send: Any) -> Any:
        return await send()

    brokers._patiently, brokers._net = patiently, SimpleNamespace(sleep=brokers.pause)
    assert asyncio.run(Coordinator.fence(brokers, {DEAD}, id_of)) == [DEAD]
    assert brokers.inits == 1


def test_brokers_that_know_no_lists_of_ids_are_asked_as_well() -> None:
    """FindCoordinator of Kafka before 3.0 names one; exactly once works with 2.5 and newer."""
    assert fenced(Brokers(kafka_errors.NoError, is_old=True)) == [DEAD]
